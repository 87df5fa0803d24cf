/* Pages that grow: what is in them stays, what is new is zeros, wherever the system puts them. */
#include "testing.h"

#include "base/memory.h"

enum { N_ARRAYS = 8, STEP = 4096 / sizeof(uint64_t), MOST_BYTES = 16 << 20 };

static uint64_t *arrays[N_ARRAYS];
static size_t sizes[N_ARRAYS];

/* A number a page. */
static void check_and_fill(size_t a, size_t n_old) {
    size_t n = sizes[a] / sizeof *arrays[a];
    for (size_t i = 0; i < n; i += STEP) assert_int_equal(arrays[a][i], i < n_old ? a * 1000 + i : 0);
    if ((n - 1) % STEP) assert_int_equal(arrays[a][n - 1], 0);
    for (size_t i = 0; i < n; i += STEP) arrays[a][i] = a * 1000 + i;
}

/* Several grow beside each other, from a few bytes to more than a huge page. */
static void test_growing(void **state) {
    (void)state;
    long live = rk_alloc_live();
    for (size_t bytes = 104; bytes < MOST_BYTES; bytes = bytes * 3 / 8 * 8)
        for (size_t a = 0; a < N_ARRAYS; a++) {
            size_t n_old = sizes[a] / sizeof *arrays[a];
            OK(rk_pages_reserve(&arrays[a], &sizes[a], bytes + 8 * a));
            assert_int_equal(sizes[a], bytes + 8 * a);
            check_and_fill(a, n_old);
        }
    for (size_t a = 0; a < N_ARRAYS; a++) {
        OK(rk_pages_reserve(&arrays[a], &sizes[a], 1)); /* there is more */
        rk_pages_free(arrays[a], sizes[a]);
    }
    assert_int_equal(rk_alloc_live(), live);
}

static void test_no_memory(void **state) {
    (void)state;
    uint64_t *array = NULL, *before;
    size_t bytes = 0;
    OK(rk_pages_reserve(&array, &bytes, 5000));
    array[7] = 7;
    before = array;
    rk_alloc_fail_after(1, false);
    assert_int_equal(rk_pages_reserve(&array, &bytes, 50000), RK_NO_MEMORY);
    rk_alloc_fail_after(0, false);
    assert_true(array == before && bytes == 5000 && array[7] == 7);
    rk_pages_free(array, bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_growing), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
