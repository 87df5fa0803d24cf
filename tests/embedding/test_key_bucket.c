/* A bucket's index, which finds rows by cache lines of tags (src/embedding/dynamic/key_bucket.h). */
#include "testing.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "embedding/dynamic/key_bucket.h"

enum { N_ROWS = 4096, N_ALIKE = 40 };

static rk_key_info info[2 * N_ROWS + 1];

static int64_t key_of_row(int64_t row) {
    static const int64_t special[] = {0, 0, -1, -2, INT64_MAX, INT64_MIN, (int64_t)1 << 52, (int64_t)1 << 56};
    return row < (int64_t)(sizeof special / sizeof *special) ? special[row] : row * 977;
}

static void insert_with_room(rk_key_bucket *bucket, int64_t row, int64_t key, uint32_t most,
                             rk_index_line *room) {
    info[row].key = key;
    OK(rk_key_bucket_reserve(bucket, info, bucket->n + 1, most, room));
    rk_key_bucket_insert(bucket, key, row);
}

static void insert(rk_key_bucket *bucket, int64_t row, int64_t key, uint32_t most) {
    insert_with_room(bucket, row, key, most, NULL);
}

/* Rows first .. last-1 are all that the bucket has. */
static void assert_has(const rk_key_bucket *bucket, int64_t first, int64_t last) {
    static int64_t rows[2 * N_ROWS];
    int64_t sum = 0;
    assert_int_equal(bucket->n, last - first);
    for (int64_t row = first; row < last; row++)
        assert_int_equal(rk_key_bucket_find(bucket, info, info[row].key), row);
    rk_key_bucket_list_rows(bucket, rows);
    for (uint32_t i = 0; i < bucket->n; i++) {
        assert_in_range(rows[i], first, last - 1);
        sum += rows[i];
    }
    assert_int_equal(sum, (last - first) * (first + last - 1) / 2);
}

static void test_every_key_has_its_row(void **state) {
    (void)state;
    rk_key_bucket bucket = {0};
    assert_int_equal(rk_key_bucket_find(&bucket, info, 0), 0);
    for (int64_t row = 1; row <= N_ROWS; row++) {
        assert_int_equal(rk_key_bucket_find(&bucket, info, key_of_row(row)), 0);
        insert(&bucket, row, key_of_row(row), N_ROWS);
        if (row < 64 || row % 1000 == 0) assert_has(&bucket, 1, row + 1);
    }
    assert_has(&bucket, 1, N_ROWS + 1);
    for (int64_t i = 1; i < 10 * N_ROWS; i++)
        if (i % 977) assert_int_equal(rk_key_bucket_find(&bucket, info, i * 1000003 + 5), 0);
    assert_true(bucket.n_lines * sizeof *bucket.lines <=
                N_ROWS * 6.5); /* what RK_KEY_BYTES says of a full one */
    rk_key_bucket_clear(&bucket);
    for (int64_t row = 1; row <= N_ROWS; row++)
        assert_int_equal(rk_key_bucket_find(&bucket, info, info[row].key), 0);
    rk_key_bucket_release(&bucket);
}

/* A bucket moves into its room when it is half full, is cleared and filled there, and leaves it for good when
 * it has too many keys. */
static void test_lines_move_into_room(void **state) {
    (void)state;
    rk_key_bucket bucket = {0};
    uint64_t n_lines = rk_key_bucket_lines(N_ROWS);
    rk_index_line *room = calloc(n_lines + 1, sizeof *room);
    assert_non_null(room);
    memset(&room[n_lines], 0xa5, sizeof *room);
    for (int64_t row = 1; row <= 2 * N_ROWS; row++) {
        insert_with_room(&bucket, row, key_of_row(row), N_ROWS, room);
        if (row < N_ROWS / 3) assert_false(bucket.is_in_room);
        if (row >= N_ROWS / 2 && row <= N_ROWS) assert_true(bucket.is_in_room && bucket.lines == room);
        if (row == N_ROWS) {
            assert_has(&bucket, 1, row + 1);
            rk_key_bucket_clear(&bucket);
            assert_int_equal(rk_key_bucket_find(&bucket, info, 5), 0);
            for (int64_t again = 1; again <= row; again++)
                insert_with_room(&bucket, again, key_of_row(again), N_ROWS, room);
            assert_has(&bucket, 1, row + 1);
        }
        if (row > 10 * (int64_t)n_lines) assert_true(!bucket.is_in_room && bucket.lines != room);
    }
    assert_has(&bucket, 1, 2 * N_ROWS + 1);
    for (size_t i = 0; i < sizeof *room; i++) assert_int_equal(((uint8_t *)&room[n_lines])[i], 0xa5);
    rk_key_bucket_release(&bucket);
    free(room);
}

/* What x was before x ^= x >> shift. */
static uint64_t before_shift(uint64_t x, int shift) {
    uint64_t out = x;
    for (int i = shift; i < 64; i += shift) out = x ^ out >> shift;
    return out;
}

static uint64_t inverse_of(uint64_t odd) {
    uint64_t inverse = odd;
    for (int i = 0; i < 6; i++) inverse *= 2 - odd * inverse;
    return inverse;
}

static int64_t key_of_hash(uint64_t hash) {
    uint64_t x = before_shift(hash, 31) * inverse_of(0x94D049BB133111EBu);
    x = before_shift(x, 27) * inverse_of(0xBF58476D1CE4E5B9u);
    x = before_shift(x, 30) - 0x9E3779B97F4A7C15u;
    assert_int_equal(rk_key_hash((int64_t)x), hash);
    return (int64_t)x;
}

/* They go to one line, and on from there, around the end. Of hashes whose eight bits are 0 or 1, too, which
 * have one tag. */
static void test_keys_of_one_tag_and_line(void **state) {
    (void)state;
    for (uint64_t tag = 0; tag < 256; tag += 85) {
        rk_key_bucket bucket = {0};
        for (int64_t row = 1; row <= N_ALIKE; row++) {
            uint64_t hash = (uint64_t)row << 40 | (tag + (tag == 0 && row % 2)) << 32 | UINT32_MAX;
            int64_t key = key_of_hash(hash);
            assert_int_equal(rk_key_bucket_find(&bucket, info, key), 0);
            insert(&bucket, row, key, N_ALIKE);
        }
        assert_has(&bucket, 1, N_ALIKE + 1);
        assert_int_equal(
            rk_key_bucket_find(&bucket, info, key_of_hash((uint64_t)99 << 40 | tag << 32 | UINT32_MAX)), 0);
        rk_key_bucket_release(&bucket);
    }
}

static void test_wide_rows(void **state) {
    (void)state;
    const int64_t wide[] = {1, UINT32_MAX, (int64_t)1 << 32, ((int64_t)1 << 33) + 5, RK_MOST_KEY_ROWS - 1};
    enum { N_WIDE = sizeof wide / sizeof *wide };
    rk_key_bucket bucket = {0};
    int64_t rows[N_WIDE];
    OK(rk_key_bucket_reserve(&bucket, info, N_WIDE, N_WIDE, NULL));
    for (int i = 0; i < N_WIDE; i++) rk_key_bucket_insert(&bucket, i, wide[i]);
    rk_key_bucket_list_rows(&bucket, rows);
    for (int i = 0; i < N_WIDE; i++) {
        bool is_listed = false;
        for (int k = 0; k < N_WIDE; k++) is_listed |= rows[k] == wide[i];
        assert_true(is_listed);
        assert_int_equal(rk_key_bucket_guess_row(&bucket, rk_key_hash(i)), wide[i]); /* their tags differ */
    }
    rk_key_bucket_release(&bucket);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_key_has_its_row),
        cmocka_unit_test(test_lines_move_into_room),
        cmocka_unit_test(test_keys_of_one_tag_and_line),
        cmocka_unit_test(test_wide_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
