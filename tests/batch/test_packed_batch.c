/* Batches as bytes: what comes out is what went in, from any samples on; bytes that are cut short are
 * refused. */
#include "testing.h"

#include "base/memory.h"
#include "batch/packed_batch.h"

enum { N = 40, N_FEATURES = 5, MOST_IDS = 3 * N };

/* Of all widths, with and without offsets and weights. */
typedef struct made {
    int64_t ids[N_FEATURES][MOST_IDS], offsets[N_FEATURES][N + 1], groups[N];
    float weights[MOST_IDS], dense[2 * N], labels[3 * N], sample_weights[N];
    rk_ids features[N_FEATURES];
    rk_batch batch;
} made;

static void make(made *m) {
    static const int64_t scales[N_FEATURES] = {2, 300, 70000, (int64_t)1 << 33, -1};
    for (int f = 0; f < N_FEATURES; f++) {
        for (int64_t i = 0; i < MOST_IDS; i++) m->ids[f][i] = i * scales[f] % (int64_t)1000003000000;
        for (int i = 0; i < N; i++)
            m->offsets[f][i + 1] = m->offsets[f][i] + (i * 7 + f) % 4 % (f == 1 ? 1 : 4);
        m->features[f] = (rk_ids){.ids = m->ids[f], .ids_per_sample = f % 3};
        if (f % 2) m->features[f].offsets = m->offsets[f];
    }
    m->features[3].weights = m->weights;
    for (int i = 0; i < MOST_IDS; i++) m->weights[i] = (float)i / 8;
    for (int i = 0; i < 3 * N; i++) m->labels[i] = (float)(i % 5);
    for (int i = 0; i < 2 * N; i++) m->dense[i] = (float)i - 3;
    for (int i = 0; i < N; i++) m->sample_weights[i] = (float)i, m->groups[i] = (int64_t)i << 40;
    m->batch = (rk_batch){.n = N,
                          .n_dense = 2,
                          .n_features = N_FEATURES,
                          .n_tasks = 3,
                          .dense = m->dense,
                          .features = m->features,
                          .labels = m->labels,
                          .sample_weights = m->sample_weights,
                          .groups = m->groups,
                          .first_row = 1000};
}

static int64_t begin_of(const rk_ids *ids, int64_t sample) {
    return ids->offsets ? ids->offsets[sample] : sample * ids->ids_per_sample;
}

static void assert_same_ids(const rk_ids *a, int64_t first, const rk_ids *b, int64_t n) {
    int64_t begin = begin_of(a, first), n_ids = begin_of(a, first + n) - begin;
    assert_int_equal(a->offsets == NULL, b->offsets == NULL);
    for (int64_t i = 0; i <= n; i++) assert_int_equal(begin_of(a, first + i) - begin, begin_of(b, i));
    if (n_ids) assert_memory_equal(a->ids + begin, b->ids, (size_t)n_ids * sizeof *b->ids);
    assert_int_equal(a->weights == NULL, b->weights == NULL);
    if (n_ids && a->weights)
        assert_memory_equal(a->weights + begin, b->weights, (size_t)n_ids * sizeof *b->weights);
}

static void test_comes_out_as_it_went_in(void **state) {
    (void)state;
    static made m;
    make(&m);
    rk_buffer bytes = {0};
    rk_unpacked_batch unpacked = {0};
    for (int64_t first = 0; first <= N; first += 5)
        for (int64_t n = 0; first + n <= N; n += 7) {
            size_t n_used;
            rk_buffer_clear(&bytes);
            rk_batch_pack(&m.batch, first, n, RK_PACK_INPUT | RK_PACK_LABELS | RK_PACK_GROUPS, &bytes);
            OK(bytes.status);
            OK(rk_batch_unpack(bytes.data, bytes.n_bytes, &unpacked, &n_used));
            const rk_batch *b = &unpacked.batch;
            assert_int_equal(n_used, bytes.n_bytes);
            assert_true(b->n == n && b->n_dense == 2 && b->n_features == N_FEATURES && b->n_tasks == 3 &&
                        b->first_row == 1000 + first);
            assert_memory_equal(b->dense, m.dense + 2 * first, (size_t)n * 2 * sizeof(float));
            assert_memory_equal(b->labels, m.labels + 3 * first, (size_t)n * 3 * sizeof(float));
            assert_memory_equal(b->sample_weights, m.sample_weights + first, (size_t)n * sizeof(float));
            assert_memory_equal(b->groups, m.groups + first, (size_t)n * sizeof(int64_t));
            for (int f = 0; f < N_FEATURES; f++) assert_same_ids(&m.features[f], first, &b->features[f], n);
        }
    rk_buffer_release(&bytes);
    rk_unpacked_batch_release(&unpacked);
    assert_int_equal(rk_alloc_live(), 0);
}

/* An evaluation's: the input of some samples, then labels and groups of all. */
static void test_some_columns(void **state) {
    (void)state;
    static made m;
    make(&m);
    rk_buffer bytes = {0};
    rk_unpacked_batch input = {0}, rest = {0};
    size_t n_first, n_second;
    rk_batch_pack(&m.batch, 10, 3, RK_PACK_INPUT, &bytes);
    rk_batch_pack(&m.batch, 0, N, RK_PACK_LABELS | RK_PACK_GROUPS, &bytes);
    OK(rk_batch_unpack(bytes.data, bytes.n_bytes, &input, &n_first));
    OK(rk_batch_unpack(bytes.data + n_first, bytes.n_bytes - n_first, &rest, &n_second));
    assert_int_equal(n_first + n_second, bytes.n_bytes);
    assert_true(input.batch.n == 3 && !input.batch.labels && !input.batch.sample_weights &&
                !input.batch.groups && input.batch.dense);
    assert_true(rest.batch.n == N && rest.batch.n_features == 0 && rest.batch.n_dense == 0 &&
                !rest.batch.dense && rest.batch.groups);
    assert_memory_equal(rest.batch.labels, m.labels, sizeof m.labels);
    rk_unpacked_batch_release(&input);
    for (size_t n = 0; n < n_first; n += 8)
        FAILS(rk_batch_unpack(bytes.data, n, &input, &n_second), RK_BAD_DATA, "a packed batch is cut short");
    rk_unpacked_batch_release(&input);
    rk_unpacked_batch_release(&rest);
    rk_buffer_release(&bytes);
    assert_int_equal(rk_alloc_live(), 0);
}

static void refuse(rk_buffer *bytes, size_t at, const void *value, size_t n_bytes, const char *says) {
    rk_unpacked_batch unpacked = {0};
    size_t n_used;
    char had[8];
    memcpy(had, bytes->data + at, n_bytes);
    memcpy(bytes->data + at, value, n_bytes);
    assert_int_equal(rk_batch_unpack(bytes->data, bytes->n_bytes, &unpacked, &n_used), RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), says));
    memcpy(bytes->data + at, had, n_bytes);
    OK(rk_batch_unpack(bytes->data, bytes->n_bytes, &unpacked, &n_used));
    rk_unpacked_batch_release(&unpacked);
}

/* The last offset alone is right; sizes whose products overflow; counts below 0. */
static void test_numbers_that_lie(void **state) {
    (void)state;
    enum { HEAD = 32, FEATURE_HEAD = 24 };
    const int64_t ids[] = {5, 6, 7, 8, 9, 10}, offsets[] = {0, 2, 4, 6};
    rk_ids features[] = {{.ids = ids, .offsets = offsets}, {.ids = ids, .ids_per_sample = 2}};
    rk_batch batch = {.n = 3, .n_features = 2, .features = features};
    rk_buffer bytes = {0};
    rk_batch_pack(&batch, 0, 3, RK_PACK_INPUT, &bytes);
    OK(bytes.status);
    size_t first = HEAD + FEATURE_HEAD,
           second = first + 8 +
                    8; /* offsets of a byte each; the second feature's head behind the first one's ids */
    const uint8_t descends = 7, moved = 1;
    const int64_t many = INT64_MAX, negative = -2, none = 0, ids_a_sample = INT64_MAX / 2;
    const int32_t n_features = INT32_MAX;
    const char *other = "other ids than samples", *short_ = "cut short", *says = "says that it has";
    assert_int_equal(((uint8_t *)bytes.data)[first + 1], 2);
    refuse(&bytes, first + 1, &descends, 1, other);
    refuse(&bytes, first, &moved, 1, other);
    refuse(&bytes, HEAD, &many, 8, other);
    refuse(&bytes, 0, &many, 8, says);
    refuse(&bytes, 0, &negative, 8, says);
    refuse(&bytes, 0, &none, 8, other);
    refuse(&bytes, 20, &n_features, 4, short_);
    refuse(&bytes, second, &negative, 8, other);
    refuse(&bytes, second + 8, &negative, 8, other);
    refuse(&bytes, second + 8, &ids_a_sample, 8, other);
    rk_buffer_release(&bytes);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Offsets of 8 bytes: sums of theirs overflow, and so do counts of numbers that the bytes cannot hold. */
static void test_wide_offsets_that_lie(void **state) {
    (void)state;
    enum { HEAD = 32, FEATURE_HEAD = 24, OFFSETS = HEAD + FEATURE_HEAD };
    const int64_t ids[4] = {1, 2, 3, 4}, offsets[] = {0, 1, 2, 4};
    const rk_ids feature = {.ids = ids, .offsets = offsets};
    const rk_batch batch = {.n = 3, .n_features = 1, .features = &feature};
    rk_buffer bytes = {0};
    rk_batch_pack(&batch, 0, 3, RK_PACK_INPUT, &bytes);
    OK(bytes.status);
    const uint8_t width = 8, no_width = 3;
    const char *other = "other ids than samples";
    refuse(&bytes, HEAD + 16, &no_width, 1, "numbers of 3 bytes");
    refuse(&bytes, HEAD + 17, &no_width, 1, "numbers of 3 bytes");
    char *wide = bytes.data + OFFSETS; /* the 4 offsets took 8 bytes, and the ids 8 */
    int64_t behind[2];
    memcpy(behind, wide + 8, 8);
    bytes.data[HEAD + 16] = (char)width;
    OK((rk_buffer_extend(&bytes, 24), bytes.status));
    wide = bytes.data + OFFSETS;
    memcpy(wide, offsets, sizeof offsets);
    memcpy(wide + sizeof offsets, behind, 8);
    const int64_t lies[] = {INT64_MAX, INT64_MIN, -1, 5, 1};
    for (size_t at = 0; at < 4; at++)
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
            if (lies[i] != offsets[at] && !(at == 2 && lies[i] == 1)) /* which is a batch, too */
                refuse(&bytes, OFFSETS + 8 * at, &lies[i], 8, other);
    rk_buffer_release(&bytes);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Ids of 16 features below 256 take a byte each. */
static void test_takes_few_bytes(void **state) {
    (void)state;
    static int64_t ids[1000];
    rk_ids features[16];
    for (int f = 0; f < 16; f++) features[f] = (rk_ids){.ids = ids, .ids_per_sample = 1};
    for (int i = 0; i < 1000; i++) ids[i] = i % 256;
    rk_batch batch = {.n = 1000, .n_features = 16, .features = features};
    rk_buffer bytes = {0};
    rk_batch_pack(&batch, 0, 1000, RK_PACK_INPUT, &bytes);
    OK(bytes.status);
    assert_in_range(bytes.n_bytes, 16000, 16600);
    rk_buffer_release(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_out_as_it_went_in), cmocka_unit_test(test_some_columns),
        cmocka_unit_test(test_numbers_that_lie), cmocka_unit_test(test_wide_offsets_that_lie),
        cmocka_unit_test(test_takes_few_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
