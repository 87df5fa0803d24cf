/* Parquet files of pyarrow's (tests/golden/make_parquet.py), value by value; and what is done to them. */
#include "format/parquet/parquet.h"

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/float16.h"
#include "fixture.h"

#define GOLDEN RK_SOURCE_DIR "/tests/golden/parquet/"

static const struct {
    const char *file, *values;
} files[] = {{"none", "rows"},       {"snappy", "rows"}, {"gzip", "rows"},  {"brotli", "rows"},
             {"zstd", "rows"},       {"lz4", "rows"},    {"pages", "rows"}, {"differences", "rows"},
             {"lengths", "lengths"}, {"int96", "int96"}};
enum { N_FILES = sizeof files / sizeof files[0] };

static rk_status open_golden(const char *name, rk_parquet **out) {
    char path[512];
    snprintf(path, sizeof path, GOLDEN "%s.parquet", name);
    return rk_parquet_open(path, out);
}

static void show_value(const rk_column *column, int64_t v, rk_buffer *out) {
    uint64_t bits;
    rk_buffer_append_text(out, " ");
    switch (column->type) {
        case RK_COLUMN_I64:
            rk_buffer_printf(out, "%lld", (long long)column->i64[v]);
            return;
        case RK_COLUMN_F32:
            rk_buffer_printf(out, "%08x", rk_f32_bits(column->f32[v]));
            return;
        case RK_COLUMN_F64:
            memcpy(&bits, &column->f64[v], sizeof bits);
            rk_buffer_printf(out, "%016llx", (unsigned long long)bits);
            return;
        default: {
            rk_span text = rk_column_text(column, v);
            rk_buffer_append(out, text.data, text.n_bytes);
        }
    }
}

/* A column of the file, read `each` rows at a time. */
static rk_status show_column(const rk_parquet *file, int32_t c, int64_t each, rk_parquet_memory *memory,
                             rk_buffer *out) {
    const rk_parquet_column *column = rk_parquet_column_at(file, c);
    RK_AUTO(rk_columns_release) rk_columns rows = {0};
    const char *name = column->name;
    RK_TRY(rk_columns_init(&rows, 1, &name, &column->type));
    rk_buffer_printf(out, "column %s %s\n", name, rk_column_type_name(column->type));
    for (int64_t g = 0; g < rk_parquet_n_groups(file); g++)
        for (int64_t first = 0, left; (left = rk_parquet_group_rows(file, g) - first) > 0; first += each) {
            const rk_parquet_rows wanted = {.group = g, .first = first, .n = left < each ? left : each};
            const rk_column *found = rows.columns;
            RK_TRY(rk_parquet_read(file, c, &wanted, memory, rows.columns));
            for (int64_t row = 0; row < wanted.n; row++) {
                if (found->per_row >= 0)
                    assert_int_equal(found->offsets[row + 1] - found->offsets[row], found->per_row);
                for (int64_t v = found->offsets[row]; v < found->offsets[row + 1]; v++)
                    show_value(found, v, out);
                rk_buffer_append_u8(out, '\n');
            }
        }
    return out->status;
}

static rk_status show_file(const rk_parquet *file, int64_t each, rk_buffer *out) {
    RK_AUTO(rk_parquet_memory_release) rk_parquet_memory memory = {0};
    for (int32_t c = 0; c < rk_parquet_n_columns(file); c++) RK_TRY(show_column(file, c, each, &memory, out));
    return RK_OK;
}

/* Libraries of codecs are optional. */
static bool is_unknown(rk_status status) {
    return status == RK_UNSUPPORTED && strstr(rk_last_error(), "this build does not know") &&
           strstr(rk_last_error(), "hint: install lib");
}

static void test_values(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FILES; i++) {
        static const int64_t each[] = {1000, 1, 7};
        char path[512], *wanted;
        size_t n_bytes;
        snprintf(path, sizeof path, GOLDEN "%s.txt", files[i].values);
        OK(rk_file_read(path, &wanted, &n_bytes));
        for (size_t k = 0; k < 3; k++) {
            rk_parquet *file;
            rk_buffer found = {0};
            OK(open_golden(files[i].file, &file));
            rk_status status = show_file(file, each[k], &found);
            rk_parquet_free(file);
            if (status == RK_OK && (found.n_bytes != n_bytes || memcmp(found.data, wanted, n_bytes) != 0))
                fail_msg("%s, %lld rows at a time:\n%s", files[i].file, (long long)each[k], found.data);
            if (is_unknown(status))
                print_message("%s: %s\n", files[i].file, rk_last_error());
            else
                OK(status);
            rk_buffer_release(&found);
        }
        rk_free(wanted);
    }
}

static void test_missing(void **state) {
    (void)state;
    char *missing[] = {"a", "long-word-long-word-long-word-"};
    rk_parquet *file;
    rk_parquet_memory memory = {0};
    rk_columns rows = {0};
    const char *name = "word";
    static const char *const names[] = {"none", "lengths"};
    for (size_t i = 0; i < 2; i++) {
        OK(open_golden(names[i], &file));
        int32_t c = 0;
        while (strcmp(rk_parquet_column_at(file, c)->name, name) != 0) c++;
        OK(rk_columns_init(&rows, 1, &name, NULL));
        const rk_parquet_rows wanted = {.n = rk_parquet_n_rows(file), .missing = missing, .n_missing = 2};
        OK(rk_parquet_read(file, c, &wanted, &memory, rows.columns));
        assert_true(rows.columns->n_values > 0);
        for (int64_t v = 0; v < rows.columns->n_values; v++) {
            rk_span text = rk_column_text(rows.columns, v);
            assert_true(rk_span_equal(text, "bc") || rk_span_equal(text, "ünï"));
        }
        rk_columns_release(&rows);
        rk_parquet_free(file);
    }
    rk_parquet_memory_release(&memory);
}

/* All that opens and reads gives values or an error; the sanitizers see the rest. */
static rk_status read_bytes(const void *data, size_t n_bytes, rk_buffer *out) {
    rk_parquet *file;
    RK_TRY(rk_parquet_open_memory("t.parquet", data, n_bytes, &file));
    rk_status status = show_file(file, 9, out);
    rk_parquet_free(file);
    return status;
}

static void test_damage(void **state) {
    (void)state;
    static const char *const names[] = {"lengths", "zstd", "differences", "int96"};
    rk_rng rng = {44, 1, 0};
    int n_refused = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512], *data;
        size_t n_bytes;
        rk_buffer shown = {0};
        snprintf(path, sizeof path, GOLDEN "%s.parquet", names[i]);
        OK(rk_file_read(path, &data, &n_bytes));
        for (size_t n = 0; n < n_bytes; n += n_bytes / 100 + 1) /* cut */
            assert_int_not_equal(read_bytes(data, n, &shown), RK_OK);
        for (int trial = 0; trial < 300; trial++) {
            size_t at = (size_t)draw(&rng, n_bytes);
            char bit = (char)(1 << draw(&rng, 8));
            data[at] ^= bit;
            rk_buffer_clear(&shown);
            n_refused += read_bytes(data, n_bytes, &shown) != RK_OK;
            data[at] ^= bit;
        }
        rk_buffer_release(&shown);
        rk_free(data);
    }
    assert_true(n_refused > 200);
}

static void test_messages(void **state) {
    (void)state;
    char *data;
    size_t n_bytes;
    rk_buffer shown = {0};
    OK(rk_file_read(GOLDEN "pages.parquet", &data, &n_bytes));
    assert_int_equal(read_bytes(data, 11, &shown), RK_BAD_DATA);
    assert_string_equal(rk_last_error(), "'t.parquet': too short for a Parquet file");
    assert_int_equal(read_bytes(data, n_bytes - 1, &shown), RK_BAD_DATA);
    assert_string_equal(rk_last_error(),
                        "'t.parquet': the file is truncated: it does not end as Parquet files do");
    assert_int_equal(read_bytes("a,b\n1,2\n1,2\n3,4\n", 16, &shown), RK_BAD_DATA);
    assert_string_equal(rk_last_error(), "'t.parquet': not a Parquet file");
    memcpy(data + n_bytes - 4, "PARE", 4);
    assert_int_equal(read_bytes(data, n_bytes, &shown), RK_UNSUPPORTED);
    assert_string_equal(rk_last_error(), "'t.parquet': encrypted Parquet files are not supported");
    memcpy(data + n_bytes - 4, "PAR1", 4);
    for (size_t at = 40; at < 60; at++) data[at] = ~data[at]; /* of a page with a checksum */
    assert_int_equal(read_bytes(data, n_bytes, &shown), RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), "'t.parquet': row group 0, column 'flag': "));
    assert_non_null(strstr(rk_last_error(), "byte "));
    rk_buffer_release(&shown);
    rk_free(data);
}

static void test_no_memory(void **state) {
    (void)state;
    rk_status status;
    int n = 0;
    do {
        rk_parquet *file = NULL;
        rk_buffer shown = {0};
        rk_alloc_fail_after(++n, true);
        status = open_golden("lengths", &file);
        if (status == RK_OK) status = show_file(file, 20, &shown);
        rk_alloc_fail_after(0, false);
        rk_parquet_free(file);
        rk_buffer_release(&shown);
        if (is_unknown(status)) break;
        if (status != RK_OK && status != RK_NO_MEMORY) fail_msg("allocation %d: %s", n, rk_last_error());
        assert_int_equal(rk_alloc_live(), 0);
    } while (status != RK_OK);
    assert_true(is_unknown(status) || n > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),   cmocka_unit_test(test_missing),   cmocka_unit_test(test_damage),
        cmocka_unit_test(test_messages), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
