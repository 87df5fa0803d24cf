/* What a run consists of, without allocating its memory: its tables, and the size and work of its dense
 * part. */
#include <string.h>

#include "base/memory.h"
#include "embedding/planner/table_traffic.h"
#include "optim/optimizer_slots.h"
#include "train/plan/plan_internal.h"

static rk_status resolve_tables(rk_plan *plan, const rk_data_schema *schema) {
    const rk_config *c = plan->config;
    return rk_model_make_collection_config(&c->model, &c->embedding, &c->yaml, schema, &c->optimizer,
                                           &plan->tables);
}

rk_status rk_plan_build_model(const rk_config *config, const rk_data_schema *schema,
                              rk_row_reduction reduction, rk_model_options options, rk_model **out) {
    rk_data_schema small = *schema;
    rk_embedding_section section = config->embedding;
    RK_AUTOFREE rk_data_feature_info *features = NULL;
    RK_AUTOFREE struct rk_table_section *tables = NULL;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)schema->n_features, features),
                        RK_ARRAY((size_t)section.n_tables, tables)));
    for (int32_t f = 0; f < schema->n_features; f++) {
        features[f] = schema->features[f];
        features[f].cardinality = rk_reduced_rows(reduction, features[f].cardinality);
    }
    for (int64_t t = 0; t < section.n_tables; t++) {
        tables[t] = section.tables[t];
        tables[t].rows = rk_reduced_rows(reduction, tables[t].rows);
        tables[t].storage = (struct rk_storage_section){0}; /* steps are timed with rows in memory */
        tables[t].max_capacity = rk_reduced_rows(reduction, tables[t].max_capacity);
        if (tables[t].buckets > tables[t].max_capacity) tables[t].buckets = tables[t].max_capacity;
        if (tables[t].eviction.keep > tables[t].max_capacity)
            tables[t].eviction.keep = tables[t].max_capacity;
        tables[t].missing.hash = rk_reduced_rows(reduction, tables[t].missing.hash);
    }
    small.features = features;
    section.tables = tables;
    options.schema = &small;
    options.embedding = &section;
    return rk_model_build(&options, out);
}

static rk_status build_outline(const rk_plan *plan, const rk_data_schema *schema, rk_model **out) {
    rk_model_options options;
    RK_TRY(rk_config_model_options(plan->config, schema, false, &options));
    options.max_batch = 1;
    options.is_outline = true;
    return rk_model_build(&options, out);
}

static rk_status count_dense_parameters(rk_model *model, double *out) {
    RK_AUTO(rk_state_dict_release) rk_state_dict state = {0};
    RK_TRY(rk_model_state_dict(model, &state));
    *out = 0;
    for (size_t i = 0; i < state.n; i++)
        if (strncmp(state.entries[i].name, "dense/", 6) == 0)
            *out += (double)rk_state_dict_entry_bytes(&state.entries[i]) / sizeof(float);
    return RK_OK;
}

static void sum_sample_sizes(rk_plan *plan, const rk_data_schema *schema) {
    for (int32_t f = 0; f < plan->tables.n_features; f++) {
        int32_t t = plan->tables.table_of[f], length = plan->tables.features[f].max_sequence_length;
        plan->dense.width += (double)plan->tables.tables[t].dim * (length ? length : 1);
    }
    plan->dense.sample_bytes = sizeof(float) * (double)(schema->n_dense + schema->n_tasks);
}

rk_status rk_plan_describe_run(rk_plan *plan) {
    RK_TRY(rk_config_transforms(plan->config, NULL, NULL, &plan->transforms));
    const rk_data_schema *schema = rk_transforms_schema(plan->transforms);
    RK_AUTO(rk_model_auto_free) rk_model *model = NULL;
    rk_slot slots[RK_MAX_SLOTS];
    RK_TRY(resolve_tables(plan, schema));
    RK_TRY(build_outline(plan, schema, &model));
    rk_model_work work = rk_model_estimate_work(model, 1);
    plan->dense.flops = work.flops;
    plan->dense.layer_in = work.layer_in;
    plan->dense.layer_out = work.layer_out;
    RK_TRY(count_dense_parameters(model, &plan->dense.parameters));
    rk_dense_wire wire = rk_config_dense_wire(plan->config);
    plan->dense.sent_bytes = (double)rk_model_dense_wire_bytes(model, wire);
    bool has_residual = rk_dense_wire_keeps_residual(wire); /* and the next one */
    plan->dense.bytes =
        plan->dense.parameters * sizeof(float) *
        (4 + rk_optimizer_list_slots(&plan->config->optimizer, slots) + (has_residual ? 2 : 0));
    sum_sample_sizes(plan, schema);
    return RK_OK;
}

double rk_plan_part_bytes(const rk_plan *plan, int32_t t, int32_t part) {
    const rk_table_placement *p = &plan->placements[t];
    int64_t rows = rk_planner_request_part_rows(&plan->request, t, part, p->n_parts);
    return rk_planner_request_bytes_of_rows(&plan->request, t, rows) / p->n_slices;
}

double rk_plan_table_bytes(const rk_plan *plan, int32_t t) {
    const rk_table_placement *p = plan->placements ? &plan->placements[t] : NULL;
    double bytes = 0;
    if (!p || !p->owners)
        return rk_planner_request_bytes_of_rows(&plan->request, t,
                                                rk_planner_request_table_rows(&plan->request, t));
    for (int32_t part = 0; part < p->n_parts; part++)
        bytes += rk_plan_part_bytes(plan, t, part) * p->n_slices;
    return bytes;
}

int64_t rk_plan_nominal_rows(const rk_plan *plan, int32_t t) {
    const rk_data_schema *schema = rk_transforms_schema(plan->transforms);
    int64_t most = 0;
    for (int32_t f = 0; f < plan->tables.n_features; f++) {
        if (plan->tables.table_of[f] != t) continue;
        int64_t ids = schema->features[plan->tables.sources[f]].cardinality;
        if (ids == 0) return 0;
        if (ids > most) most = ids;
    }
    return most;
}
