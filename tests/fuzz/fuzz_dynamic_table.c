/* What a checkpoint may say of a dynamic table: any keys, twice or not, any counts and batches; and then
 * batches of any keys. The first bytes: how many keys, candidates and rows, and which policies. Each key that
 * has a row is found, and no other. */
#include <stdlib.h>
#include <string.h>

#include "embedding/local/collection_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MOST = 64, HEAD = 5 };

/* What is left of the input; then zeros. */
typedef struct rest {
    const uint8_t *at;
    size_t n_bytes;
} rest;

static uint8_t next(rest *r) {
    return r->n_bytes ? (r->n_bytes--, *r->at++) : 0;
}

/* Small keys, so that some are equal, and those at the ends of all. */
static void take_keys(rest *r, int64_t *keys, int64_t n) {
    for (int64_t i = 0; i < n; i++) keys[i] = (int64_t)(int8_t)next(r) * (i % 5 == 4 ? (int64_t)1 << 56 : 1);
}

static bool load(rk_embeddings *e, rest *r, int64_t n_keys, int64_t n_candidates) {
    int64_t keys[MOST];
    rk_state_dict state = {0};
    take_keys(r, keys, n_keys);
    rk_stored_keys stored = {"table/t/keys", 0, n_keys, n_keys, keys};
    if (rk_embeddings_load_keys(e, &stored) != RK_OK) return false;
    take_keys(r, keys, n_candidates);
    stored = (rk_stored_keys){"table/t/candidate_keys", 0, n_candidates, n_candidates, keys};
    if (rk_embeddings_load_keys(e, &stored) != RK_OK) return false;
    if (rk_embeddings_state_dict(e, &state) != RK_OK) abort();
    for (size_t i = 0; i < state.n; i++) {
        const rk_state_dict_entry *entry = &state.entries[i];
        if (strstr(entry->name, "keys") || entry->type == RK_F32) continue;
        for (int64_t row = 0; row < entry->dims[0]; row++)
            for (size_t b = 0; b < rk_state_dict_row_bytes(entry); b++)
                ((uint8_t *)entry->data)[(size_t)row * rk_state_dict_stride(entry) + b] = next(r);
    }
    rk_state_dict_release(&state);
    if (rk_embeddings_finish_loading(e) != RK_OK) abort();
    return true;
}

static void check(rk_embeddings *e) {
    rk_state_dict state = {0};
    rk_dynamic_table *t = e->tables[0].dynamic;
    if (rk_embeddings_state_dict(e, &state) != RK_OK) abort();
    rk_state_dict_release(&state);
    for (int64_t i = 0; i < t->n_keys; i++) {
        int64_t row;
        rk_dynamic_find_rows(t, &t->info[t->order[i]].key, 1, &row);
        if (row != t->order[i] || row < 1 || row >= t->n_used) abort();
    }
    if (t->n_keys + t->n_free + 1 != t->n_used) abort();
}

static void train(rk_embeddings *e, rest *r) {
    int64_t keys[MOST], n = next(r) % MOST;
    take_keys(r, keys, n);
    rk_ids ids = {NULL, 1, keys, NULL};
    rk_embeddings_set_batch_timestamp(e, next(r) * (int64_t)RK_MICROSECONDS);
    if (rk_embeddings_dedup(e, n, &ids, true) != RK_OK) abort();
    check(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    if (n_bytes < HEAD) return 0;
    rest r = {data + HEAD, n_bytes - HEAD};
    rk_dynamic_config dynamic = {.max_capacity = 1 + data[2] % 40,
                                 .policy = data[3] % 3,
                                 .evict_to = (data[3] >> 4) / 15.0,
                                 .min_count = 2 + data[4] % 2,
                                 .probability = data[4] & 4 ? 0.5 : 1,
                                 .oov = data[4] & 8};
    dynamic.counter = data[0] / MOST % 3;
    dynamic.ttl_steps = data[1] / MOST;
    dynamic.ttl = (data[3] >> 2) % 4;
    dynamic.keep = data[2] >> 7 ? dynamic.max_capacity / 2 : 0;
    dynamic.n_buckets = 1 + (data[4] >> 4) % dynamic.max_capacity;
    rk_table_part part = {.n_rows = dynamic.max_capacity, .dim = 2, .dynamic = &dynamic};
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    rk_feature_config feature = RK_FEATURE_CONFIG_INIT;
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    rk_embeddings *e;
    table.name = feature.name = feature.table = "t";
    table.n_rows = part.n_rows;
    table.dim = part.dim;
    config.tables = &table;
    config.features = &feature;
    config.n_tables = config.n_features = 1;
    if (rk_embeddings_create_with_parts(&config, &part, &e) != RK_OK) return 0;
    if (load(e, &r, data[0] % MOST, data[1] % MOST)) {
        check(e);
        for (int i = 0; i < 3; i++) train(e, &r);
    }
    rk_embeddings_free(e);
    return 0;
}
