/* A model's tables over ranks: the planner's request for them, the sharding, and their store. */
#include <math.h>

#include "base/memory.h"
#include "embedding/planner/lookup_counter.h"
#include "embedding/sharded/sharded_store.h"
#include "model/retrieval/retrieval.h"
#include "model/step/ranks.h"

/* A two_tower also asks for items that are drawn and for histories, which no batch of the data has: which
 * rows those are is assumed. */
static rk_status assume_retrieval_statistics(const rk_retrieval *retrieval, const rk_model_lookup *lookups,
                                             const rk_collection_config *collection,
                                             const rk_model_cluster *cluster, rk_table_statistics *loads) {
    const rk_planner_request *request = &cluster->request;
    RK_AUTOFREE double *ids = NULL;
    RK_TRY(rk_alloc((size_t)collection->n_tables, sizeof *ids, &ids));
    for (int32_t f = 0; f < collection->n_features; f++) {
        double most = collection->features[f].max_sequence_length
                          ? collection->features[f].max_sequence_length
                          : INFINITY;
        ids[collection->table_of[f]] += fmin(
            rk_retrieval_ids_per_sample(retrieval, lookups[f].source, cluster->sample, request->batch_size),
            most);
    }
    for (int32_t t = 0; t < collection->n_tables; t++)
        loads[t] = rk_table_statistics_assume(collection->tables[t].n_rows, ids[t], request->batch_size,
                                              request->roles.n_trainers);
    return RK_OK;
}

/* The count keeps the hot rows. */
static rk_status compute_table_statistics(const rk_collection_config *collection,
                                          const rk_model_cluster *cluster, rk_table_statistics *loads,
                                          rk_lookup_counter **out) {
    RK_TRY(rk_lookup_counter_create(collection, cluster->request.roles.n_trainers, out));
    RK_TRY(rk_lookup_counter_add_batch(*out, cluster->sample));
    rk_lookup_counter_compute_statistics(*out, loads);
    return RK_OK;
}

rk_status rk_model_create_sharded(rk_model *model, const rk_model_options *options,
                                  const rk_collection_config *collection) {
    const rk_ranks *ranks = model->ranks;
    rk_embeddings_config config = rk_collection_config_to_embeddings_config(collection, options->seed);
    rk_planner_request request = options->cluster->request;
    rk_table_placement *placements = NULL;
    RK_AUTOFREE rk_table_statistics *loads = NULL;
    rk_lookup_counter *count = NULL;
    rk_status status;
    request.tables = config.tables;
    request.n_tables = config.n_tables;
    request.dynamic = collection->dynamic;
    request.features = config.features;
    request.n_features = config.n_features;
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY((size_t)config.n_tables, placements),
                         RK_ARRAY((size_t)config.n_tables, loads)));
    if (options->cluster->sample && model->loss->extends)
        RK_GOTO(assume_retrieval_statistics(model->retrieval, model->lookups, collection, options->cluster,
                                            loads));
    if (options->cluster->sample && !model->loss->extends)
        RK_GOTO(compute_table_statistics(collection, options->cluster, loads, &count));
    request.loads = options->cluster->sample ? loads : NULL;
    RK_GOTO(rk_sharding_plan_choose(&request, placements));
    RK_GOTO(rk_table_placements_check_same(ranks->comm, placements, config.n_tables));
    rk_sharded_options wanted = {.config = &config,
                                 .placements = placements,
                                 .comm = ranks->comm,
                                 .roles = ranks->roles,
                                 .first_micro_batches = ranks->first_micro_batches,
                                 .micro_batch_samples = rk_graph_micro_batch_size(model->graph),
                                 .wire = request.wire,
                                 .staleness = options->staleness,
                                 .dynamic = collection->dynamic};
    RK_GOTO(rk_sharded_create(&wanted, &model->sharded));
    model->store = rk_sharded_as_store(model->sharded);
    for (int32_t t = 0; t < collection->n_tables; t++)
        RK_GOTO(rk_sharded_set_l2(model->sharded, collection->tables[t].name, collection->l2[t],
                                  collection->l2_full[t]));
done:
    for (int32_t t = 0; t < config.n_tables && placements; t++) rk_table_placement_release(&placements[t]);
    rk_free(placements);
    rk_lookup_counter_free(count);
    return status;
}
