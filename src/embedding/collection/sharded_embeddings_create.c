/* A collection over ranks made: all ranks agree that they can, on what, and on who holds which rows. */
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "embedding/collection/sharded_embeddings.h"
#include "embedding/planner/sharding_planner.h"

enum { REPLICATE_BELOW = 10000, USUAL_BATCH = 4096 };

/* By tables without rows, which take next to no memory. */
static rk_status check_collection_config(const rk_embeddings_config *config,
                                         const rk_dynamic_config *dynamic) {
    RK_AUTOFREE rk_table_part *parts = NULL;
    rk_embeddings *tables = NULL;
    RK_TRY(rk_alloc((size_t)config->n_tables, sizeof *parts, &parts));
    for (int32_t t = 0; t < config->n_tables; t++)
        parts[t] = (rk_table_part){.n_rows = config->tables[t].n_rows,
                                   .dim = config->tables[t].dim,
                                   .absent = true,
                                   .dynamic = dynamic[t].max_capacity ? &dynamic[t] : NULL};
    rk_status status = rk_embeddings_create_with_parts(config, parts, &tables);
    rk_embeddings_free(tables);
    return status;
}

static uint64_t hash_text(const char *text, uint64_t hash) {
    return text ? rk_hash_bytes(text, strlen(text) + 1, hash) : rk_hash_i64(0, hash);
}

static uint64_t hash_dynamic(const rk_dynamic_config *d, uint64_t hash) {
    int64_t numbers[] = {d->max_capacity, d->n_buckets, d->policy,  d->ttl_steps, d->ttl,
                         d->keep,         d->min_count, d->counter, d->oov,       d->n_cold};
    double shares[] = {d->evict_to, d->probability};
    return rk_hash_bytes(shares, sizeof shares, rk_hash_bytes(numbers, sizeof numbers, hash));
}

static uint64_t hash_config(const rk_embeddings_config *config, const rk_dynamic_config *dynamic) {
    uint64_t hash = rk_hash_i64((int64_t)config->seed, 0);
    hash = rk_hash_i64(config->n_tables, hash);
    for (int32_t t = 0; t < config->n_tables; t++) {
        const rk_table_config *table = &config->tables[t];
        const rk_optimizer *o = table->optimizer ? table->optimizer : config->optimizer;
        hash = hash_text(table->name, hash);
        int64_t numbers[] = {table->n_rows,         table->dim,
                             (int64_t)table->dtype, (int64_t)table->initializer.kind,
                             table->frozen,         o ? (int64_t)o->kind : -1};
        hash = rk_hash_bytes(numbers, sizeof numbers, hash);
        hash = hash_dynamic(&dynamic[t], hash);
        if (o) hash = rk_hash_bytes(&o->learning_rate, sizeof o->learning_rate, hash);
    }
    for (int32_t f = 0; f < config->n_features; f++) {
        const rk_feature_config *feature = &config->features[f];
        hash = hash_text(feature->table, hash_text(feature->name, hash));
        int64_t numbers[] = {(int64_t)feature->combiner, feature->max_sequence_length,
                             feature->skip_validation, feature->weighted};
        hash = rk_hash_bytes(numbers, sizeof numbers, hash);
    }
    return hash;
}

static rk_status check_config_same_on_ranks(const rk_embeddings_config *config,
                                            const rk_dynamic_config *dynamic) {
    uint64_t hash = hash_config(config, dynamic);
    bool same;
    RK_TRY(rk_comm_all_equal(config->comm, &hash, sizeof hash, &same));
    RK_FAIL_IF(!same, RK_CONFIG, "the ranks' embeddings have different tables, features or seeds");
    return RK_OK;
}

static rk_status plan_sharding(const rk_embeddings_config *config, const rk_dynamic_config *dynamic,
                               rk_table_placement *placements) {
    int32_t size = rk_comm_size(config->comm);
    rk_planner_request request = {.tables = config->tables,
                                  .n_tables = config->n_tables,
                                  .dynamic = dynamic,
                                  .features = config->features,
                                  .n_features = config->n_features,
                                  .optimizer = config->optimizer,
                                  .roles = {size, 0},
                                  .batch_size = (int64_t)USUAL_BATCH * size,
                                  .replicate_below = REPLICATE_BELOW,
                                  .wire = RK_F32};
    RK_TRY(rk_comm_agree_on_status(config->comm, rk_sharding_plan_choose(&request, placements)));
    return rk_table_placements_check_same(config->comm, placements, config->n_tables);
}

static rk_status create_sharded_store(const rk_embeddings_config *config, const rk_dynamic_config *dynamic,
                                      const rk_table_placement *placements, rk_sharded **out) {
    int32_t size = rk_comm_size(config->comm);
    RK_AUTOFREE int64_t *first = NULL;
    rk_sharded *sharded = NULL;
    rk_status status = rk_alloc((size_t)size + 1, sizeof *first, &first);
    for (int32_t r = 0; r <= size && status == RK_OK; r++) first[r] = r; /* a leaf of sums each */
    rk_sharded_options options = {.config = config,
                                  .placements = placements,
                                  .comm = config->comm,
                                  .roles = {size, 0},
                                  .first_micro_batches = first,
                                  .wire = RK_F32,
                                  .dynamic = dynamic};
    if (status == RK_OK) status = rk_sharded_create(&options, &sharded);
    status = rk_comm_agree_on_status(config->comm, status);
    if (status == RK_OK)
        *out = sharded;
    else if (sharded)
        rk_sharded_as_store(sharded)->ops->free(rk_sharded_as_store(sharded));
    return status;
}

rk_status rk_sharded_embeddings_create(const rk_embeddings_config *config, const rk_dynamic_config *dynamic,
                                       rk_status taken, rk_embeddings **out) {
    rk_table_placement *placements = NULL;
    rk_sharded *sharded;
    rk_status status = taken == RK_OK ? check_collection_config(config, dynamic) : taken;
    if (status == RK_OK) status = rk_alloc((size_t)config->n_tables, sizeof *placements, &placements);
    RK_GOTO(rk_comm_agree_on_status(config->comm, status));
    RK_GOTO(check_config_same_on_ranks(config, dynamic));
    RK_GOTO(plan_sharding(config, dynamic, placements));
    RK_GOTO(create_sharded_store(config, dynamic, placements, &sharded));
    *out = sharded->trainer_tables;
    (*out)->ops = &rk_over_ranks;
    (*out)->ranks = sharded;
done:
    for (int32_t t = 0; placements && t < config->n_tables; t++) rk_table_placement_release(&placements[t]);
    rk_free(placements);
    return status;
}
