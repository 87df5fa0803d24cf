/* A plan from a run file and a cluster. */
#include <reckon/experimental/plan.h>

#include <stdio.h>

#include "base/memory.h"
#include "base/struct_size.h"
#include "base/text/text.h"
#include "embedding/planner/table_traffic.h"
#include "train/plan/plan_internal.h"

static rk_status load_cluster_file(rk_plan *plan, const rk_plan_options *options) {
    if (options->cluster)
        RK_TRY(rk_cluster_file_load(options->cluster, &plan->cluster));
    else
        RK_TRY(rk_cluster_file_this_machine(options->n_ranks ? options->n_ranks : 1, &plan->cluster));
    if (options->cluster && !options->measure)
        return rk_cluster_file_needs_measuring(&plan->cluster) ? rk_cluster_file_missing_error(&plan->cluster)
                                                               : RK_OK;
    return rk_plan_measure_limits(plan);
}

/* All of a request but loads; a plan that the run file names is not asked, for this one is to take its
 * place. */
static void fill_planner_request(rk_plan *plan) {
    const rk_config *c = plan->config;
    plan->request = (rk_planner_request){.tables = plan->tables.tables,
                                         .n_tables = plan->tables.n_tables,
                                         .features = plan->tables.features,
                                         .n_features = plan->tables.n_features,
                                         .dynamic = plan->tables.dynamic,
                                         .batch_size = c->train.batch_size,
                                         .replicate_below = c->cluster.replicate_below,
                                         .wire = (rk_dtype)c->cluster.wire,
                                         .constraints = c->constraints,
                                         .n_constraints = (int32_t)c->cluster.n_tables};
    plan->overlaps = c->train.staleness > 0;
    plan->asynchronous = c->cluster.asynchronous && plan->overlaps;
}

static double assumed_ids_of_table(const rk_plan *plan, const char *table) {
    const rk_data_section *data = &plan->config->data;
    double ids = 0;
    for (int32_t f = 0; f < plan->tables.n_features; f++) {
        const rk_feature_config *feature = &plan->tables.features[f];
        if (strcmp(feature->table, table) != 0) continue;
        int32_t source = plan->tables.sources[f];
        int64_t length = 0;
        for (int64_t i = 0, number = 0; i < data->n_features; i++)
            if (!data->features[i].dense && number++ == source) length = data->features[i].max_length;
        if (feature->max_sequence_length && (length == 0 || feature->max_sequence_length < length))
            length = feature->max_sequence_length;
        ids += length ? (double)length : 1;
    }
    return ids;
}

/* Of a dynamic table over the ids that there can be, or, of keys, over as many as it holds. */
static void assume_table_statistics(rk_plan *plan) {
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        int64_t nominal = rk_plan_nominal_rows(plan, t);
        plan->loads[t] = rk_table_statistics_assume(nominal ? nominal : plan->tables.tables[t].n_rows,
                                                    assumed_ids_of_table(plan, plan->tables.tables[t].name),
                                                    plan->request.batch_size, plan->request.roles.n_trainers);
    }
}

static rk_status build_plan(rk_plan *plan, const rk_plan_options *options) {
    const rk_config *c = plan->config;
    plan->calibration = rk_plan_neutral_calibration();
    RK_TRY(rk_plan_describe_run(plan));
    fill_planner_request(plan);
    RK_TRY(load_cluster_file(plan, options));
    RK_TRY(rk_plan_set_ranks(plan, options->n_ranks));
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)plan->tables.n_tables, plan->loads),
                        RK_ARRAY((size_t)plan->tables.n_tables, plan->placements)));
    plan->request.loads = plan->loads;
    if (options->sample)
        RK_TRY(rk_plan_sample(plan, options->sample_rows));
    else
        assume_table_statistics(plan);
    plan->data_bytes = rk_plan_data_bytes(plan, rk_config_row_cache_bytes(c));
    if (options->measure) RK_TRY(rk_plan_calibrate(plan));
    RK_TRY(rk_plan_place_tables(plan));
    return rk_plan_fits(plan) ? RK_OK : rk_plan_advise(plan);
}

rk_status rk_plan_make(const rk_config *config, const rk_plan_options *options, rk_plan **out) {
    rk_plan_options o = RK_PLAN_OPTIONS_INIT;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_plan_options, sample_rows),
                              "rk_plan_options"));
    rk_plan *plan;
    RK_FAIL_IF(rk_config_has_pairs(config), RK_UNSUPPORTED,
               "'reckon plan' does not support 'model.kind: two_tower'");
    RK_TRY(rk_alloc(1, sizeof *plan, &plan));
    plan->train_rows = -1;
    rk_status status = rk_config_copy(config, &plan->config);
    if (status == RK_OK) status = build_plan(plan, &o);
    if (status == RK_OK)
        *out = plan;
    else
        rk_plan_free(plan);
    return status;
}

void rk_plan_free(rk_plan *plan) {
    if (!plan) return;
    rk_plan_release_ranks(plan);
    rk_cluster_file_release(&plan->cluster);
    rk_lookup_counter_free(plan->count);
    rk_collection_config_release(&plan->tables);
    RK_FREE_ALL(plan->placements, plan->loads, plan->advice);
    rk_config_free(plan->config);
    rk_free(plan);
}

rk_status rk_plan_check(const rk_plan *plan) {
    if (rk_plan_fits(plan)) return RK_OK;
    const rk_plan_rank *rank = &plan->ranks[plan->fullest];
    rk_status status = rk_error(RK_NO_MEMORY, "the run does not fit: rank %d needs %s of %s", plan->fullest,
                                rk_format_size(rank->all_bytes).text,
                                rk_format_size(plan->machines[plan->fullest].capacity.memory_bytes).text);
    return rk_error_hint(status, "%s", plan->advice);
}
