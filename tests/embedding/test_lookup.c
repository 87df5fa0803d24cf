/* rk_lookup objects: several threads that look up at once. */
#include <pthread.h>

#include "testing.h"

#include "embedding_fixture.h"
#include "embedding/local/lookup_object.h"

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

static rk_status peek_in_blocks(rk_lookup *lookup, const drawn *b) {
    rk_status status = rk_lookup_take_ids(lookup, b->n, b->ids);
    for (int32_t f = 0; f < N_FEATURES && status == RK_OK; f++)
        for (int64_t first = 0; first < b->n; first += 64) {
            rk_activation to = b->activations[f];
            to.data += first * to.stride;
            to.lengths += first;
            rk_lookup_gather(lookup, f, first, first + 64 < b->n ? first + 64 : b->n, &to);
        }
    return status;
}

static void *read_rows(void *context) {
    reader *r = context;
    rk_lookup *lookup;
    r->status = rk_lookup_create(r->embeddings, &lookup);
    for (int round = 0; round < N_ROUNDS && r->status == RK_OK; round++) {
        drawn *b = &r->batches[round % 2];
        memset(b->out, 0x55, sizeof b->out);
        r->status = r->in_blocks ? peek_in_blocks(lookup, b)
                                 : rk_embeddings_peek(r->embeddings, b->n, b->ids, lookup, b->activations);
    }
    if (r->status == RK_OK) rk_lookup_free(lookup);
    return NULL;
}

static void test_many_threads_peek(void **state) {
    (void)state;
    static reader readers[N_THREADS];
    rk_embeddings *e = make_usual(NULL, RK_BF16);
    for (int i = 0; i < N_THREADS; i++)
        for (int k = 0; k < 2; k++) {
            drawn *expected = &readers[i].expected[k];
            readers[i].embeddings = e;
            readers[i].in_blocks = i % 2;
            draw(expected, (uint64_t)(2 * i + k), 300 + 50 * i - 120 * k);
            OK(peek_once(e, expected->n, expected->ids, expected->activations));
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
    FAILS(rk_lookup_create(NULL, &lookup), RK_INVALID_ARGUMENT, "a lookup needs a collection");
    OK(rk_lookup_create(other, &lookup));
    draw(&batch, 1, 20);
    FAILS(rk_embeddings_peek(e, batch.n, batch.ids, NULL, batch.activations), RK_INVALID_ARGUMENT,
          "a lookup of a collection needs an rk_lookup");
    FAILS(rk_embeddings_peek(e, batch.n, batch.ids, lookup, batch.activations), RK_INVALID_ARGUMENT,
          "the rk_lookup was created for another collection");
    static const int64_t hostile[] = {300, INT64_MAX, 1LL << 32, 1LL << 40};
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        int64_t kept = batch.values[0][7];
        batch.values[0][7] = hostile[i];
        assert_int_equal(rk_embeddings_peek(other, batch.n, batch.ids, lookup, batch.activations),
                         RK_BAD_DATA);
        assert_non_null(strstr(rk_last_error(), "feature 'user': sample 7: id"));
        assert_int_equal(rk_lookup_take_ids(lookup, batch.n, batch.ids), RK_BAD_DATA);
        batch.values[0][7] = kept;
        OK(rk_embeddings_peek(other, batch.n, batch.ids, lookup, batch.activations));
    }
    rk_lookup_free(lookup);
    rk_lookup_free(NULL);
    rk_embeddings_free(e);
    rk_embeddings_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_threads_peek),
        cmocka_unit_test(test_refused_lookups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
