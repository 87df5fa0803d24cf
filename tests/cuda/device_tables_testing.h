/* Two collections of one config, one of them on a device: the same batches go through both. */
#ifndef RK_DEVICE_TABLES_TESTING_H
#define RK_DEVICE_TABLES_TESTING_H

#include "base/rng.h" /* before a `stream` is declared, which is a parameter there */

#include "cuda/device_testing.h"

#include <math.h>

#include "cuda/dense/dense_optimizer_step.h"
#include "cuda/tables/table.h"
#include "collection_steps.h"
#include "embedding/cuda/device_tables.h"

enum { MAX_FEATURES = 16, STRIDE_SLACK = 4 };

/* How a feature's random ids look. */
typedef struct shape {
    int64_t ids_per_sample; /* > 0: dense input; 0: bags of up to `most` ids */
    int64_t most;
    int64_t long_bag; /* every 16th bag has so many */
    int64_t n_hot;    /* half of the ids are of so many rows; 0: none */
    bool weighted, negatives;
} shape;

typedef struct twins {
    rk_embeddings *host, *home;
    rk_device_tables *tables;
    rk_stream *upload, *dedup;
    int32_t n_features;
    int64_t max_batch;
    const shape *shapes;
    const rk_embeddings_config *config;
    rk_rng rng;
    /* of the batches made last, by turns */
    int64_t n;
    rk_ids ids[MAX_FEATURES];
    rk_activation on_host[MAX_FEATURES], on_device[MAX_FEATURES],
        gradients[MAX_FEATURES]; /* gradients: of the host */
    rk_activation device_gradients[MAX_FEATURES];
    uint32_t *stop;
} twins;

static inline const rk_table_config *table_of_feature(const rk_embeddings_config *config, int32_t f) {
    for (int32_t t = 0; t < config->n_tables; t++)
        if (!strcmp(config->tables[t].name, config->features[f].table)) return &config->tables[t];
    return NULL;
}

/* parts [n_tables]: of tables that are dynamic; NULL: none is. */
static inline void open_twins_of(twins *w, const rk_embeddings_config *config, const rk_table_part *parts,
                                 const shape *shapes, int64_t max_batch, uint64_t budget_bytes) {
    *w = (twins){.n_features = config->n_features,
                 .max_batch = max_batch,
                 .shapes = shapes,
                 .config = config,
                 .rng = {7, 0, 0}};
    OK(rk_embeddings_create_with_parts(config, parts, &w->host));
    OK(rk_embeddings_create_with_parts(config, parts, &w->home));
    static int n_opened;
    const rk_device_tables_options options = {
        .max_batch = max_batch, .budget_bytes = budget_bytes, .wide_keys = n_opened++ % 2};
    OK(rk_device_tables_create(w->home, device, &options, &w->tables));
    OK(rk_stream_create(device, &w->upload));
    OK(rk_stream_create(device, &w->dedup));
    for (int32_t f = 0; f < w->n_features; f++) {
        int64_t stride =
            rk_embeddings_width(w->host, f) + (f % 2 ? STRIDE_SLACK : 1); /* aligned ones and others */
        size_t n_bytes = (size_t)(max_batch * stride) * sizeof(float);
        w->on_host[f] = (rk_activation){.data = calloc(1, n_bytes), .stride = stride};
        w->gradients[f] = (rk_activation){.data = calloc(1, n_bytes), .stride = stride};
        w->on_device[f] = (rk_activation){.data = on_device(NULL, n_bytes), .stride = stride};
        w->device_gradients[f] = (rk_activation){.data = on_device(NULL, n_bytes), .stride = stride};
    }
    w->stop = on_device(NULL, sizeof *w->stop);
}

static inline void open_twins(twins *w, const rk_embeddings_config *config, const shape *shapes,
                              int64_t max_batch, uint64_t budget_bytes) {
    open_twins_of(w, config, NULL, shapes, max_batch, budget_bytes);
}

static inline void free_ids(twins *w) {
    for (int32_t f = 0; f < w->n_features; f++) {
        free((void *)(size_t)w->ids[f].offsets);
        free((void *)(size_t)w->ids[f].ids);
        free((void *)(size_t)w->ids[f].weights);
        w->ids[f] = (rk_ids){0};
    }
}

static inline void close_twins(twins *w) {
    free_ids(w);
    rk_device_tables_free(w->tables);
    rk_embeddings_free(w->host);
    rk_embeddings_free(w->home);
    rk_stream_free(w->upload);
    rk_stream_free(w->dedup);
    for (int32_t f = 0; f < w->n_features; f++) {
        free(w->on_host[f].data);
        free(w->gradients[f].data);
        rk_device_free(device, w->on_device[f].data);
        rk_device_free(device, w->device_gradients[f].data);
    }
    rk_device_free(device, w->stop);
}

static inline int64_t draw_id(twins *w, const shape *s, int64_t n_rows) {
    if (s->negatives && rk_rng_below(&w->rng, 6) == 0) return -1 - (int64_t)rk_rng_below(&w->rng, 3);
    if (s->n_hot && rk_rng_below(&w->rng, 2))
        return (int64_t)rk_rng_below(&w->rng, (uint64_t)(s->n_hot < n_rows ? s->n_hot : n_rows));
    return (int64_t)rk_rng_below(&w->rng, (uint64_t)n_rows);
}

static inline void draw_feature(twins *w, int32_t f) {
    const shape *s = &w->shapes[f];
    int64_t *offsets = calloc((size_t)w->n + 1, sizeof *offsets),
            n_rows = table_of_feature(w->config, f)->n_rows;
    for (int64_t b = 0; b < w->n; b++) {
        int64_t length =
            s->ids_per_sample ? s->ids_per_sample : (int64_t)rk_rng_below(&w->rng, (uint64_t)s->most + 1);
        offsets[b + 1] = offsets[b] + (s->long_bag && b % 16 == 3 ? s->long_bag : length);
    }
    int64_t n_ids = offsets[w->n], *ids = calloc((size_t)n_ids + 1, sizeof *ids);
    float *weights = s->weighted ? calloc((size_t)n_ids + 1, sizeof *weights) : NULL;
    for (int64_t i = 0; i < n_ids; i++) {
        ids[i] = draw_id(w, s, n_rows);
        if (weights) weights[i] = (float)rk_rng_below(&w->rng, 9) * 0.37f - (s->negatives ? 0.7f : -0.1f);
    }
    if (s->ids_per_sample) {
        free(offsets);
        offsets = NULL;
    }
    w->ids[f] =
        (rk_ids){.offsets = offsets, .ids_per_sample = s->ids_per_sample, .ids = ids, .weights = weights};
}

static inline void draw_ids(twins *w, int64_t n) {
    free_ids(w);
    w->n = n;
    for (int32_t f = 0; f < w->n_features; f++) draw_feature(w, f);
}

static inline void draw_gradients(twins *w) {
    for (int32_t f = 0; f < w->n_features; f++) {
        int64_t n = w->max_batch * w->gradients[f].stride;
        for (int64_t i = 0; i < n; i++) w->gradients[f].data[i] = (float)rk_rng_normal(&w->rng);
        OK(rk_device_upload(device, w->device_gradients[f].data, w->gradients[f].data,
                            (size_t)n * sizeof(float)));
    }
}

/* exact: equal values; else a normalized mean square error of at most 1e-10. */
static inline void compare_values(const char *name, const float *a, const float *b, int64_t n, bool exact) {
    double error = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        if (exact && !(a[i] == b[i]))
            print_error("%s: value %lld: %.9g on the host, %.9g on the device\n", name, (long long)i,
                        (double)a[i], (double)b[i]);
        if (exact) assert_true(a[i] == b[i]);
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        all += (double)a[i] * a[i];
    }
    if (!(error <= 1e-10 * all)) print_error("%s: error %g of %g\n", name, error, all);
    assert_true(error <= 1e-10 * all);
}

static inline void compare_activations(const twins *w, bool exact) {
    for (int32_t f = 0; f < w->n_features; f++) {
        int64_t width = rk_embeddings_width(w->host, f), stride = w->on_host[f].stride;
        float *back = calloc((size_t)(w->max_batch * stride), sizeof *back);
        OK(rk_device_download(device, back, w->on_device[f].data,
                              (size_t)(w->max_batch * stride) * sizeof *back));
        for (int64_t s = 0; s < w->n; s++)
            compare_values(w->config->features[f].name, w->on_host[f].data + s * stride, back + s * stride,
                           width, exact);
        free(back);
    }
}

/* Rows, slots and steps. bf16 and f16 rows only where exact. */
static inline void compare_tables(twins *w, bool exact) {
    rk_state_dict a = {0}, b = {0};
    OK(rk_device_tables_flush(w->tables));
    OK(rk_embeddings_state_dict(w->host, &a));
    OK(rk_embeddings_state_dict(w->home, &b));
    for (size_t i = 0; i < a.n; i++) {
        int64_t n = a.entries[i].dims[0] * (a.entries[i].n_dims > 1 ? a.entries[i].dims[1] : 1);
        if (a.entries[i].type == RK_F32)
            compare_values(a.entries[i].name, a.entries[i].data, b.entries[i].data, n, exact);
        else if (exact || a.entries[i].type == RK_I64)
            assert_memory_equal(a.entries[i].data, b.entries[i].data,
                                rk_state_dict_entry_bytes(&a.entries[i]));
    }
    rk_state_dict_release(&a);
    rk_state_dict_release(&b);
}

static inline void route_twins(twins *w, bool training) {
    OK(rk_device_tables_dedup(w->tables, w->upload, w->dedup, w->n, NULL, w->ids, training));
}

static inline void look_up_twins(twins *w, bool exact, bool training) {
    OK(training ? look_up(w->host, w->n, w->ids, w->on_host)
                : look_up_eval(w->host, w->n, w->ids, w->on_host));
    OK(rk_device_tables_check_ids(w->tables));
    OK(rk_device_tables_prepare_batch(w->tables, stream));
    OK(rk_device_tables_lookup(w->tables, stream, w->on_device));
    OK(rk_stream_sync(stream));
    compare_activations(w, exact);
}

static inline void apply_twins(twins *w) {
    draw_gradients(w);
    OK(apply_gradients(w->host, w->gradients));
    OK(rk_device_tables_flag_not_finite(w->tables, stream, w->device_gradients, w->stop));
    OK(rk_device_tables_apply_gradients(w->tables, stream, w->device_gradients, w->stop));
    rk_device_tables_end_batch(w->tables, true);
}

/* A step of n samples on both. */
static inline void step_twins(twins *w, int64_t n, bool exact) {
    draw_ids(w, n);
    route_twins(w, true);
    look_up_twins(w, exact, true);
    apply_twins(w);
}

#endif
