/* Hashes of ids on the device are the library's own. */
#include "base/rng.h" /* before a `stream` is declared, which is a parameter there */

#include "cuda/device_testing.h"

#include "base/hash.h"
#include "cuda/tables/table.h"

enum { N = 1003 };

static void test_hash_ids(void **state) {
    (void)state;
    static const int64_t special[] = {
        0,       1,        -1,        9,          10,        99,        100,     999999,
        1000000, 99999999, 100000000, -100000000, INT64_MAX, INT64_MIN, 1234567, 12345678901ll};
    static const uint64_t buckets[] = {1, 7, 1000003, (uint64_t)1 << 40, UINT64_MAX};
    int64_t in[N], out[N];
    rk_rng rng = {3, 0, 0};
    for (int i = 0; i < N; i++)
        in[i] = i < 16 ? special[i] : (int64_t)(rk_rng_next(&rng) >> i % 64) * (i % 3 ? 1 : -1);
    int64_t *device_in = on_device(in, sizeof in), *device_out = on_device(NULL, sizeof out);
    for (int b = 0; b < 5; b++) {
        uint64_t seed = b % 2 ? 0 : 0x123456789ABCDEFull * (uint64_t)b;
        rk_cuda_hash_ids(stream, N, device_in, device_out, seed, buckets[b]);
        OK(rk_stream_sync(stream));
        OK(rk_device_download(device, out, device_out, sizeof out));
        for (int i = 0; i < N; i++)
            assert_int_equal(out[i], (int64_t)rk_hash_bucket(rk_hash_i64(in[i], seed), buckets[b]));
    }
    rk_device_free(device, device_in);
    rk_device_free(device, device_out);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hash_ids)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
