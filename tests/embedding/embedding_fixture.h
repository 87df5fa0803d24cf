/* A collection of several tables and features of every sort, batches drawn for it, and what lookups and
 * summed gradients are by definition, in double precision and by plain loops. */
#ifndef RK_TESTS_EMBEDDING_FIXTURE_H
#define RK_TESTS_EMBEDDING_FIXTURE_H

#include "state_bytes.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"
#include "collection_steps.h"
#include "embedding/local/collection.h"

enum {
    N_TABLES = 4,
    N_FEATURES = 8,
    MAX_SAMPLES = 700,
    MAX_BAG = 6,
    MAX_LENGTH = 4,
    MAX_ROWS = 300,
    MAX_TABLE_DIM = 20,
    GAP = 3
};

static const char *const table_names[N_TABLES] = {"user", "item", "tag", "still"};
static const int64_t table_rows[N_TABLES] = {300, 50, 7, 20};
static const int32_t table_dims[N_TABLES] = {16, 5, 20, 3};

/* weighted: the batch has weights. fixed: the batch is dense, so many ids a sample; 0: ragged. */
typedef struct sort {
    const char *name;
    int table;
    rk_combiner combiner;
    int32_t length;
    bool weighted;
    int fixed;
} sort;
static const sort sorts[N_FEATURES] = {
    {"user", 0, RK_COMBINER_MEAN, 0, false, 1},   {"item", 1, RK_COMBINER_MEAN, 0, true, 0},
    {"bought", 1, RK_COMBINER_SQRTN, 0, true, 3}, {"history", 1, RK_COMBINER_SUM, MAX_LENGTH, false, 0},
    {"tags", 2, RK_COMBINER_SUM, 0, true, 0},     {"more tags", 2, RK_COMBINER_SQRTN, 0, false, 0},
    {"still", 3, RK_COMBINER_MEAN, 0, false, 2},  {"words", 2, RK_COMBINER_MEAN, 0, false, 0},
};

typedef struct drawn {
    int64_t n;
    rk_ids ids[N_FEATURES];
    rk_activation activations[N_FEATURES];
    int64_t offsets[N_FEATURES][MAX_SAMPLES + 1], values[N_FEATURES][MAX_SAMPLES * MAX_BAG];
    float weights[N_FEATURES][MAX_SAMPLES * MAX_BAG];
    float out[N_FEATURES][MAX_SAMPLES * (MAX_LENGTH * MAX_TABLE_DIM + GAP)];
    int32_t lengths[N_FEATURES][MAX_SAMPLES];
} drawn;

static inline int32_t width_of(int f) {
    return table_dims[sorts[f].table] * (sorts[f].length ? sorts[f].length : 1);
}

/* The usual collection, every table of one dtype and optimizer; the last table is frozen. */
typedef struct usual_config {
    rk_table_config tables[N_TABLES];
    rk_feature_config features[N_FEATURES];
    rk_embeddings_config config;
} usual_config;

static inline void make_usual_config(const rk_optimizer *optimizer, rk_dtype dtype, usual_config *out) {
    for (int t = 0; t < N_TABLES; t++) {
        out->tables[t] = (rk_table_config)RK_TABLE_CONFIG_INIT;
        out->tables[t].name = table_names[t];
        out->tables[t].n_rows = table_rows[t];
        out->tables[t].dim = table_dims[t];
        out->tables[t].dtype = dtype;
        out->tables[t].frozen = t == N_TABLES - 1;
    }
    for (int f = 0; f < N_FEATURES; f++)
        out->features[f] = (rk_feature_config){sizeof *out->features,
                                               sorts[f].name,
                                               table_names[sorts[f].table],
                                               sorts[f].combiner,
                                               sorts[f].length,
                                               false,
                                               false};
    out->config = (rk_embeddings_config)RK_EMBEDDINGS_CONFIG_INIT;
    out->config.seed = 11;
    out->config.tables = out->tables;
    out->config.n_tables = N_TABLES;
    out->config.features = out->features;
    out->config.n_features = N_FEATURES;
    out->config.optimizer = optimizer;
}

static inline rk_status try_make_usual(const rk_optimizer *optimizer, rk_dtype dtype, rk_embeddings **out) {
    usual_config usual;
    make_usual_config(optimizer, dtype, &usual);
    return rk_embeddings_create(&usual.config, out);
}

/* Its tables are dynamic, but for the last one. */
static inline rk_status try_make_usual_dynamic(const rk_optimizer *optimizer, rk_dtype dtype,
                                               const rk_dynamic_config *dynamic, rk_embeddings **out) {
    usual_config usual;
    rk_table_part parts[N_TABLES];
    make_usual_config(optimizer, dtype, &usual);
    for (int t = 0; t < N_TABLES; t++) {
        bool is_dynamic = t < N_TABLES - 1;
        if (is_dynamic) usual.tables[t].n_rows = dynamic->max_capacity;
        parts[t] = (rk_table_part){
            .n_rows = usual.tables[t].n_rows, .dim = table_dims[t], .dynamic = is_dynamic ? dynamic : NULL};
    }
    return rk_embeddings_create_with_parts(&usual.config, parts, out);
}

static inline rk_embeddings *make_usual(const rk_optimizer *optimizer, rk_dtype dtype) {
    rk_embeddings *e;
    OK(try_make_usual(optimizer, dtype, &e));
    return e;
}

/* n samples: bags of 0 to MAX_BAG-1 ids, equal ones among them, some ids missing (-1), some weights 0 or
 * below. */
static inline void draw(drawn *b, uint64_t seed, int64_t n) {
    rk_rng rng = {seed, 77, 0};
    b->n = n;
    for (int f = 0; f < N_FEATURES; f++) {
        int64_t at = 0;
        for (int64_t s = 0; s < n; s++) {
            int64_t count = sorts[f].fixed ? sorts[f].fixed : (int64_t)rk_rng_below(&rng, MAX_BAG);
            b->offsets[f][s] = at;
            for (int64_t i = 0; i < count; i++, at++) {
                b->values[f][at] = rk_rng_below(&rng, 9) == 0
                                       ? -1
                                       : (int64_t)rk_rng_below(&rng, (uint64_t)table_rows[sorts[f].table]);
                b->weights[f][at] =
                    rk_rng_below(&rng, 7) == 0 ? 0.0f : (float)rk_rng_uniform(&rng) * 3 - 0.2f;
            }
        }
        b->offsets[f][n] = at;
        b->ids[f] = (rk_ids){sorts[f].fixed ? NULL : b->offsets[f], sorts[f].fixed, b->values[f],
                             sorts[f].weighted ? b->weights[f] : NULL};
        b->activations[f] = (rk_activation){b->out[f], width_of(f) + (f % 2 ? GAP : 0), b->lengths[f]};
    }
}

static inline void draw_gradients(drawn *b, uint64_t seed) {
    rk_rng rng = {seed, 78, 0};
    for (int f = 0; f < N_FEATURES; f++)
        for (int64_t i = 0; i < b->n * b->activations[f].stride; i++)
            b->out[f][i] = (float)rk_rng_normal(&rng);
}

/* The ids of a sample that count, with their coefficients; a sequence's in order. Returns how many. */
static inline int counted(const drawn *b, int f, int64_t s, int64_t ids[MAX_BAG],
                          double coefficients[MAX_BAG]) {
    bool weighted = sorts[f].weighted;
    int n = 0;
    double below = 0;
    for (int64_t i = b->offsets[f][s]; i < b->offsets[f][s + 1]; i++) {
        double w = weighted ? b->weights[f][i] : 1;
        if (b->values[f][i] < 0 || (w <= 0 && sorts[f].combiner != RK_COMBINER_SUM)) continue;
        if (sorts[f].length && n == sorts[f].length) break;
        ids[n] = b->values[f][i];
        coefficients[n++] = w;
        below += sorts[f].combiner == RK_COMBINER_SQRTN ? w * w : w;
    }
    if (sorts[f].combiner == RK_COMBINER_SQRTN) below = sqrt(below);
    for (int i = 0; i < n && sorts[f].combiner != RK_COMBINER_SUM && !sorts[f].length; i++)
        coefficients[i] /= below;
    return n;
}

/* What the activations of sample s must be, out [width_of(f)], from the rows of the feature's table. */
static inline void look_up_by_definition(const drawn *b, int f, int64_t s, const float *rows, double *out) {
    int64_t ids[MAX_BAG];
    double coefficients[MAX_BAG];
    int n = counted(b, f, s, ids, coefficients), dim = table_dims[sorts[f].table];
    for (int k = 0; k < width_of(f); k++) out[k] = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < dim; k++)
            out[(sorts[f].length ? i * dim : 0) + k] += coefficients[i] * rows[ids[i] * dim + k];
}

/* The summed gradient of every row of table t, sums [rows, dim], and which rows the batch touches. */
static inline void sum_by_definition(const drawn *b, int t, double *sums, bool *touched) {
    int dim = table_dims[t];
    memset(sums, 0, (size_t)table_rows[t] * (size_t)dim * sizeof *sums);
    memset(touched, 0, (size_t)table_rows[t]);
    for (int f = 0; f < N_FEATURES; f++)
        for (int64_t s = 0; s < b->n && sorts[f].table == t; s++) {
            int64_t ids[MAX_BAG];
            double coefficients[MAX_BAG];
            int n = counted(b, f, s, ids, coefficients);
            for (int i = 0; i < n; i++) {
                const float *g = b->out[f] + s * b->activations[f].stride + (sorts[f].length ? i * dim : 0);
                for (int k = 0; k < dim; k++) sums[ids[i] * dim + k] += coefficients[i] * g[k];
                touched[ids[i]] = true;
            }
        }
}

/* All bytes of a collection's state, one after another. Free with rk_free. */
static inline char *copy_state(rk_embeddings *e, size_t *n_bytes) {
    rk_state_dict state = {0};
    OK(rk_embeddings_state_dict(e, &state));
    return bytes_of_state(&state, n_bytes);
}

static inline void assert_same_state(rk_embeddings *a, rk_embeddings *b, bool same) {
    size_t a_bytes, b_bytes;
    char *x = copy_state(a, &a_bytes), *y = copy_state(b, &b_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_int_equal(memcmp(x, y, a_bytes) == 0, same);
    rk_free(x);
    rk_free(y);
}

/* `steps` training steps from step number `first` on. */
static inline void train_steps(rk_embeddings *e, drawn *b, int first, int steps, int64_t n) {
    for (int step = first; step < first + steps; step++) {
        draw(b, (uint64_t)step, n);
        OK(look_up(e, n, b->ids, b->activations));
        draw_gradients(b, (uint64_t)step);
        OK(apply_gradients(e, b->activations));
    }
}

#endif
