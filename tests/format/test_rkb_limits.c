/* rkb files that ask for much memory by few bytes, with checksums that are right: read with little of it, or
 * refused. */
#include "fixture.h"
#include "memory_limit.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "format/rkb/rkb.h"
#include "format/rkb/rkb_internal.h"

enum { MIB = 1 << 20 };

/* A column of R rows of one value each, all alike: as few bytes as there can be. */
static void put_constant(rk_column_type type, uint64_t n_rows, rk_buffer *out) {
    rk_buffer_append_u64le(out, n_rows); /* values */
    rk_buffer_append_u8(out, 0);         /* counts of no bits: 1 each */
    rk_buffer_append_u64le(out, 1);
    if (type == RK_COLUMN_TEXT) rk_buffer_append_u8(out, RK_RKB_TEXT_PLAIN);
    rk_buffer_append_u8(out, 0); /* numbers or lengths of no bits: 0 each */
    rk_buffer_append_u64le(out, 0);
    rk_buffer_append_u8(out, 0); /* no weights */
}

/* A file of n_blocks blocks of n_columns such columns of n_rows rows. */
static void make_file(rk_column_type type, uint64_t n_blocks, uint32_t n_columns, uint64_t n_rows,
                      rk_buffer *out) {
    rk_buffer chunk = {0}, footer = {0};
    put_constant(type, n_rows, &chunk);
    rk_buffer_append(out, RK_RKB_HEAD_MAGIC, RK_RKB_MAGIC_BYTES);
    rk_buffer_append_u32le(out, RK_RKB_VERSION);
    rk_buffer_append_u32le(out, rk_crc32c(0, out->data, out->n_bytes));
    rk_buffer_append_u64le(&footer, n_blocks * n_rows);
    rk_buffer_append_u64le(&footer, n_blocks);
    rk_buffer_append_u32le(&footer, n_columns);
    for (uint32_t c = 0; c < n_columns; c++) {
        rk_buffer_append_u8(&footer, (uint8_t)type);
        rk_buffer_append_u32le(&footer, 1);
        rk_buffer_append_u8(&footer, (uint8_t)('!' + c % 90));
    }
    for (uint64_t b = 0; b < n_blocks; b++) {
        rk_buffer_append_u64le(&footer, n_rows);
        for (uint32_t c = 0; c < n_columns; c++) {
            rk_buffer_append(out, chunk.data, chunk.n_bytes);
            rk_buffer_append_u64le(&footer, chunk.n_bytes);
            rk_buffer_append_u64le(&footer, chunk.n_bytes);
            rk_buffer_append_u32le(&footer, rk_crc32c(0, chunk.data, chunk.n_bytes));
            rk_buffer_append_u32le(&footer, RK_RKB_PLAIN);
        }
    }
    uint64_t n_bytes = footer.n_bytes;
    rk_buffer_append_u64le(&footer, n_bytes);
    rk_buffer_append_u32le(&footer, rk_crc32c(0, footer.data, footer.n_bytes));
    rk_buffer_append_u32le(&footer, RK_RKB_VERSION);
    rk_buffer_append(&footer, RK_RKB_TAIL_MAGIC, RK_RKB_MAGIC_BYTES);
    rk_buffer_append(out, footer.data, footer.n_bytes);
    OK(out->status);
    OK(footer.status);
    rk_buffer_release(&chunk);
    rk_buffer_release(&footer);
}

/* The file is read or refused in so much memory; it is never that there is too little. */
static rk_status read_within(size_t limit, rk_column_type type, uint64_t n_blocks, uint32_t n_columns,
                             uint64_t n_rows, const bool *wanted) {
    rk_buffer file = {0};
    rk_rkb *rkb;
    rk_columns read = {0};
    make_file(type, n_blocks, n_columns, n_rows, &file);
    limit_memory(limit);
    OK(rk_rkb_open_memory("x.rkb", file.data, file.n_bytes, &rkb));
    rk_status status = RK_OK;
    for (uint64_t b = 0; status == RK_OK && b < n_blocks; b++)
        status = rk_rkb_read_block(rkb, (int64_t)b, wanted, &read);
    unlimit_memory();
    assert_true(status == RK_OK || status == RK_BAD_DATA);
    rk_columns_release(&read);
    rk_rkb_free(rkb);
    rk_buffer_release(&file);
    return status;
}

static void test_few_bytes_ask_for_little(void **state) {
    (void)state;
    for (int type = RK_COLUMN_TEXT; type <= RK_COLUMN_F32; type++) {
        if (type == RK_COLUMN_F32) continue; /* its values stand in the file */
        assert_int_equal(read_within(128 * MIB, (rk_column_type)type, 1, 1, RK_RKB_MAX_ROWS, NULL),
                         RK_BAD_DATA);
        assert_non_null(strstr(rk_last_error(), "'x.rkb': block 0"));
        assert_int_equal(read_within(128 * MIB, (rk_column_type)type, 1, 60, 1 << 20, NULL), RK_BAD_DATA);
        assert_int_equal(read_within(128 * MIB, (rk_column_type)type, 20, 3, 100000, NULL), RK_OK);
    }
}

static void test_what_convert_writes_is_read(void **state) {
    (void)state;
    assert_int_equal(read_within(400 * MIB, RK_COLUMN_I64, 1, 2000, 4096, NULL), RK_OK);
}

static void test_unwanted_columns_cost_nothing(void **state) {
    (void)state;
    bool wanted[500] = {[7] = true};
    assert_int_equal(read_within(64 * MIB, RK_COLUMN_I64, 1, 500, 1 << 19, wanted), RK_OK);
}

/* What a reader refuses is not written. */
static void test_writer_refuses(void **state) {
    (void)state;
    enum { COLUMNS = 4, ROWS = 1 << 20 };
    static const char *const names[COLUMNS] = {"a", "b", "c", "d"};
    static const rk_column_type types[COLUMNS] = {RK_COLUMN_I64, RK_COLUMN_I64, RK_COLUMN_I64, RK_COLUMN_I64};
    rk_columns block;
    OK(rk_columns_init(&block, COLUMNS, names, types));
    for (int64_t row = 0; row < ROWS; row++) {
        for (int c = 0; c < COLUMNS; c++) OK(rk_column_add_i64(&block.columns[c], 5));
        OK(rk_columns_end_row(&block));
    }
    rk_rkb_writer *writer;
    OK(rk_rkb_writer_open("test_rkb_limits.rkb", 0, &writer));
    FAILS(rk_rkb_writer_add(writer, &block), RK_INVALID_ARGUMENT,
          "'test_rkb_limits.rkb': a block of 1048576 rows and 4 columns, 108 bytes in the file and 75497580 "
          "in memory, is too large\nhint: write blocks of fewer rows");
    rk_rkb_writer_free(writer);
    rk_columns_release(&block);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_bytes_ask_for_little),
        cmocka_unit_test(test_what_convert_writes_is_read),
        cmocka_unit_test(test_unwanted_columns_cost_nothing),
        cmocka_unit_test(test_writer_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
