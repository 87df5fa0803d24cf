/* A dynamic table of a few rows, lookups of four keys in it, and its state. */
#ifndef RK_TESTS_SMALL_DYNAMIC_TABLE_H
#define RK_TESTS_SMALL_DYNAMIC_TABLE_H

#include "testing.h"

#include <string.h>

#include <reckon/reckon.h>

#include "base/error.h"

enum { DIM = 5 };

/* A table's state, read. */
static inline rk_status same_states(const rk_table_state *a, const rk_table_state *b) {
    RK_FAIL_IF(rk_table_state_n_tensors(a) != rk_table_state_n_tensors(b), RK_INTERNAL, "other tensors");
    for (int32_t i = 0; i < rk_table_state_n_tensors(a); i++) {
        const rk_tensor *x = rk_table_state_tensor(a, i), *y = rk_table_state_tensor(b, i);
        const char *name = rk_table_state_name(a, i);
        RK_FAIL_IF(strcmp(name, rk_table_state_name(b, i)) != 0 || x->n_dims != y->n_dims ||
                       memcmp(x->shape, y->shape, sizeof x->shape) != 0 || x->dtype != y->dtype,
                   RK_INTERNAL, "tensor '%s' has %lld rows, not %lld", name, (long long)x->shape[0],
                   (long long)y->shape[0]);
        RK_FAIL_IF(memcmp(x->data, y->data, (size_t)rk_tensor_n_values(x) * rk_dtype_bytes(x->dtype)) != 0,
                   RK_INTERNAL, "tensor '%s' is another", name);
    }
    return RK_OK;
}

static inline rk_status write_state(rk_embeddings *e, const char *table, const rk_table_state *state) {
    enum { MOST = 32 };
    const char *names[MOST];
    rk_tensor tensors[MOST];
    int32_t n = rk_table_state_n_tensors(state);
    for (int32_t i = 0; i < n; i++) {
        names[i] = rk_table_state_name(state, i);
        tensors[i] = *rk_table_state_tensor(state, i);
    }
    return rk_embeddings_write_state(e, table, n, names, tensors);
}

/* A table of so many rows, of one feature whose ids are one a sample. */
static inline rk_embeddings *make_small(int64_t max_capacity, int64_t ttl) {
    rk_dynamic_options dynamic = RK_DYNAMIC_OPTIONS_INIT;
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    rk_feature_config feature = RK_FEATURE_CONFIG_INIT;
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    rk_embeddings *e;
    dynamic.max_capacity = max_capacity;
    dynamic.ttl = ttl;
    table.name = "t", table.dim = DIM, table.dynamic = &dynamic;
    feature.name = "f", feature.table = "t", feature.combiner = RK_COMBINER_SUM;
    config.tables = &table, config.n_tables = 1, config.features = &feature, config.n_features = 1;
    OK(rk_embeddings_create(&config, &e));
    return e;
}

static float small_values[8 * DIM];

static inline rk_status look_up_keys(rk_embeddings *e, rk_lookup *lookup, int64_t first) {
    static int64_t keys[4];
    for (int64_t i = 0; i < 4; i++) keys[i] = first + i;
    const rk_ids ids = {.ids_per_sample = 1, .ids = keys};
    const rk_activation to = {small_values, DIM, NULL};
    return rk_embeddings_lookup(e, 4, &ids, lookup, &to);
}

static inline rk_status backward_of(rk_lookup *lookup, float gradient) {
    const rk_activation from = {small_values, DIM, NULL};
    for (int i = 0; i < 4 * DIM; i++) small_values[i] = gradient;
    return rk_lookup_backward(lookup, &from);
}

static inline int64_t n_rows_of(rk_embeddings *e) {
    rk_key_totals totals = RK_KEY_TOTALS_INIT;
    OK(rk_embeddings_count_keys(e, "t", &totals));
    return totals.n_rows;
}

#endif
