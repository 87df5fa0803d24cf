/* Sorts and scans against the obvious, and the copy. */
#include "cuda/device_testing.h"

#include "base/rng.h"
#include "cuda/device/device_copy.h"
#include "cuda/libraries/sort.h"

enum { MOST = 300000 }; /* many tiles of CUB's */

static void *scratch;
static size_t scratch_bytes;

static void test_sort(void **state) {
    (void)state;
    static const int sizes[] = {0, 1, 2, 33, 5000, MOST}, bits[] = {3, 17, 40, 64};
    static uint64_t keys[MOST], sorted[MOST];
    static uint32_t values[MOST], carried[MOST];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t b = 0; b < sizeof bits / sizeof *bits; b++) {
            int n = sizes[s];
            uint64_t mask = bits[b] == 64 ? UINT64_MAX : (1ull << bits[b]) - 1;
            for (int i = 0; i < n; i++) {
                keys[i] = rk_rng_u64(3, (uint64_t)n, (uint64_t)(i / 3)); /* each key three times */
                values[i] = (uint32_t)i;
            }
            uint64_t *d_keys = on_device(keys, (size_t)n * 8), *d_sorted = on_device(NULL, (size_t)n * 8);
            uint32_t *d_values = on_device(values, (size_t)n * 4),
                     *d_carried = on_device(NULL, (size_t)n * 4);
            rk_cuda_sort(stream, n, bits[b], sizeof *d_keys, d_keys, d_sorted, d_values, d_carried, scratch,
                         scratch_bytes);
            OK(rk_stream_sync(stream));
            OK(rk_device_download(device, sorted, d_sorted, (size_t)n * 8));
            OK(rk_device_download(device, carried, d_carried, (size_t)n * 4));
            for (int i = 0; i < n; i++) {
                assert_true(sorted[i] == keys[carried[i]]);
                assert_true(i == 0 || (sorted[i - 1] & mask) < (sorted[i] & mask) ||
                            ((sorted[i - 1] & mask) == (sorted[i] & mask) && carried[i - 1] < carried[i]));
            }
            rk_device_free(device, d_keys);
            rk_device_free(device, d_sorted);
            rk_device_free(device, d_values);
            rk_device_free(device, d_carried);
        }
}

/* The same as of 64 bits. */
static void test_narrow_sort(void **state) {
    (void)state;
    static uint32_t keys[MOST], sorted[MOST], values[MOST], carried[MOST];
    for (int i = 0; i < MOST; i++) {
        keys[i] = (uint32_t)rk_rng_u64(4, 0, (uint64_t)(i / 3)) & 0xFFFFF;
        values[i] = (uint32_t)i;
    }
    uint32_t *d_keys = on_device(keys, sizeof keys), *d_sorted = on_device(NULL, sizeof keys),
             *d_values = on_device(values, sizeof values), *d_carried = on_device(NULL, sizeof values);
    rk_cuda_sort(stream, MOST, 20, sizeof *d_keys, d_keys, d_sorted, d_values, d_carried, scratch,
                 scratch_bytes);
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, sorted, d_sorted, sizeof sorted));
    OK(rk_device_download(device, carried, d_carried, sizeof carried));
    for (int i = 0; i < MOST; i++) {
        assert_true(sorted[i] == keys[carried[i]]);
        assert_true(i == 0 || sorted[i - 1] < sorted[i] ||
                    (sorted[i - 1] == sorted[i] && carried[i - 1] < carried[i]));
    }
    rk_device_free(device, d_keys);
    rk_device_free(device, d_sorted);
    rk_device_free(device, d_values);
    rk_device_free(device, d_carried);
}

static void test_scan(void **state) {
    (void)state;
    static const int sizes[] = {0, 1, 2, 33, 5000, MOST};
    static uint32_t in[MOST], out[MOST];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int n = sizes[s];
        for (int i = 0; i < n; i++) in[i] = (uint32_t)(i * 7 % 5);
        uint32_t *d_in = on_device(in, (size_t)n * 4), *d_out = on_device(NULL, (size_t)n * 4), sum = 0;
        rk_cuda_scan_u32(stream, n, d_in, d_out, scratch, scratch_bytes);
        OK(rk_stream_sync(stream));
        OK(rk_device_download(device, out, d_out, (size_t)n * 4));
        for (int i = 0; i < n; i++) assert_int_equal(out[i], sum += in[i]);
        rk_device_free(device, d_in);
        rk_device_free(device, d_out);
    }
}

static void test_copy(void **state) {
    (void)state;
    static unsigned char from[100032], to[sizeof from];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i * 31 >> 3);
    void *d_from = on_device(from, sizeof from), *d_to = on_device(NULL, sizeof from);
    for (size_t n = 0; n < sizeof from; n = 3 * n + 16) {
        rk_stream_fill(stream, d_to, 0, sizeof to);
        rk_cuda_copy(stream, n, d_from, d_to);
        OK(rk_stream_sync(stream));
        OK(rk_device_download(device, to, d_to, sizeof to));
        assert_memory_equal(to, from, n);
        for (size_t i = n; i < sizeof to; i++) assert_int_equal(to[i], 0);
    }
    rk_device_free(device, d_from);
    rk_device_free(device, d_to);
}

static int open_with_scratch(void **state) {
    open_device(state);
    scratch_bytes = rk_cuda_sort_scratch_bytes(device, MOST);
    scratch = on_device(NULL, scratch_bytes);
    return 0;
}
static int close_with_scratch(void **state) {
    rk_device_free(device, scratch);
    return close_device(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sort), cmocka_unit_test(test_narrow_sort),
                                       cmocka_unit_test(test_scan), cmocka_unit_test(test_copy)};
    return cmocka_run_group_tests(tests, open_with_scratch, close_with_scratch);
}
