/* A dynamic table and the reference (dynamic_fixture.h), batch by batch side by side. */
#ifndef RK_TESTS_REFERENCE_RUN_H
#define RK_TESTS_REFERENCE_RUN_H

#include "embedding/dynamic_fixture.h"

static reference known;
static int64_t keys[MAX_USES];

static inline void begin_reference(const rk_dynamic_config *config, rk_embeddings *e) {
    memset(&known, 0, sizeof known);
    known.config = *config;
    known.table = dynamic_of(e);
}

/* Few keys often, many seldom; they drift on from batch to batch. */
static inline void draw_keys(uint64_t batch, int64_t n, int64_t range) {
    rk_rng rng = {batch, 41, 0};
    for (int64_t i = 0; i < n; i++) {
        double u = rk_rng_uniform(&rng);
        keys[i] = (int64_t)(u * u * u * (double)range) + (int64_t)batch * 3 - 20;
    }
}

static inline void run_against_reference(rk_dynamic_config config, int32_t n_features, int64_t n,
                                         int batches) {
    rk_embeddings *e = make_dynamic(&config, RK_OPTIMIZER_SGD, n_features);
    begin_reference(&config, e);
    for (int b = 0; b < batches; b++) {
        draw_keys((uint64_t)b, n_features * n, 400);
        train_step(e, n, keys);
        step_reference(&known, n_features * n, keys);
        assert_as_reference(&known, e);
    }
    rk_embeddings_free(e);
}

#endif
