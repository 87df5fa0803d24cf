/* Ids of several features in the same tensors (rk_lookup_keyed_ids): the activations of ids given feature by
 * feature, and what is refused. */
#include "testing.h"

#include <reckon/embeddings.h>

#include "base/rng.h"

enum { N_FEATURES = 4, N_KEYS = 5, MOST_SAMPLES = 60, MOST_BAG = 4, DIM = 3, ROWS = 40 };

/* Feature f reads key keys[f]: one of them twice, another not at all. Key 1 has one id in each bag. */
static const int32_t keys[N_FEATURES] = {3, 1, 0, 3};

static rk_embeddings *make(void) {
    static const char *const names[N_FEATURES] = {"a", "b", "c", "d"};
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    rk_feature_config features[N_FEATURES];
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    rk_embeddings *e;
    table.name = "t";
    table.n_rows = ROWS;
    table.dim = DIM;
    for (int f = 0; f < N_FEATURES; f++) {
        features[f] = (rk_feature_config)RK_FEATURE_CONFIG_INIT;
        features[f].name = names[f];
        features[f].table = "t";
        features[f].combiner = f % 2 ? RK_COMBINER_MEAN : RK_COMBINER_SUM;
        features[f].weighted = true;
    }
    config.tables = &table;
    config.n_tables = 1;
    config.features = features;
    config.n_features = N_FEATURES;
    OK(rk_embeddings_create(&config, &e));
    return e;
}

/* A batch of keys, in both widths. */
typedef struct keyed {
    int64_t n, total, values[N_KEYS * MOST_SAMPLES * MOST_BAG], offsets[N_KEYS * MOST_SAMPLES + 1];
    int32_t values32[N_KEYS * MOST_SAMPLES * MOST_BAG], offsets32[N_KEYS * MOST_SAMPLES + 1];
    float weights[N_KEYS * MOST_SAMPLES * MOST_BAG];
} keyed;

static void draw(keyed *b, int64_t n, uint64_t seed) {
    rk_rng rng = {seed, 1, 0};
    b->n = n;
    b->total = 0;
    for (int64_t i = 0; i < N_KEYS * n; i++) {
        int64_t k = i / n == 1 ? 1 : (int64_t)rk_rng_below(&rng, MOST_BAG);
        b->offsets[i] = b->total;
        for (; k > 0; k--, b->total++) {
            b->values[b->total] = (int64_t)rk_rng_below(&rng, ROWS);
            b->weights[b->total] = (float)rk_rng_uniform(&rng) + 0.5f;
        }
    }
    b->offsets[N_KEYS * n] = b->total;
    for (int64_t i = 0; i < b->total; i++) b->values32[i] = (int32_t)b->values[i];
    for (int64_t i = 0; i <= N_KEYS * n; i++) b->offsets32[i] = (int32_t)b->offsets[i];
}

typedef struct keyed_tensors {
    rk_tensor ids, offsets, weights;
    rk_id_tensors all;
} keyed_tensors;

static void make_tensors(keyed *b, bool wide, bool weighted, keyed_tensors *out) {
    int64_t n_offsets = N_KEYS * b->n + 1;
    OK(rk_tensor_init(&out->ids, wide ? (void *)b->values : b->values32, wide ? RK_I64 : RK_I32, 1,
                      &b->total));
    OK(rk_tensor_init(&out->offsets, wide ? (void *)b->offsets : b->offsets32, wide ? RK_I64 : RK_I32, 1,
                      &n_offsets));
    OK(rk_tensor_init(&out->weights, b->weights, RK_F32, 1, &b->total));
    out->all = (rk_id_tensors){&out->ids, &out->offsets, weighted ? &out->weights : NULL};
}

/* What each feature looks up by itself. */
static void look_up_apart(rk_embeddings *e, const keyed *b, bool weighted, float *out) {
    static int64_t offsets[N_FEATURES][MOST_SAMPLES + 1];
    rk_ids ids[N_FEATURES];
    rk_activation to[N_FEATURES];
    rk_lookup *lookup;
    for (int f = 0; f < N_FEATURES; f++) {
        const int64_t *own = b->offsets + keys[f] * b->n;
        for (int64_t s = 0; s <= b->n; s++) offsets[f][s] = own[s] - own[0];
        ids[f] = (rk_ids){offsets[f], 0, b->values + own[0], weighted ? b->weights + own[0] : NULL};
        to[f] = (rk_activation){out + f * DIM, N_FEATURES * DIM, NULL};
    }
    OK(rk_lookup_create(e, &lookup));
    OK(rk_embeddings_lookup_eval(e, b->n, ids, lookup, to));
    rk_lookup_free(lookup);
}

static void test_the_activations_of_each_feature(void **state) {
    (void)state;
    static keyed b;
    static float wanted[MOST_SAMPLES * N_FEATURES * DIM], got[MOST_SAMPLES * N_FEATURES * DIM];
    rk_embeddings *e = make();
    rk_lookup *lookup;
    rk_activation to[N_FEATURES];
    const rk_ids *ids;
    OK(rk_lookup_create(e, &lookup));
    for (int f = 0; f < N_FEATURES; f++) to[f] = (rk_activation){got + f * DIM, N_FEATURES * DIM, NULL};
    for (int form = 0; form < 16; form++) {
        keyed_tensors tensors;
        bool wide = form & 1, weighted = form & 2;
        draw(&b, form / 4 == 1 ? 1 : form / 4 == 2 ? 0 : MOST_SAMPLES - form, (uint64_t)form);
        make_tensors(&b, wide, weighted, &tensors);
        look_up_apart(e, &b, weighted, wanted);
        memset(got, 0x55, sizeof got);
        OK(rk_lookup_keyed_ids(lookup, b.n, N_KEYS, &tensors.all, keys, &ids));
        if (b.n) assert_true(ids[1].offsets == NULL && ids[1].ids_per_sample == 1);
        if (wide && b.n) assert_true(ids[0].ids == b.values + b.offsets[3 * b.n]); /* not copied */
        OK(rk_embeddings_lookup(e, b.n, ids, lookup, to));
        assert_memory_equal(got, wanted, (size_t)b.n * N_FEATURES * DIM * sizeof *got);
        OK(rk_lookup_apply_gradients(lookup, to));
    }
    rk_lookup_free(lookup);
    rk_embeddings_free(e);
}

static void test_refused(void **state) {
    (void)state;
    static keyed b;
    keyed_tensors tensors;
    int32_t other[N_FEATURES] = {0, 1, 2, 3};
    rk_embeddings *e = make();
    rk_lookup *lookup;
    const rk_ids *ids;
    OK(rk_lookup_create(e, &lookup));
    draw(&b, 6, 3);
    make_tensors(&b, true, true, &tensors);
    rk_id_tensors all = tensors.all;
#define REFUSED(n, n_keys, given, message)                                                                 \
    do {                                                                                                   \
        assert_int_equal(rk_lookup_keyed_ids(lookup, n, n_keys, given, other, &ids), RK_INVALID_ARGUMENT); \
        if (message) assert_string_equal(rk_last_error(), message);                                        \
    } while (0)
    REFUSED(-1, N_KEYS, &all, "ids are missing, or of a negative number of samples or keys");
    REFUSED(6, -1, &all, "ids are missing, or of a negative number of samples or keys");
    REFUSED(6, N_KEYS, NULL, "ids are missing, or of a negative number of samples or keys");
    REFUSED(5, N_KEYS, &all, "offsets: must be [26], one more than samples");
    REFUSED(INT64_MAX / 2, N_KEYS, &all, "5 keys of 4611686018427387903 samples");
    other[2] = 5;
    REFUSED(6, N_KEYS, &all, "feature 2: key 5 is none of 5");
    other[2] = -1;
    REFUSED(6, N_KEYS, &all, "feature 2: key -1 is none of 5");
    other[2] = 4;
    all.offsets = NULL;
    REFUSED(6, N_KEYS, &all, "offsets: are missing");
    all = (rk_id_tensors){NULL, &tensors.offsets, NULL};
    REFUSED(6, N_KEYS, &all, "ids: are missing");
    all = tensors.all;
    tensors.ids.shape[0]--;
    REFUSED(6, N_KEYS, &all, "weights: must be as many as ids");
    all.weights = NULL;
    const int64_t end_of_key = b.offsets[24];
    b.offsets[24] = 0;
    REFUSED(6, N_KEYS, &all, (const char *)NULL); /* key 3 would end before it begins */
    b.offsets[24] = -4;
    REFUSED(6, N_KEYS, &all, (const char *)NULL);
    b.offsets[24] = INT64_MAX;
    REFUSED(6, N_KEYS, &all, (const char *)NULL);
    b.offsets[24] = end_of_key;
    tensors.ids.shape[0]++;
    static const int64_t wild[] = {INT64_MIN, INT64_MAX, -1};
    for (int i = 0; i < 3; i++) { /* within key 1, which is feature 1's, first and later */
        for (int at = 7; at < 9; at++) {
            int64_t kept = b.offsets[at];
            b.offsets[at] = wild[i];
            REFUSED(6, N_KEYS, &all, "feature 1: offsets: must not decrease");
            b.offsets[at] = kept;
        }
    }
#undef REFUSED
    assert_int_equal(rk_lookup_keyed_ids(NULL, 6, N_KEYS, &all, other, &ids), RK_INVALID_ARGUMENT);
    rk_lookup_free(lookup);
    rk_embeddings_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_activations_of_each_feature),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
