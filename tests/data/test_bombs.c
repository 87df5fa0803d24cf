/* Files of few bytes that unfold to many, or say that they will: read in little memory, or refused with it.
 */
#include "memory_limit.h"

#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "data/source/source.h"
#include "format/byte_stream.h"
#include "format/protobuf/tfrecord.h"

enum { MIB = 1 << 20 };
static char directory[] = "/tmp/reckon-bombs-XXXXXX";

static int setup(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK || rk_alloc_live() != 0;
}

/* A file of `begin`, then `times` times the text. */
static void write_file(const char *name, const char *begin, const char *text, int64_t times, char path[256]) {
    snprintf(path, 256, "%s/%s", directory, name);
    rk_byte_sink *sink;
    rk_buffer block = {0};
    for (int i = 0; i < 1024; i++) rk_buffer_append_text(&block, text);
    OK(block.status);
    OK(rk_byte_sink_open(path, &sink));
    OK(rk_byte_sink_write(sink, begin, strlen(begin)));
    for (int64_t i = 0; i < times / 1024; i++) OK(rk_byte_sink_write(sink, block.data, block.n_bytes));
    OK(rk_byte_sink_commit(sink));
    rk_byte_sink_free(sink);
    rk_buffer_release(&block);
}

static rk_status read_within(size_t limit, const rk_data_section *section, const char *path,
                             int64_t *n_rows) {
    rk_source *source;
    const rk_chunk *chunk;
    *n_rows = 0;
    limit_memory(limit);
    OK(rk_source_open(&(rk_source_options){.section = section, .paths = &path, .n_paths = 1}, &source));
    rk_status status;
    while ((status = rk_source_read_chunk(source, &chunk)) == RK_OK && chunk->columns.n_rows)
        *n_rows += chunk->columns.n_rows;
    rk_source_free(source);
    unlimit_memory();
    return status;
}

static void test_packed_rows(void **state) {
    (void)state;
    static const char *const files[] = {"rows.csv.gz", "rows.csv.zst"};
    for (size_t i = 0; i < 2; i++) {
        char path[256];
        int64_t n_rows;
        write_file(files[i], "a,b\n", "0,0\n", 6 << 20, path);
        OK(read_within(12 * MIB, NULL, path, &n_rows));
        assert_int_equal(n_rows, 6 << 20);
    }
}

/* A line without an end, a quote that never closes. */
static void test_long_records(void **state) {
    (void)state;
    static const struct {
        const char *name, *begin, *text;
    } files[] = {{"long.csv.gz", "a,b\n", "0000000000000000"},
                 {"header.csv.zst", "", "0,00000000000000"},
                 {"quote.csv.gz", "a,b\n1,2\n3,\"", "0,0\n0,0\n0,0\n0,0\n"},
                 {"long.libsvm.zst", "1 1:1\n", "00000000 0000000"},
                 {"long.svm.gz", "", "0 1:1 2:1 3:1 4:"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[256], expected[512];
        int64_t n_rows;
        write_file(files[i].name, files[i].begin, files[i].text, 5 << 20, path);
        assert_int_equal(read_within(200 * MIB, NULL, path, &n_rows), RK_BAD_DATA);
        snprintf(expected, sizeof expected, "'%s': byte ", path);
        assert_memory_equal(rk_last_error(), expected, strlen(expected));
        assert_non_null(strstr(rk_last_error(),
                               ": a record of more than 64 MiB\nhint: check data.format, or look for a quote "
                               "that is not closed"));
    }
}

static void put_example(int n_features, rk_buffer *file) {
    rk_example_writer writer = {0};
    rk_buffer example = {0};
    for (int i = 0; i < n_features; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        rk_example_add_i64(&writer, name, &(int64_t){1}, 1);
    }
    OK(rk_example_finish(&writer, &example));
    rk_tfrecord_write(example.data ? example.data : "", example.n_bytes, file);
    rk_example_writer_release(&writer);
    rk_buffer_release(&example);
}

/* Many columns in the first record, and then records of nothing, each of which has a row in every column. */
static void test_empty_examples(void **state) {
    (void)state;
    enum { FEATURES = 9000, RECORDS = 30000 };
    char path[256];
    int64_t n_rows;
    rk_buffer file = {0};
    put_example(FEATURES, &file);
    for (int i = 0; i < RECORDS; i++) rk_tfrecord_write("", 0, &file);
    snprintf(path, sizeof path, "%s/empty.tfrecord", directory);
    OK(rk_file_write(path, file.data, file.n_bytes));
    rk_buffer_release(&file);
    OK(read_within(128 * MIB, NULL, path, &n_rows));
    assert_int_equal(n_rows, RECORDS + 1);
}

/* The same of lines without any of many fields. */
static void test_empty_lines_of_libsvm(void **state) {
    (void)state;
    enum { FIELDS = 3000 };
    static struct rk_field_section fields[FIELDS];
    static char names[FIELDS][8];
    rk_data_section section = {.format = RK_DATA_LIBSVM, .fields = fields, .n_fields = FIELDS};
    for (int i = 0; i < FIELDS; i++) {
        snprintf(names[i], sizeof names[i], "f%d", i);
        fields[i] = (struct rk_field_section){.name = names[i], .first = i, .last = i};
    }
    char path[256];
    int64_t n_rows;
    write_file("empty.libsvm", "", "1\n", 100 << 10, path);
    OK(read_within(128 * MIB, &section, path, &n_rows));
    assert_int_equal(n_rows, 100 << 10);
}

static void test_heads_that_promise(void **state) {
    (void)state;
    char path[256];
    int64_t n_rows;
    rk_buffer file = {0};
    put_example(1, &file);
    rk_buffer_append(&file, "\0\0\0\0\x40\0\0\0\xf5\x39\x5d\x7d",
                     12); /* 2^38 bytes, and the checksum of that */
    snprintf(path, sizeof path, "%s/head.tfrecord", directory);
    OK(rk_file_write(path, file.data, file.n_bytes));
    assert_int_equal(read_within(16 * MIB, NULL, path, &n_rows), RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), "record 2, byte "));
    assert_non_null(strstr(rk_last_error(), ": a record of 274877906944 bytes; the limit is 67108848"));
    rk_buffer_release(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_rows),        cmocka_unit_test(test_long_records),
        cmocka_unit_test(test_empty_examples),     cmocka_unit_test(test_empty_lines_of_libsvm),
        cmocka_unit_test(test_heads_that_promise),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
