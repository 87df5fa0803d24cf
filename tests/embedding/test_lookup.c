/* rk_lookup objects: several threads that look up at once, several lookups that wait for their backwards, and
 * steps from all of them. */
#include <pthread.h>

#include "testing.h"

#include "embedding_fixture.h"
#include "embedding/local/local_lookup.h"

enum { N_THREADS = 4, N_ROUNDS = 8 };

static void assert_same_activations(const drawn *a, const drawn *b) {
    for (int f = 0; f < N_FEATURES; f++)
        for (int64_t s = 0; s < a->n; s++) {
            int64_t at = s * a->activations[f].stride;
            assert_memory_equal(a->out[f] + at, b->out[f] + at, (size_t)width_of(f) * sizeof(float));
            if (sorts[f].length) assert_int_equal(a->lengths[f][s], b->lengths[f][s]);
        }
}

/* A thread's lookups, and what they should have written. */
typedef struct reader {
    rk_embeddings *embeddings;
    drawn batches[2], expected[2];
    rk_status status;
    bool in_blocks;
} reader;

static rk_status look_up_eval_in_blocks(const rk_embeddings *e, void *lookup, const drawn *b) {
    rk_status status = rk_local_lookup_set_ids(e, lookup, b->n, b->ids);
    for (int32_t f = 0; f < N_FEATURES && status == RK_OK; f++)
        for (int64_t first = 0; first < b->n; first += 64) {
            rk_activation to = b->activations[f];
            to.data += first * to.stride;
            to.lengths += first;
            rk_local_lookup_read_feature(e, lookup, f, first, first + 64 < b->n ? first + 64 : b->n, &to);
        }
    return status;
}

static void *read_rows(void *context) {
    reader *r = context;
    rk_lookup *lookup = NULL;
    void *local = NULL;
    r->status = rk_lookup_create(r->embeddings, &lookup);
    if (r->status == RK_OK) r->status = rk_local_lookup_create(r->embeddings, &local);
    for (int round = 0; round < N_ROUNDS && r->status == RK_OK; round++) {
        drawn *b = &r->batches[round % 2];
        memset(b->out, 0x55, sizeof b->out);
        r->status = r->in_blocks
                        ? look_up_eval_in_blocks(r->embeddings, local, b)
                        : rk_embeddings_lookup_eval(r->embeddings, b->n, b->ids, lookup, b->activations);
    }
    rk_local_lookup_free(r->embeddings, local);
    rk_lookup_free(lookup);
    return NULL;
}

static void test_many_threads_look_up_eval(void **state) {
    (void)state;
    static reader readers[N_THREADS];
    rk_embeddings *e = make_usual(NULL, RK_BF16);
    for (int i = 0; i < N_THREADS; i++)
        for (int k = 0; k < 2; k++) {
            drawn *expected = &readers[i].expected[k];
            readers[i].embeddings = e;
            readers[i].in_blocks = i % 2;
            draw(expected, (uint64_t)(2 * i + k), 300 + 50 * i - 120 * k);
            OK(look_up_eval(e, expected->n, expected->ids, expected->activations));
            draw(&readers[i].batches[k], (uint64_t)(2 * i + k), expected->n);
        }
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_rows, &readers[i]), 0);
    for (int i = 0; i < N_THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(readers[i].status, RK_OK);
        for (int k = 0; k < 2; k++) assert_same_activations(&readers[i].batches[k], &readers[i].expected[k]);
    }
    rk_embeddings_free(e);
}

static void test_refused_lookups(void **state) {
    (void)state;
    static drawn batch;
    rk_embeddings *e = make_usual(NULL, RK_F32), *other = make_usual(NULL, RK_F32);
    rk_lookup *lookup;
    void *local;
    FAILS(rk_lookup_create(NULL, &lookup), RK_INVALID_ARGUMENT, "a lookup needs a collection");
    OK(rk_lookup_create(other, &lookup));
    OK(rk_local_lookup_create(other, &local));
    draw(&batch, 1, 20);
    FAILS(rk_embeddings_lookup_eval(e, batch.n, batch.ids, NULL, batch.activations), RK_INVALID_ARGUMENT,
          "a lookup of a collection needs an rk_lookup");
    FAILS(rk_embeddings_lookup_eval(e, batch.n, batch.ids, lookup, batch.activations), RK_INVALID_ARGUMENT,
          "the rk_lookup was created for another collection");
    static const int64_t hostile[] = {300, INT64_MAX, 1LL << 32, 1LL << 40};
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        int64_t kept = batch.values[0][7];
        batch.values[0][7] = hostile[i];
        assert_int_equal(rk_embeddings_lookup_eval(other, batch.n, batch.ids, lookup, batch.activations),
                         RK_BAD_DATA);
        assert_non_null(strstr(rk_last_error(), "feature 'user': sample 7: id"));
        assert_int_equal(rk_local_lookup_set_ids(other, local, batch.n, batch.ids), RK_BAD_DATA);
        batch.values[0][7] = kept;
        OK(rk_embeddings_lookup_eval(other, batch.n, batch.ids, lookup, batch.activations));
    }
    rk_local_lookup_free(other, local);
    rk_lookup_free(lookup);
    rk_lookup_free(NULL);
    rk_embeddings_free(e);
    rk_embeddings_free(other);
}

static rk_lookup *make_lookup(const rk_embeddings *e) {
    rk_lookup *lookup;
    OK(rk_lookup_create(e, &lookup));
    return lookup;
}

/* Three ways to train, to the bit: a model's, a backward and a step, both in one call. */
static void test_one_lookup_has_the_bits_of_a_models_step(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++)
        for (int dtype = 0; dtype < RK_ROW_DTYPE_COUNT; dtype++) {
            rk_optimizer o;
            OK(rk_optimizer_init(&o, (rk_optimizer_kind)kind));
            o.weight_decay = 0.01;
            rk_embeddings *e[3];
            rk_lookup *lookups[3];
            for (int way = 0; way < 3; way++) {
                e[way] = make_usual(&o, (rk_dtype)dtype);
                lookups[way] = make_lookup(e[way]);
                OK(rk_embeddings_set_l2(e[way], "user", 0.01, 0));
                OK(rk_embeddings_set_l2(e[way], "item", 0.01, 0.02));
            }
            for (uint64_t step = 0; step < 3; step++) {
                static drawn outs[3];
                for (int way = 0; way < 3; way++) {
                    draw(&outs[way], step, 200 + 200 * (int64_t)step);
                    drawn *b = &outs[way];
                    OK(way ? rk_embeddings_lookup(e[way], b->n, b->ids, lookups[way], b->activations)
                           : look_up(e[way], b->n, b->ids, b->activations));
                    if (way) assert_same_activations(b, &outs[0]);
                }
                for (int way = 0; way < 3; way++) {
                    drawn *b = &outs[way];
                    draw_gradients(b, step);
                    if (way == 0) OK(apply_gradients(e[way], b->activations));
                    if (way == 1) OK(rk_lookup_backward(lookups[way], b->activations));
                    if (way == 1) OK(rk_embeddings_step(e[way]));
                    if (way == 2) OK(rk_lookup_apply_gradients(lookups[way], b->activations));
                }
                assert_same_state(e[0], e[1], true);
                assert_same_state(e[0], e[2], true);
            }
            for (int way = 0; way < 3; way++) {
                rk_lookup_free(lookups[way]);
                rk_embeddings_free(e[way]);
            }
        }
}

/* A layer that is used twice in a step: two lookups before their backwards. In double, adagrad by its
 * definition from the sum of both gradients. */
static void test_two_lookups_at_once(void **state) {
    (void)state;
    static drawn batches[2];
    static float before[MAX_ROWS * MAX_TABLE_DIM], after[MAX_ROWS * MAX_TABLE_DIM];
    static double sums[2][MAX_ROWS * MAX_TABLE_DIM];
    bool touched[2][MAX_ROWS];
    rk_optimizer adagrad;
    OK(rk_optimizer_init(&adagrad, RK_OPTIMIZER_ADAGRAD));
    for (int fused = 0; fused < 2; fused++) {
        rk_embeddings *e = make_usual(&adagrad, RK_F32), *unchanged = make_usual(&adagrad, RK_F32);
        rk_lookup *lookups[2] = {make_lookup(e), make_lookup(e)};
        for (uint64_t i = 0; i < 2; i++) {
            draw(&batches[i], 40 + i, 300 - 200 * (int64_t)i);
            drawn *b = &batches[i];
            OK(rk_embeddings_lookup(e, b->n, b->ids, lookups[i], b->activations));
        }
        for (uint64_t i = 0; i < 2; i++) draw_gradients(&batches[i], i);
        OK(rk_lookup_backward(lookups[1], batches[1].activations)); /* the last first, as a tape unrolls */
        assert_same_state(e, unchanged, true);
        if (fused) {
            OK(rk_lookup_apply_gradients(lookups[0], batches[0].activations));
        } else {
            OK(rk_lookup_backward(lookups[0], batches[0].activations));
            assert_same_state(e, unchanged, true);
            OK(rk_embeddings_step(e));
        }
        for (int t = 0; t < N_TABLES; t++) {
            for (int i = 0; i < 2; i++) sum_by_definition(&batches[i], t, sums[i], touched[i]);
            OK(rk_embeddings_read_rows(unchanged, table_names[t], 0, table_rows[t], before));
            OK(rk_embeddings_read_rows(e, table_names[t], 0, table_rows[t], after));
            for (int64_t k = 0; k < table_rows[t] * table_dims[t]; k++) {
                double g = sums[0][k] + sums[1][k], w = before[k];
                if (t < N_TABLES - 1) w -= adagrad.learning_rate * g / (sqrt(0.1 + g * g) + 1e-8);
                assert_true(fabs(after[k] - w) < 1e-5);
                if (!touched[0][k / table_dims[t]] && !touched[1][k / table_dims[t]])
                    assert_true(after[k] == before[k]);
            }
        }
        for (int i = 0; i < 2; i++) rk_lookup_free(lookups[i]);
        rk_embeddings_free(e);
        rk_embeddings_free(unchanged);
    }
}

/* Gradients whose sums are exact, over many rows, with one lookup or with one a slice: an accumulated step is
 * the step of the whole batch, to the bit. The last table takes a step in every row. */
enum { ROWS = 60000, DIM = 3, LARGE = 48000, SLICES = 4 };
static rk_embeddings *make_large(void) {
    rk_table_config tables[2] = {RK_TABLE_CONFIG_INIT, RK_TABLE_CONFIG_INIT};
    static const rk_feature_config features[] = {
        {sizeof *features, "a", "t", RK_COMBINER_SUM, 0, false, false},
        {sizeof *features, "b", "t", RK_COMBINER_SUM, 0, false, false},
        {sizeof *features, "c", "full", RK_COMBINER_SUM, 0, false, false},
    };
    for (int t = 0; t < 2; t++) {
        tables[t].name = t ? "full" : "t";
        tables[t].n_rows = ROWS;
        tables[t].dim = DIM + t;
    }
    rk_optimizer adam;
    OK(rk_optimizer_init(&adam, RK_OPTIMIZER_ADAM));
    rk_embeddings_config config = {sizeof config, 3, tables, 2, features, 3, &adam, NULL, NULL};
    rk_embeddings *e;
    OK(rk_embeddings_create(&config, &e));
    OK(rk_embeddings_set_l2(e, "full", 0, 0.01));
    return e;
}

static void test_accumulation_is_one_large_batch(void **state) {
    (void)state;
    static int64_t values[3][LARGE];
    static float gradients[3][LARGE * (DIM + 1)], out[3][LARGE * (DIM + 1)];
    rk_rng rng = {5, 6, 7};
    for (int f = 0; f < 3; f++)
        for (int i = 0; i < LARGE; i++) {
            values[f][i] =
                (int64_t)(rk_rng_below(&rng, 4) ? rk_rng_below(&rng, ROWS) : rk_rng_below(&rng, 9));
            for (int k = 0; k < DIM + 1; k++)
                gradients[f][i * (DIM + 1) + k] = (float)rk_rng_below(&rng, 9) - 4;
        }
    rk_embeddings *whole = make_large(), *by_one = make_large(), *by_many = make_large();
    rk_lookup *lookups[SLICES + 1];
    for (int i = 0; i < SLICES; i++) lookups[i] = make_lookup(by_many);
    lookups[SLICES] = make_lookup(by_one);
    for (int step = 0; step < 2; step++) {
        static const int begins[SLICES + 1] = {0, 100, 20000, 20000, LARGE};
        rk_ids ids[3];
        rk_activation to[3], from[3];
        for (int f = 0; f < 3; f++) {
            ids[f] = (rk_ids){NULL, 1, values[f], NULL};
            to[f] = (rk_activation){out[f], DIM + 1, NULL};
            from[f] = (rk_activation){gradients[f], DIM + 1, NULL};
        }
        OK(look_up(whole, LARGE, ids, to));
        OK(apply_gradients(whole, from));
        for (int many = 0; many < 2; many++) {
            for (int backward = 0; backward < 1 + many; backward++)
                for (int i = 0; i < SLICES; i++) {
                    int64_t first = begins[i], n = begins[i + 1] - first;
                    for (int f = 0; f < 3; f++) {
                        ids[f].ids = values[f] + first;
                        from[f].data = gradients[f] + first * (DIM + 1);
                    }
                    rk_embeddings *e = many ? by_many : by_one;
                    rk_lookup *lookup = lookups[many ? i : SLICES];
                    if (!backward) OK(rk_embeddings_lookup(e, n, ids, lookup, to));
                    if (backward == many) OK(rk_lookup_backward(lookup, from));
                }
            OK(rk_embeddings_step(many ? by_many : by_one));
        }
        assert_same_state(whole, by_one, true);
        assert_same_state(whole, by_many, true);
    }
    for (int i = 0; i <= SLICES; i++) rk_lookup_free(lookups[i]);
    rk_embeddings_free(whole);
    rk_embeddings_free(by_one);
    rk_embeddings_free(by_many);
}

/* A gradient that is refused adds nothing, drops nothing, and may be mended. */
static void test_not_finite(void **state) {
    (void)state;
    static drawn batches[2];
    rk_embeddings *e = make_usual(NULL, RK_F32), *expected = make_usual(NULL, RK_F32);
    rk_lookup *lookups[2] = {make_lookup(e), make_lookup(e)}, *other = make_lookup(expected);
    for (int i = 0; i < 2; i++) {
        draw(&batches[i], (uint64_t)i, 50);
        OK(rk_embeddings_lookup(e, 50, batches[i].ids, lookups[i], batches[i].activations));
        draw_gradients(&batches[i], (uint64_t)i);
    }
    float *bad = &batches[1].out[0][7 * batches[1].activations[0].stride], kept = *bad;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (int waits = 0; waits < 2; waits++) { /* without and with another backward that waits */
        for (int i = 0; i < 3; i++)
            for (int fused = 0; fused < 2; fused++) {
                *bad = values[i];
                FAILS((fused ? rk_lookup_apply_gradients : rk_lookup_backward)(lookups[1],
                                                                               batches[1].activations),
                      RK_NOT_FINITE, "feature 'user': sample 7: the gradient is not a finite number");
                assert_same_state(e, expected, true);
            }
        if (!waits) OK(rk_lookup_backward(lookups[0], batches[0].activations));
    }
    *bad = kept;
    OK(rk_embeddings_step(e)); /* the first's alone */
    OK(rk_lookup_apply_gradients(lookups[1], batches[1].activations));
    for (int i = 0; i < 2; i++) {
        draw(&batches[i], (uint64_t)i, 50);
        OK(rk_embeddings_lookup(expected, 50, batches[i].ids, other, batches[i].activations));
        draw_gradients(&batches[i], (uint64_t)i);
        OK(rk_lookup_apply_gradients(other, batches[i].activations));
    }
    assert_same_state(e, expected, true);
    OK(rk_embeddings_lookup(e, 50, batches[0].ids, lookups[0], batches[0].activations));
    OK(rk_lookup_backward(lookups[0], batches[1].activations));
    rk_embeddings_zero_gradients(e);
    FAILS(rk_embeddings_step(e), RK_INVALID_ARGUMENT, "rk_embeddings_step must follow an rk_lookup_backward");
    assert_same_state(e, expected, true);
    for (int i = 0; i < 2; i++) rk_lookup_free(lookups[i]);
    rk_lookup_free(other);
    rk_embeddings_free(e);
    rk_embeddings_free(expected);
}

static void test_what_a_backward_needs(void **state) {
    (void)state;
    static drawn batch;
    static const char no_lookup[] = "a backward must follow an rk_embeddings_lookup, once for each";
    rk_embeddings *e = make_usual(NULL, RK_F32);
    rk_lookup *lookup = make_lookup(e);
    draw(&batch, 3, 30);
    for (int before = 0; before < 5; before++) {
        if (before == 1) OK(rk_embeddings_lookup_eval(e, batch.n, batch.ids, lookup, batch.activations));
        if (before == 2) {
            OK(rk_embeddings_lookup(e, batch.n, batch.ids, lookup, batch.activations));
            OK(rk_lookup_apply_gradients(lookup, batch.activations));
        }
        if (before == 3) {
            OK(rk_embeddings_lookup(e, batch.n, batch.ids, lookup, batch.activations));
            batch.values[0][3] = 1000;
            assert_int_equal(rk_embeddings_lookup(e, batch.n, batch.ids, lookup, batch.activations),
                             RK_BAD_DATA);
        }
        FAILS(rk_lookup_backward(before == 4 ? NULL : lookup, batch.activations), RK_INVALID_ARGUMENT,
              no_lookup);
        FAILS(rk_lookup_apply_gradients(before == 4 ? NULL : lookup, batch.activations), RK_INVALID_ARGUMENT,
              no_lookup);
        FAILS(rk_embeddings_step(e), RK_INVALID_ARGUMENT,
              "rk_embeddings_step must follow an rk_lookup_backward");
    }
    draw(&batch, 4, 30);
    OK(rk_embeddings_lookup(e, batch.n, batch.ids, lookup, batch.activations));
    FAILS(rk_lookup_backward(lookup, NULL), RK_INVALID_ARGUMENT, "a backward needs gradients");
    batch.activations[2].stride = 1;
    FAILS(rk_lookup_backward(lookup, batch.activations), RK_INVALID_ARGUMENT,
          "feature 'bought': its gradients need memory and a stride of at least 5");
    rk_lookup_free(lookup);
    rk_embeddings_free(e);
}

/* A feature's ids as tensors, of either width. */
typedef struct tensor_feature {
    int32_t ids32[MAX_SAMPLES * MAX_BAG], offsets32[MAX_SAMPLES + 1];
    rk_tensor ids, offsets, weights;
} tensor_feature;

static rk_tensor tensor_of(const int64_t *values, int32_t *narrow, bool wide, int64_t n) {
    rk_tensor out;
    for (int64_t i = 0; i < n; i++) narrow[i] = (int32_t)values[i];
    OK(rk_tensor_init(&out, wide ? (void *)(size_t)values : narrow, wide ? RK_I64 : RK_I32, 1, &n));
    return out;
}

static rk_id_tensors tensors_of(const drawn *b, int feature, bool wide_ids, bool wide_offsets,
                                tensor_feature *t) {
    const rk_ids *ids = &b->ids[feature];
    int64_t n = ids->offsets ? ids->offsets[b->n] : b->n * ids->ids_per_sample;
    t->ids = tensor_of(ids->ids, t->ids32, wide_ids, n);
    if (ids->offsets) t->offsets = tensor_of(ids->offsets, t->offsets32, wide_offsets, b->n + 1);
    if (ids->weights) OK(rk_tensor_init(&t->weights, (float *)(size_t)ids->weights, RK_F32, 1, &n));
    if (!ids->offsets)
        OK(rk_tensor_init(&t->ids, t->ids.data, t->ids.dtype, 2, (int64_t[]){b->n, ids->ids_per_sample}));
    return (rk_id_tensors){&t->ids, ids->offsets ? &t->offsets : NULL, ids->weights ? &t->weights : NULL};
}

static void test_ids_of_tensors(void **state) {
    (void)state;
    static drawn wanted, got;
    static tensor_feature features[N_FEATURES];
    rk_id_tensors tensors[N_FEATURES];
    const rk_ids *ids;
    rk_lookup *lookup;
    rk_embeddings *e = make_usual(NULL, RK_F32);
    OK(rk_lookup_create(e, &lookup));
    for (int form = 0; form < 4; form++) {
        draw(&wanted, 5, 200 + form);
        draw(&got, 5, wanted.n);
        got.ids[0] = wanted.ids[0] = (rk_ids){NULL, 1, got.values[0], NULL};
        OK(look_up_eval(e, wanted.n, wanted.ids, wanted.activations));
        for (int f = 0; f < N_FEATURES; f++)
            tensors[f] = tensors_of(&got, f, form & 1, form & 2, &features[f]);
        OK(rk_lookup_ids(lookup, got.n, tensors, &ids));
        for (int f = 0; f < N_FEATURES; f++) /* what is of 64 bits is not copied */
            assert_true((ids[f].ids == features[f].ids.data) == ((form & 1) != 0));
        OK(rk_embeddings_lookup(e, got.n, ids, lookup, got.activations));
        assert_same_activations(&wanted, &got);
    }
    int32_t negative[] = {-7, 3};
    rk_tensor both;
    OK(rk_tensor_init(&both, negative, RK_I32, 1, (int64_t[]){2}));
    for (int f = 0; f < N_FEATURES; f++) tensors[f] = (rk_id_tensors){&both, NULL, NULL};
    OK(rk_lookup_ids(lookup, 2, tensors, &ids));
    assert_true(ids[0].ids[0] == -7 && ids[0].ids[1] == 3 && ids[0].ids_per_sample == 1);
    rk_lookup_free(lookup);
    rk_embeddings_free(e);
}

static void test_refused_tensors(void **state) {
    (void)state;
    int64_t values[] = {0, 1, 2, 3}, ends[] = {0, 2, 5};
    rk_tensor ids, offsets, bad;
    rk_id_tensors tensors[N_FEATURES];
    const rk_ids *out;
    rk_lookup *lookup;
    rk_embeddings *e = make_usual(NULL, RK_F32);
    OK(rk_lookup_create(e, &lookup));
    OK(rk_tensor_init(&ids, values, RK_I64, 1, (int64_t[]){4}));
    OK(rk_tensor_init(&offsets, ends, RK_I64, 1, (int64_t[]){3}));
    for (int f = 0; f < N_FEATURES; f++) tensors[f] = (rk_id_tensors){&ids, &offsets, NULL};
#define REFUSED(message)                                                                \
    do {                                                                                \
        assert_int_equal(rk_lookup_ids(lookup, 2, tensors, &out), RK_INVALID_ARGUMENT); \
        assert_string_equal(rk_last_error(), message);                                  \
    } while (0)
    REFUSED("feature 0: offsets: end at 5, beyond 4 ids");
    ends[2] = 4;
    OK(rk_lookup_ids(lookup, 2, tensors, &out));
    tensors[1].ids = NULL;
    REFUSED("feature 1: ids: are missing");
    tensors[1].ids = &bad;
    OK(rk_tensor_init(&bad, values, RK_F64, 1, (int64_t[]){4}));
    REFUSED("feature 1: ids: are f64, not i32 or i64");
    OK(rk_tensor_init(&bad, values, RK_I64, 1, (int64_t[]){2}));
    bad.strides[0] = 2;
    REFUSED("feature 1: ids: are not contiguous");
    bad.strides[0] = 1;
    bad.device = RK_DEVICE_CUDA;
    REFUSED("feature 1: ids: are not on the CPU");
    OK(rk_tensor_init(&bad, values, RK_I64, 2, (int64_t[]){2, 2}));
    REFUSED("feature 1: ids: must have 1 dimension beside offsets");
    tensors[1].offsets = NULL;
    OK(rk_lookup_ids(lookup, 2, tensors, &out));
    assert_int_equal(out[1].ids_per_sample, 2);
    OK(rk_tensor_init(&bad, values, RK_I64, 1, (int64_t[]){3}));
    REFUSED("feature 1: ids: must be [2] or [2, k] without offsets");
    tensors[1] = (rk_id_tensors){&ids, &bad, NULL};
    OK(rk_tensor_init(&bad, values, RK_I64, 1, (int64_t[]){4}));
    REFUSED("feature 1: offsets: must be [3], one more than samples");
    tensors[1] = (rk_id_tensors){&ids, &offsets, &bad};
    REFUSED("feature 1: weights: are i64, not f32");
    OK(rk_tensor_init(&bad, values, RK_F32, 1, (int64_t[]){3}));
    REFUSED("feature 1: weights: must be as many as ids");
    bad.data = (char *)values + 1;
    assert_int_equal(rk_lookup_ids(lookup, 2, tensors, &out), RK_INVALID_ARGUMENT);
    assert_int_equal(rk_lookup_ids(lookup, -1, tensors, &out), RK_INVALID_ARGUMENT);
    assert_int_equal(rk_lookup_ids(lookup, 2, NULL, &out), RK_INVALID_ARGUMENT);
    assert_int_equal(rk_lookup_ids(NULL, 2, tensors, &out), RK_INVALID_ARGUMENT);
#undef REFUSED
    rk_lookup_free(lookup);
    rk_embeddings_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_threads_look_up_eval),
        cmocka_unit_test(test_refused_lookups),
        cmocka_unit_test(test_one_lookup_has_the_bits_of_a_models_step),
        cmocka_unit_test(test_two_lookups_at_once),
        cmocka_unit_test(test_accumulation_is_one_large_batch),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_what_a_backward_needs),
        cmocka_unit_test(test_ids_of_tensors),
        cmocka_unit_test(test_refused_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
