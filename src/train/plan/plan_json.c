/* A plan as one JSON object, and as a plan file. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "embedding/planner/table_traffic.h"
#include "train/config/plan_file.h"
#include "train/plan/plan_internal.h"

static json_t *table_json(const rk_plan *plan, int32_t t) {
    const rk_table_config *table = &plan->tables.tables[t];
    const rk_table_placement *p = &plan->placements[t];
    const rk_table_statistics *load = &plan->loads[t];
    json_t *ranks = json_array();
    for (int32_t i = 0; !p->replicated && i < p->n_slices * p->n_parts; i++)
        json_array_append_new(ranks, json_integer(p->owners[i]));
    json_t *object = json_pack(
        "{s:s, s:I, s:i, s:f, s:s, s:i, s:i, s:b, s:o, s:f, s:f, s:f, s:f}", "name", table->name, "rows",
        (json_int_t)rk_planner_request_table_rows(&plan->request, t), "dim", table->dim, "bytes",
        rk_plan_table_bytes(plan, t), "sharding", rk_sharding_names[rk_table_placement_sharding(p)], "slices",
        p->n_slices, "parts", p->n_parts, "owner_pooling", (int)p->owner_pooling, "ranks", ranks, "ids",
        load->ids, "rows_a_batch", load->batch_rows, "rows_a_trainer", load->local_rows, "hottest",
        load->n_hot ? load->hot[0].share : 0.0);
    int64_t nominal = rk_plan_nominal_rows(plan, t);
    if (rk_planner_request_dynamic_config(&plan->request, t)) /* null: any 64 bits */
        json_object_set_new(object, "nominal_rows", nominal ? json_integer(nominal) : json_null());
    if (rk_planner_request_is_on_disk(&plan->request, t))
        json_object_set_new(object, "disk_bytes",
                            json_real(rk_planner_request_disk_bytes(&plan->request, t, table->n_rows)));
    return object;
}

static json_t *rank_json(const rk_plan *plan, int32_t r) {
    const rk_plan_rank *rank = &plan->ranks[r];
    json_t *object =
        json_pack("{s:i, s:b, s:b, s:f, s:f, s:f}", "rank", r, "trains", (int)rk_plan_trains(plan, r),
                  "holds_rows", (int)rk_plan_owns(plan, r), "bytes", rank->all_bytes, "memory_bytes",
                  plan->machines[r].capacity.memory_bytes, "busy_seconds", rank->seconds);
    for (int i = 0; i < RK_PLAN_MEMORY_COUNT; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_bytes", rk_plan_memory_names[i]);
        json_object_set_new(object, key, json_real(rank->bytes[i]));
    }
    return object;
}

static json_t *step_json(const rk_plan *plan) {
    const rk_plan_step *step = &plan->step;
    json_t *parts = json_object(), *object;
    for (int i = 0; i < RK_PLAN_PART_COUNT; i++)
        json_object_set_new(parts, rk_plan_part_names[i], json_real(step->parts[i]));
    object = json_pack("{s:f, s:f, s:f, s:b, s:f, s:I, s:o}", "seconds", step->seconds, "samples_per_second",
                       step->samples_per_second, "balance", step->balance, "overlaps", (int)plan->overlaps,
                       "all_reduce_beside", step->reduce_beside, "steps_measured",
                       (json_int_t)plan->calibration.n_steps, "parts", parts);
    if (!isnan(step->price_per_hour))
        json_object_set_new(object, "price_per_hour", json_real(step->price_per_hour));
    return object;
}

rk_status rk_plan_to_json(const rk_plan *plan, char **out) {
    json_t *tables = json_array(), *ranks = json_array();
    for (int32_t t = 0; t < plan->tables.n_tables; t++) json_array_append_new(tables, table_json(plan, t));
    for (int32_t r = 0; r < plan->n_ranks; r++) json_array_append_new(ranks, rank_json(plan, r));
    json_auto_t *root =
        json_pack("{s:b, s:i, s:i, s:I, s:I, s:o, s:o, s:o}", "fits", (int)rk_plan_fits(plan), "trainers",
                  plan->request.roles.n_trainers, "owners", plan->request.roles.n_owners, "batch_size",
                  (json_int_t)plan->request.batch_size, "sampled_rows", (json_int_t)plan->sampled_rows,
                  "tables", tables, "ranks", ranks, "step", step_json(plan));
    char *text = root ? json_dumps(root, JSON_REAL_PRECISION(10)) : NULL;
    RK_FAIL_IF(!text, RK_NO_MEMORY, "could not write the plan as JSON");
    rk_status status = rk_strdup(text, out);
    free(text);
    return status;
}

rk_status rk_plan_write(const rk_plan *plan, const char *path) {
    RK_TRY(rk_plan_check(plan));
    return rk_plan_file_write(path, &plan->request.roles, plan->tables.tables, plan->placements,
                              plan->tables.n_tables);
}
