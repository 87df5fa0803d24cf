/* A sharded collection of one rank, whose messages are given as bytes: what another rank might send. */
#ifndef RK_TESTS_SHARDED_ALONE_H
#define RK_TESTS_SHARDED_ALONE_H

#include <string.h>

#include "embedding/sharded/sharded_internal.h"

enum { ALONE_SAMPLES = 3, ALONE_TABLES = 3, ALONE_FEATURES = 4 };

/* A table by its rows, one whose two features' bags are combined by the owner, and one of keys, which travel
 * ahead as if it had rows on a disk. */
static inline rk_status alone_create(rk_comm *comm, rk_dtype wire, rk_sharded **out) {
    static const char *const names[] = {"rows", "bags", "keys"}, *const feature_names[] = {"a", "b", "c",
                                                                                           "d"};
    static const int64_t first_shards[] = {0, 1};
    rk_optimizer optimizer;
    rk_table_config tables[ALONE_TABLES] = {RK_TABLE_CONFIG_INIT, RK_TABLE_CONFIG_INIT, RK_TABLE_CONFIG_INIT};
    rk_dynamic_config dynamic[ALONE_TABLES] = {{0}};
    rk_feature_config features[ALONE_FEATURES] = {RK_FEATURE_CONFIG_INIT, RK_FEATURE_CONFIG_INIT,
                                                  RK_FEATURE_CONFIG_INIT, RK_FEATURE_CONFIG_INIT};
    rk_table_placement placements[ALONE_TABLES];
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    RK_TRY(rk_optimizer_init(&optimizer, RK_OPTIMIZER_SGD));
    for (int t = 0; t < ALONE_TABLES; t++) {
        tables[t].name = names[t];
        tables[t].n_rows = 20;
        tables[t].dim = 2 + t;
        tables[t].optimizer = &optimizer;
        RK_TRY(rk_table_placement_init(&placements[t], 1, 1));
        placements[t].owner_pooling = t == 1;
        placements[t].owners[0] = 0;
    }
    for (int f = 0; f < ALONE_FEATURES; f++) {
        features[f].name = feature_names[f];
        features[f].table = names[(f + 1) / 2];
    }
    dynamic[2] = (rk_dynamic_config){.max_capacity = 20,
                                     .n_buckets = 2,
                                     .evict_to = 1,
                                     .min_count = 2,
                                     .probability = 1,
                                     .oov = true,
                                     .is_read = true,
                                     .storage = "nowhere"};
    config.tables = tables;
    config.n_tables = ALONE_TABLES;
    config.features = features;
    config.n_features = ALONE_FEATURES;
    rk_sharded_options options = {&config,       placements, comm, {1, 0}, first_shards,
                                  ALONE_SAMPLES, wire,       0,    dynamic};
    rk_status status = rk_sharded_create(&options, out);
    for (int t = 0; t < ALONE_TABLES; t++) rk_table_placement_release(&placements[t]);
    return status;
}

/* A batch's ask as a trainer packs it, in in_flight_batches[0].ask[0]. */
static inline rk_status alone_ask(rk_sharded *s) {
    static const int64_t ids[] = {4, 9, 4, 19, 0, 7}, offsets[] = {0, 2, 3, 6};
    const rk_ids batch[ALONE_FEATURES] = {{.ids = ids, .ids_per_sample = 1},
                                          {.ids = ids, .offsets = offsets},
                                          {.ids = ids, .ids_per_sample = 2},
                                          {.ids = ids, .ids_per_sample = 1}};
    rk_in_flight_batch *j = &s->in_flight_batches[0];
    j->kind = RK_IN_FLIGHT_TRAIN;
    rk_sharded_as_store(s)->ops->prefetch(rk_sharded_as_store(s), 0, ALONE_SAMPLES, batch);
    RK_TRY(rk_in_flight_batch_input_dist(s, j, ALONE_SAMPLES, batch));
    rk_all_to_all_free(j->ids);
    j->ids = NULL;
    return RK_OK;
}

static inline rk_status alone_receive(rk_sharded *s, rk_channel channel, const void *data, size_t n_bytes,
                                      rk_all_to_all **out) {
    rk_message message = {(void *)(size_t)data, n_bytes};
    rk_all_to_all_free(*out);
    *out = NULL;
    RK_TRY(rk_all_to_all_begin(s->comm, channel, &message, NULL, NULL, out));
    return rk_all_to_all_wait(*out);
}

static inline void alone_forget(rk_in_flight_batch *j) {
    rk_all_to_all *exchanges[] = {j->ids, j->rows, j->gradients};
    for (int i = 0; i < 3; i++) rk_all_to_all_free(exchanges[i]);
    j->ids = j->rows = j->gradients = NULL;
}

/* The owner's side of a batch: an ask and gradients that came as these bytes. */
static inline rk_status alone_serve(rk_sharded *s, const void *ask, size_t ask_bytes, const void *give,
                                    size_t give_bytes) {
    rk_in_flight_batch *j = &s->in_flight_batches[0];
    rk_gradients_header header;
    rk_status status = alone_receive(s, RK_CHANNEL_IDS, ask, ask_bytes, &j->ids);
    if (status == RK_OK) status = rk_in_flight_batch_read_ids(s, j);
    if (status == RK_OK && j->kind != RK_IN_FLIGHT_CONTROL) status = rk_in_flight_batch_serve_rows(s, j);
    if (status == RK_OK) status = alone_receive(s, RK_CHANNEL_GRADIENTS, give, give_bytes, &j->gradients);
    if (status == RK_OK) status = rk_in_flight_batch_read_gradients_header(j, 0, &header);
    j->applies = 1;
    if (status == RK_OK && j->kind == RK_IN_FLIGHT_TRAIN) status = rk_in_flight_batch_update_rows(s, j);
    alone_forget(j);
    return status;
}

/* The trainer's: rows that came as these bytes. */
static inline rk_status alone_take(rk_sharded *s, const void *rows, size_t n_bytes) {
    rk_in_flight_batch *j = &s->in_flight_batches[0];
    rk_status status = alone_ask(s);
    if (status == RK_OK) status = alone_receive(s, RK_CHANNEL_ROWS, rows, n_bytes, &j->rows);
    if (status == RK_OK) status = rk_in_flight_batch_output_dist(s, j);
    alone_forget(j);
    return status;
}

#endif
