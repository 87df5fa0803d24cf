/* rkb: random round trips, wanted columns, several readers at once, what the writer refuses. */
#include "fixture.h"

#include <math.h>
#include <pthread.h>

#include "format/rkb/rkb.h"

static const char *const names[] = {"user", "item", "price", "tags", "when", "x"};
static const rk_column_type types[] = {RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32,
                                       RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32};
enum { N_COLUMNS = 6 };

static void write_blocks(const char *path, int level, const rk_columns *blocks, int n_blocks) {
    rk_rkb_writer *writer;
    OK(rk_rkb_writer_open(path, level, &writer));
    for (int b = 0; b < n_blocks; b++) OK(rk_rkb_writer_add(writer, &blocks[b]));
    OK(rk_rkb_writer_commit(writer));
    rk_rkb_writer_free(writer);
}

static void test_round_trips(void **state) {
    (void)state;
    rk_rng rng = {21, 1, 0};
    for (int round = 0; round < 60; round++) {
        const char *path = "test_rkb_round.rkb";
        rk_columns blocks[4], read = {0};
        int n_blocks = 1 + (int)draw(&rng, 4);
        for (int b = 0; b < n_blocks; b++) {
            OK(rk_columns_init(&blocks[b], N_COLUMNS, names, types));
            OK(fill_random(&rng, 1 + draw(&rng, round % 2 ? 2000 : 5), &blocks[b]));
        }
        write_blocks(path, round % 4, blocks, n_blocks);
        rk_rkb *rkb;
        OK(rk_rkb_open(path, &rkb));
        assert_int_equal(rk_rkb_n_blocks(rkb), n_blocks);
        assert_int_equal(rk_rkb_n_columns(rkb), N_COLUMNS);
        for (int32_t c = 0; c < N_COLUMNS; c++) {
            assert_string_equal(rk_rkb_column_name(rkb, c), names[c]);
            assert_int_equal(rk_rkb_column_type(rkb, c), types[c]);
        }
        for (int b = n_blocks - 1; b >= 0; b--) { /* in any order, into the same columns */
            assert_int_equal(rk_rkb_block_rows(rkb, b), blocks[b].n_rows);
            OK(rk_rkb_read_block(rkb, b, NULL, &read));
            assert_true(same_columns(&read, &blocks[b]));
        }
        bool wanted[N_COLUMNS] = {false, true, false, true, false, false};
        OK(rk_rkb_read_block(rkb, 0, wanted, &read));
        for (int32_t c = 0; c < N_COLUMNS; c++) {
            if (wanted[c])
                assert_true(same_column(&read.columns[c], &blocks[0].columns[c], read.n_rows));
            else
                assert_int_equal(read.columns[c].n_values, 0);
        }
        rk_rkb_free(rkb);
        rk_columns_release(&read);
        for (int b = 0; b < n_blocks; b++) rk_columns_release(&blocks[b]);
        assert_int_equal(rk_alloc_live(), 0);
    }
}

/* Bytes of a mapped file that are in memory by this process's account. */
static int64_t resident_bytes(const char *name) {
    char line[4400];
    bool is_file = false;
    long long kib, sum = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        if (strstr(line, name)) is_file = true;
        if (!is_file || sscanf(line, "Rss: %lld kB", &kib) != 1) continue;
        sum += kib;
        is_file = false;
    }
    fclose(maps);
    return sum * 1024;
}

/* Blocks that are read into the same memory one after the other are not all kept there. */
static void test_resident_pages(void **state) {
    (void)state;
    enum { BLOCKS = 8, ROWS = 1 << 18 };
    const char *path = "test_rkb_resident.rkb", *const name = "x";
    const rk_column_type type = RK_COLUMN_F32;
    rk_columns blocks[BLOCKS], read = {0};
    for (int b = 0; b < BLOCKS; b++) {
        OK(rk_columns_init(&blocks[b], 1, &name, &type));
        for (int64_t i = 0; i < ROWS; i++) {
            OK(rk_column_add_f32(&blocks[b].columns[0], (float)i * 1.7f + (float)b));
            OK(rk_columns_end_row(&blocks[b]));
        }
    }
    write_blocks(path, 0, blocks, BLOCKS);
    rk_rkb *rkb;
    rk_rkb_memory memory = {0};
    OK(rk_rkb_open(path, &rkb));
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < BLOCKS; b++) {
            OK(rk_rkb_read_block_columns(rkb, b, (rk_rkb_choice){0}, &memory, &read));
            assert_true(same_columns(&read, &blocks[b]));
            assert_true(resident_bytes(path) < 3 * (int64_t)sizeof(float) * ROWS);
        }
    rk_rkb_free(rkb);
    rk_rkb_memory_release(&memory);
    rk_columns_release(&read);
    for (int b = 0; b < BLOCKS; b++) rk_columns_release(&blocks[b]);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_extremes(void **state) {
    (void)state;
    const char *path = "test_rkb_extremes.rkb";
    rk_columns block, read = {0};
    OK(rk_columns_init(&block, N_COLUMNS, names, types));
    const int64_t numbers[] = {INT64_MIN, INT64_MAX, 0, -1};
    for (int r = 0; r < 4; r++) {
        OK(rk_column_add_i64(&block.columns[1], numbers[r]));
        OK(rk_column_add_f32(&block.columns[2], r ? -0.0f : (float)NAN));
        OK(rk_column_add_text(&block.columns[0], (rk_span){"a\0b\xff", (size_t)r}));
        OK(rk_columns_end_row(&block));
    }
    write_blocks(path, 0, &block, 1);
    rk_rkb *rkb;
    OK(rk_rkb_open(path, &rkb));
    OK(rk_rkb_read_block(rkb, 0, NULL, &read));
    assert_true(same_columns(&read, &block));
    assert_int_equal(rk_rkb_read_block(rkb, 1, NULL, &read), RK_INVALID_ARGUMENT);
    rk_rkb_free(rkb);
    rk_columns_release(&read);
    rk_columns_release(&block);
    write_blocks(path, 3, NULL, 0); /* nothing at all is a file too */
    OK(rk_rkb_open(path, &rkb));
    assert_int_equal(rk_rkb_n_blocks(rkb) + rk_rkb_n_columns(rkb), 0);
    rk_rkb_free(rkb);
}

typedef struct reader {
    const rk_rkb *rkb;
    const rk_columns *blocks;
    int same;
} reader;

static void *read_all(void *argument) {
    reader *r = argument;
    rk_columns read = {0};
    r->same = 1;
    for (int64_t round = 0; round < 20; round++)
        for (int64_t b = 0; b < rk_rkb_n_blocks(r->rkb); b++)
            r->same &=
                rk_rkb_read_block(r->rkb, b, NULL, &read) == RK_OK && same_columns(&read, &r->blocks[b]);
    rk_columns_release(&read);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    const char *path = "test_rkb_threads.rkb";
    rk_rng rng = {22, 1, 0};
    rk_columns blocks[3];
    for (int b = 0; b < 3; b++) {
        OK(rk_columns_init(&blocks[b], N_COLUMNS, names, types));
        OK(fill_random(&rng, 500, &blocks[b]));
    }
    write_blocks(path, 3, blocks, 3);
    rk_rkb *rkb;
    OK(rk_rkb_open(path, &rkb));
    pthread_t threads[4];
    reader readers[4];
    for (int i = 0; i < 4; i++) {
        readers[i] = (reader){rkb, blocks, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(readers[i].same);
    }
    rk_rkb_free(rkb);
    for (int b = 0; b < 3; b++) rk_columns_release(&blocks[b]);
}

static void test_refusals(void **state) {
    (void)state;
    const char *path = "test_rkb_refused.rkb";
    rk_rkb_writer *writer;
    rk_columns block, other;
    OK(rk_columns_init(&block, 2, names, types));
    OK(rk_columns_init(&other, 3, names, types));
    assert_int_equal(rk_rkb_writer_open(path, -1, &writer), RK_INVALID_ARGUMENT);
    assert_int_equal(rk_rkb_writer_open(path, 100, &writer), RK_INVALID_ARGUMENT);
    OK(rk_rkb_writer_open(path, 0, &writer));
    OK(rk_rkb_writer_add(writer, &block)); /* no rows: the columns are known from now on */
    FAILS(rk_rkb_writer_add(writer, &other), RK_INVALID_ARGUMENT,
          "'test_rkb_refused.rkb': a block of other columns than the first");
    OK(rk_rkb_writer_commit(writer));
    rk_rkb_writer_free(writer);
    rk_rkb *rkb;
    OK(rk_rkb_open(path, &rkb));
    assert_int_equal(rk_rkb_n_columns(rkb), 2);
    assert_int_equal(rk_rkb_n_blocks(rkb), 0);
    rk_rkb_free(rkb);
    rk_columns read = {0};
    OK(rk_columns_end_row(&block));
    write_blocks(path, 0, &block, 1);
    OK(rk_rkb_open(path, &rkb));
    FAILS(rk_rkb_read_block(rkb, 0, NULL, &other), RK_INVALID_ARGUMENT,
          "'test_rkb_refused.rkb': 2 columns to be read into 3");
    OK(rk_rkb_read_block(rkb, 0, NULL, &read));
    read.columns[0].type = RK_COLUMN_F32;
    assert_int_equal(rk_rkb_read_block(rkb, 0, NULL, &read), RK_INVALID_ARGUMENT);
    rk_rkb_free(rkb);
    rk_columns_release(&read);
    rk_columns_release(&block);
    rk_columns_release(&other);
    assert_int_equal(rk_rkb_open("no/such.rkb", &rkb), RK_NOT_FOUND);
    remove("test_rkb_gone.rkb");
    OK(rk_rkb_writer_open("test_rkb_gone.rkb", 0, &writer));
    rk_rkb_writer_free(writer);
    assert_false(rk_file_exists("test_rkb_gone.rkb"));
    assert_false(rk_file_exists("test_rkb_gone.rkb.tmp"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trips),
                                       cmocka_unit_test(test_resident_pages), cmocka_unit_test(test_extremes),
                                       cmocka_unit_test(test_threads), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
