/* TFRecord's features as the first record has them, and in every other shape: the reader of files against a
 * plain walk through each record. */
#include "testing.h"

#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/source/source.h"
#include "format/protobuf/tfrecord.h"

enum { N_NAMES = 6, RECORDS = 1500 };
static const char *const names[N_NAMES] = {
    "c",     "label",
    "price", "a name that no head can hold, as it has more letters than there is room for",
    "word",  "a-name-that-is-rather-long-for-one"};
static const rk_column_type types[N_NAMES] = {RK_COLUMN_I64, RK_COLUMN_I64,  RK_COLUMN_F32,
                                              RK_COLUMN_I64, RK_COLUMN_TEXT, RK_COLUMN_I64};
static char path[] = "/tmp/reckon-shapes-XXXXXX";

static int64_t draw(rk_rng *rng, uint64_t n) {
    return (int64_t)rk_rng_below(rng, n);
}

static int64_t any_id(rk_rng *rng) {
    static const uint64_t most[] = {2, 128, 20000, 3000000, 1ull << 40, 1ull << 62};
    return draw(rng, 60) ? draw(rng, most[draw(rng, 6)]) : -draw(rng, 1000);
}

static void add_feature(rk_rng *rng, rk_example_writer *writer, int name, size_t n) {
    int64_t ids[80];
    float numbers[80];
    char texts[80][8];
    rk_span spans[80];
    for (size_t i = 0; i < n; i++) {
        ids[i] = any_id(rng);
        numbers[i] = (float)draw(rng, 1000) / 8;
        spans[i] = (rk_span){texts[i],
                             (size_t)snprintf(texts[i], 8, "%d", (int)draw(rng, 9999)) * (draw(rng, 20) > 0)};
    }
    if (types[name] == RK_COLUMN_I64) rk_example_add_i64(writer, names[name], ids, n);
    if (types[name] == RK_COLUMN_F32) rk_example_add_f32(writer, names[name], numbers, n);
    if (types[name] == RK_COLUMN_TEXT) rk_example_add_bytes(writer, names[name], spans, n);
}

/* Mostly as the first record, which has every feature once; some are missing, doubled, out of order, empty,
 * long, or followed by unknown ones. */
static void add_record(rk_rng *rng, bool first, bool spoilt, rk_buffer *file) {
    rk_example_writer writer = {0};
    rk_buffer example = {0};
    bool wild = !first && draw(rng, 3) == 0;
    for (int i = 0; i < N_NAMES; i++) {
        int name = wild && draw(rng, 5) == 0 ? (int)draw(rng, N_NAMES) : i;
        size_t n = wild ? (size_t)draw(rng, draw(rng, 5) ? 3 : 80) : name == 0 ? 10 : 1;
        if (wild && draw(rng, 9) == 0) continue;
        if (wild && draw(rng, 9) == 0) rk_example_add_i64(&writer, "unknown", &(int64_t){5}, 1);
        add_feature(rng, &writer, name, n);
    }
    OK(rk_example_finish(&writer, &example));
    if (spoilt && draw(rng, 3) == 0 && example.data[1] & 127)
        example.data[1]--; /* the last feature goes on behind the end */
    for (int i = 0; spoilt && i < 3 * draw(rng, 2); i++)
        example.data[draw(rng, example.n_bytes)] = (char)draw(rng, 256);
    rk_tfrecord_write(example.data, example.n_bytes, file);
    rk_example_writer_release(&writer);
    rk_buffer_release(&example);
}

/* The values of one record, one column after another. */
typedef struct plain_row {
    int64_t ids[N_NAMES][4096];
    float numbers[4096];
    rk_span texts[4096];
    size_t n[N_NAMES];
} plain_row;

static rk_status take(void *context, rk_span name, rk_example_kind kind, rk_span list) {
    plain_row *row = context;
    size_t n = 0;
    for (int i = 0; i < N_NAMES; i++) {
        if (!rk_span_equal(name, names[i])) continue;
        rk_column_type type = kind == RK_EXAMPLE_BYTES   ? RK_COLUMN_TEXT
                              : kind == RK_EXAMPLE_FLOAT ? RK_COLUMN_F32
                                                         : RK_COLUMN_I64;
        if (type != types[i]) return rk_error(RK_BAD_DATA, "another type");
        if (type == RK_COLUMN_I64) RK_TRY(rk_example_read_i64(list, row->ids[i] + row->n[i], &n));
        if (type == RK_COLUMN_F32) RK_TRY(rk_example_read_f32(list, row->numbers + row->n[i], &n));
        if (type == RK_COLUMN_TEXT) {
            RK_TRY(rk_example_read_bytes(list, row->texts + row->n[i], &n));
            size_t kept = 0;
            for (size_t k = 0; k < n; k++)
                if (row->texts[row->n[i] + k].n_bytes)
                    row->texts[row->n[i] + kept++] = row->texts[row->n[i] + k];
            n = kept;
        }
        row->n[i] += n;
    }
    return RK_OK;
}

static void check_row(const plain_row *expected, const rk_columns *columns, int64_t row) {
    for (int i = 0; i < N_NAMES; i++) {
        const rk_column *column = &columns->columns[i];
        int64_t begin = column->offsets[row];
        assert_int_equal(column->offsets[row + 1] - begin, expected->n[i]);
        for (size_t k = 0; k < expected->n[i]; k++) {
            if (column->type == RK_COLUMN_I64)
                assert_int_equal(column->i64[begin + (int64_t)k], expected->ids[i][k]);
            if (column->type == RK_COLUMN_F32)
                assert_true(column->f32[begin + (int64_t)k] == expected->numbers[k]);
            if (column->type != RK_COLUMN_TEXT) continue;
            rk_span text = rk_column_text(column, begin + (int64_t)k);
            assert_int_equal(text.n_bytes, expected->texts[k].n_bytes);
            assert_memory_equal(text.data, expected->texts[k].data, text.n_bytes);
        }
    }
}

static void check_file(const rk_buffer *file) {
    rk_data_section section = {.format = RK_DATA_TFRECORD, .on_bad_row = 1};
    const char *const paths[] = {path};
    rk_source *source;
    const rk_chunk *chunk = NULL;
    int64_t row = 0;
    plain_row *expected = malloc(sizeof *expected);
    OK(rk_file_write(path, file->data, file->n_bytes));
    OK(rk_source_open(&(rk_source_options){.section = &section, .paths = paths, .n_paths = 1}, &source));
    const rk_example_visitor visitor = {expected, take};
    size_t n_good = 0;
    for (size_t at = 0, consumed; at < file->n_bytes; at += consumed) {
        rk_span payload;
        OK(rk_tfrecord_parse(file->data + at, file->n_bytes - at, true, &payload, &consumed));
        memset(expected->n, 0, sizeof expected->n);
        if (rk_example_parse(payload.data, payload.n_bytes, &visitor) != RK_OK) continue;
        if (!chunk || row == chunk->columns.n_rows) {
            OK(rk_source_read_chunk(source, &chunk));
            row = 0;
        }
        check_row(expected, &chunk->columns, row++);
        n_good++;
    }
    assert_int_equal(row, chunk->columns.n_rows);
    OK(rk_source_read_chunk(source, &chunk));
    assert_int_equal(chunk->columns.n_rows, 0);
    assert_true(n_good > RECORDS / 2);
    rk_source_free(source);
    free(expected);
}

static void test_shapes(void **state) {
    (void)state;
    rk_rng rng = {11, 3, 0};
    for (int spoilt = 0; spoilt < 3; spoilt++) {
        rk_buffer file = {0};
        for (int i = 0; i < RECORDS; i++) add_record(&rng, i == 0, i && draw(&rng, 5) < spoilt, &file);
        check_file(&file);
        rk_buffer_release(&file);
    }
}

static int set_up(void **state) {
    (void)state;
    int descriptor = mkstemp(path);
    return descriptor < 0 || close(descriptor) != 0;
}

static int tear_down(void **state) {
    (void)state;
    return rk_remove_tree(path) != RK_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
