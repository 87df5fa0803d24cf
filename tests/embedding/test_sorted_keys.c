/* Keys that ascend, as an export has them: found where they stand, wherever that is; refused where they do
 * not ascend; and rows that are rows, whatever becomes of the file. */
#include "testing.h"

#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "embedding/sorted_keys.h"

enum { MOST = 2000 };

static uint8_t bytes[MOST * sizeof(int64_t) + 8];

static void put(uint8_t *at, int64_t i, int64_t key) {
    memcpy(at + (size_t)i * sizeof key, &key, sizeof key);
}

/* Every third whole number, of which none is beside another, and both ends of all. */
static int64_t key_of(int64_t i, int64_t n) {
    return i == 0 ? INT64_MIN : i == n - 1 ? INT64_MAX : 3 * (i - n / 2);
}

static void check_all(rk_sorted_keys *sorted, int64_t n) {
    static int64_t wanted[3 * MOST], rows[3 * MOST];
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            wanted[3 * i + k] = (int64_t)((uint64_t)key_of(i, n) + (uint64_t)k - 1); /* and its neighbours */
    rk_sorted_keys_find(sorted, wanted, 3 * n, rows);
    for (int64_t i = 0; i < 3 * n; i++) {
        bool is_key = i % 3 == 1, is_end = wanted[i] == INT64_MIN || wanted[i] == INT64_MAX;
        if (is_end && !is_key) continue; /* one end's neighbour is the other */
        assert_int_equal(rows[i], is_key ? i / 3 : n);
    }
}

static void test_find(void **state) {
    (void)state;
    static const int64_t sizes[] = {2, 3, 15, 16, 17, 255, 256, 257, 511, 512, 513, 1999};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int offset = 0; offset < 8; offset += 3) {
            rk_sorted_keys sorted;
            for (int64_t i = 0; i < sizes[s]; i++) put(bytes + offset, i, key_of(i, sizes[s]));
            OK(rk_sorted_keys_init(bytes + offset, sizes[s], &sorted));
            check_all(&sorted, sizes[s]);
            rk_sorted_keys_release(&sorted);
        }
}

static void test_few(void **state) {
    (void)state;
    static const int64_t wanted[] = {-1, 0, 1};
    int64_t rows[3], key = 0;
    rk_sorted_keys sorted;
    OK(rk_sorted_keys_init(NULL, 0, &sorted));
    rk_sorted_keys_find(&sorted, wanted, 3, rows);
    for (int i = 0; i < 3; i++) assert_int_equal(rows[i], 0);
    assert_int_equal(atomic_load(&sorted.n_missing), 3);
    rk_sorted_keys_release(&sorted);
    OK(rk_sorted_keys_init(&key, 1, &sorted));
    rk_sorted_keys_find(&sorted, wanted, 3, rows);
    assert_memory_equal(rows, ((int64_t[]){1, 0, 1}), sizeof rows);
    assert_int_equal(atomic_load(&sorted.n_missing), 2);
    rk_sorted_keys_release(&sorted);
}

static void test_order(void **state) {
    (void)state;
    static const int64_t twice[] = {1, 2, 2}, down[] = {5, -5}, unsigned_order[] = {1, -1};
    rk_sorted_keys sorted;
    long live = rk_alloc_live();
    FAILS(rk_sorted_keys_init(twice, 3, &sorted), RK_BAD_DATA,
          "keys must ascend, and 2 stands behind 2 at place 2");
    assert_int_equal(rk_sorted_keys_init(down, 2, &sorted), RK_BAD_DATA);
    assert_int_equal(rk_sorted_keys_init(unsigned_order, 2, &sorted), RK_BAD_DATA);
    assert_int_equal(rk_alloc_live(), live);
}

/* A file that others write to while it is mapped: any key gets some row. */
static void test_changed_file(void **state) {
    (void)state;
    static int64_t keys[MOST];
    rk_rng rng = {7, 3, 0};
    rk_sorted_keys sorted;
    for (int64_t i = 0; i < MOST; i++) keys[i] = 5 * i;
    OK(rk_sorted_keys_init(keys, MOST, &sorted));
    for (int64_t i = 0; i < MOST; i++) keys[i] = (int64_t)rk_rng_next(&rng);
    for (int64_t i = 0; i < MOST; i++) {
        int64_t row;
        rk_sorted_keys_find(&sorted, &keys[i], 1, &row);
        assert_in_range(row, 0, MOST);
    }
    rk_sorted_keys_release(&sorted);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_find), cmocka_unit_test(test_few),
                                       cmocka_unit_test(test_order), cmocka_unit_test(test_changed_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
