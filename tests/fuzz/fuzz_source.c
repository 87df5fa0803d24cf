/* Whole files through the readers of every format: rows out of a source against those of the plain parsers,
 * and batches of one thread against those of three. The first byte says the format, the second how separated
 * values are written; checksums of TFRecord and rkb are put right. */
#include <stddef.h>
#include <string.h>

#include "base/buffer.h"
#include "base/thread/instruction_set.h"
#include "base/hash.h"
#include "base/memory.h"
#include "data/dataset/dataset.h"
#include "data/transform/joined_rows.h"
#include "format/text/csv_index.h"
#include "format/protobuf/tfrecord.h"
#include "mend.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char *const names[] = {"f.csv", "f.libsvm", "f.tfrecord", "f.rkb"};
#define LABEL "labels: [{name: y, column: b, optional: true, loss: mse}]\n"
#define TYPED                                                                                   \
    LABEL                                                                                       \
    "features: [{name: a, hash: 50}, {name: b, dense: true, width: 2, log1p: true}, {name: c, " \
    "vocabulary: {oov: 0}}]\n"
#define TEXT                                                                                         \
    "columns: [a, b, c]\n" LABEL                                                                     \
    "features: [{name: a, hash: 50}, {name: b, dense: true, normalize: true}, {name: q, column: b, " \
    "quantiles: 3}, "                                                                                \
    "{name: i, column: b, identity: 9}, {name: c, separator: \";\", vocabulary: {}}]\n"
#define IDS                                                                                            \
    "labels: [{name: label, loss: mse}]\nfeatures: [{name: ids, hash: 50, weights: ids}, {name: few, " \
    "column: ids, identity: 100}]\n"
static const char *const features[] = {TEXT, IDS, TYPED, TYPED};

typedef struct opened {
    rk_yaml yaml;
    rk_data_section section;
} opened;

static void open_section(int format, uint8_t way, int n_threads, opened *o) {
    char text[2000];
    snprintf(text, sizeof text,
             "train: %s\non_bad_row: skip\nshuffle_window: 14\nreader_threads: %d\nheader: %s\nquote: "
             "%s\ntrim: %s\n%s%s%s",
             names[format], n_threads, format ? "auto" : "false", way & 1 ? "\"\"" : "'\"'",
             way & 2 ? "false" : "true", way & 4 ? "comment: \"#\"\n" : "",
             way & 8 ? "separator: \"|\"\n" : "", features[format]);
    if (rk_yaml_parse("d.yaml", text, strlen(text), &o->yaml) != RK_OK) abort();
    if (rk_schema_bind(&rk_data_schema_table, &o->yaml, o->yaml.root, &o->section) != RK_OK ||
        rk_data_section_check(&o->section, &o->yaml) != RK_OK)
        abort();
}

static void close_section(opened *o) {
    rk_schema_release(&rk_data_schema_table, &o->section);
    rk_yaml_release(&o->yaml);
}

static void add_rows(const rk_columns *rows, rk_buffer *out) {
    for (int64_t row = 0; row < rows->n_rows; row++) {
        for (int32_t c = 0; c < rows->n_columns; c++) {
            const rk_column *column = &rows->columns[c];
            char room[RK_NUMBER_BYTES];
            for (int64_t v = column->offsets[row]; v < column->offsets[row + 1]; v++) {
                rk_span text = rk_value_as_text(column, v, room);
                rk_buffer_printf(out, "%zu:", text.n_bytes);
                rk_buffer_append(out, text.data, text.n_bytes);
            }
            rk_buffer_append_text(out, ";");
        }
        rk_buffer_append_text(out, "\n");
    }
}

static rk_status source_rows(const rk_data_section *section, const char *path, rk_buffer *out,
                             int64_t *n_skipped) {
    rk_source *source;
    const rk_chunk *chunk;
    RK_TRY(rk_source_open(&(rk_source_options){.section = section, .paths = &path, .n_paths = 1}, &source));
    rk_status status;
    while ((status = rk_source_read_chunk(source, &chunk)) == RK_OK && chunk->columns.n_rows)
        add_rows(&chunk->columns, out);
    *n_skipped = rk_source_n_skipped(source);
    rk_source_free(source);
    return status;
}

static void check_same(const rk_buffer *a, const rk_buffer *b, bool whole) {
    if (a->n_bytes > b->n_bytes || (whole && a->n_bytes != b->n_bytes)) abort();
    if (a->n_bytes && memcmp(a->data, b->data, a->n_bytes) != 0) abort();
}

/* Record by record, as a reader without an index would. */
static int64_t csv_rows(const rk_data_section *s, const char *data, size_t n, rk_buffer *out) {
    const rk_csv_dialect dialect = {s->separator ? s->separator[0] : ',', s->quote[0], s->trim};
    rk_csv_record record = {0};
    int64_t n_bad = 0;
    for (size_t at = 0, consumed; at < n; at += consumed) {
        const char *end = memchr(data + at, '\n', n - at);
        bool is_comment = s->comment && data[at] == s->comment[0];
        rk_status status =
            is_comment ? RK_OK : rk_csv_parse(&dialect, data + at, n - at, true, &record, &consumed);
        if (is_comment || status != RK_OK) consumed = end ? (size_t)(end + 1 - data) - at : n - at;
        if (is_comment || (status == RK_OK && record.n_fields == 0)) continue;
        n_bad += status != RK_OK || record.n_fields != 3;
        for (size_t i = 0; status == RK_OK && record.n_fields == 3 && i < 3; i++) {
            if (record.fields[i].n_bytes) rk_buffer_printf(out, "%zu:", record.fields[i].n_bytes);
            rk_buffer_append(out, record.fields[i].data, record.fields[i].n_bytes);
            rk_buffer_append_text(out, i == 2 ? ";\n" : ";");
        }
    }
    rk_csv_record_release(&record);
    return n_bad;
}

static int64_t libsvm_rows(const char *data, size_t n, rk_buffer *out) {
    rk_libsvm_row row = {0};
    int64_t n_bad = 0;
    for (size_t at = 0, length; at < n; at += length + 1) {
        const char *end = memchr(data + at, '\n', n - at);
        length = end ? (size_t)(end - data) - at : n - at;
        rk_status status = rk_libsvm_parse(data + at, length, &row);
        n_bad += status != RK_OK;
        if (status != RK_OK || row.n_labels == 0) continue;
        char room[RK_NUMBER_BYTES];
        for (size_t i = 0; i < row.n_labels; i++) {
            rk_span text = rk_format_f32(row.labels[i], room);
            rk_buffer_printf(out, "%zu:%.*s", text.n_bytes, (int)text.n_bytes, text.data);
        }
        rk_buffer_append_text(out, ";");
        int n_digits = row.has_group ? snprintf(room, sizeof room, "%lld", (long long)row.group) : 0;
        if (row.has_group) rk_buffer_printf(out, "%d:%s", n_digits, room);
        rk_buffer_append_text(out, ";");
        for (size_t i = 0; i < row.n_ids; i++) {
            n_digits = snprintf(room, sizeof room, "%lld", (long long)row.ids[i]);
            rk_buffer_printf(out, "%d:%s", n_digits, room);
        }
        rk_buffer_append_text(out, ";\n");
    }
    rk_libsvm_row_release(&row);
    return n_bad;
}

/* A record behind the others gives their features room to be read by the shorter way. */
static void check_known_features(const rk_data_section *section, const char *data, size_t n,
                                 const rk_buffer *rows) {
    static const char filler[600];
    rk_buffer file = {0}, got = {0}, example = {0};
    rk_example_writer writer = {0};
    int64_t n_skipped;
    rk_example_add_bytes(&writer, "zz", &(rk_span){filler, sizeof filler}, 1);
    if (rk_example_finish(&writer, &example) != RK_OK) abort();
    rk_buffer_append(&file, data, n);
    rk_tfrecord_write(example.data, example.n_bytes, &file);
    if (source_rows(section, scratch_file(names[2], file.data, file.n_bytes), &got, &n_skipped) == RK_OK)
        check_same(rows, &got, false);
    rk_buffer_release(&file);
    rk_buffer_release(&got);
    rk_buffer_release(&example);
    rk_example_writer_release(&writer);
}

static void check_index(const char *data, size_t n) {
    static uint32_t expected[1 << 16], got[1 << 16];
    if (n + RK_CSV_INDEX_ROOM > 1 << 16) return;
    size_t n_expected = rk_csv_find_separators_scalar(data, n, ',', '"', expected);
    for (int isa = RK_ISA_AVX2; isa < RK_ISA_COUNT; isa++) {
        if (!rk_cpu_has_isa((rk_isa)isa)) continue;
        size_t n_got = (isa == RK_ISA_AVX2 ? rk_csv_find_separators_avx2 : rk_csv_find_separators_avx512)(
            data, n, ',', '"', got);
        if (n_got != n_expected || memcmp(got, expected, n_got * sizeof *got) != 0) abort();
    }
}

/* All batches of an epoch as a hash. */
static rk_status epoch(int format, uint8_t way, int n_threads, uint64_t *hash) {
    opened o;
    rk_transforms *transforms = NULL;
    rk_dataset *dataset = NULL;
    const rk_batch *b;
    open_section(format, way, n_threads, &o);
    *hash = 0;
    rk_status status = rk_transforms_fit_section(
        &o.section, &o.yaml, &(rk_fit_options){.directory = scratch_folder()}, &transforms);
    rk_dataset_options options = {
        .directory = scratch_folder(), .split = "train", .batch_size = 7, .shuffle = way & 16};
    if (status == RK_OK) status = rk_dataset_create(&o.section, transforms, &options, &dataset);
    while (status == RK_OK && (status = rk_dataset_next(dataset, &b)) == RK_OK) {
        *hash = rk_hash_bytes(b->dense, (size_t)(b->n * b->n_dense) * sizeof(float), *hash);
        if (b->labels) *hash = rk_hash_bytes(b->labels, (size_t)(b->n * b->n_tasks) * sizeof(float), *hash);
        for (int32_t f = 0; f < b->n_features; f++) {
            const rk_ids *ids = &b->features[f];
            int64_t n = ids->offsets ? ids->offsets[b->n] : b->n * ids->ids_per_sample;
            for (int64_t i = 0; i < n; i++)
                if (ids->ids[i] < 0 || ids->ids[i] >= rk_dataset_schema(dataset)->features[f].cardinality)
                    abort();
            *hash = rk_hash_bytes(ids->ids, (size_t)n * sizeof *ids->ids, *hash);
        }
    }
    rk_dataset_free(dataset);
    rk_transforms_free(transforms);
    close_section(&o);
    return status;
}

/* What rk_byte_stream and the reader take for something else than text. */
static bool is_plain(const char *data, size_t n) {
    static const char *const marks[] = {"\x1f\x8b", "\x28\xb5\x2f\xfd", "\xff\xfe", "\xfe\xff",
                                        "\xef\xbb\xbf"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (n >= strlen(marks[i]) && memcmp(data, marks[i], strlen(marks[i])) == 0) return false;
    return true;
}

static void check_rows(int format, uint8_t way, const char *data, size_t n) {
    opened o;
    rk_buffer got = {0}, expected = {0};
    int64_t n_skipped, n_bad = 0;
    open_section(format, way, 1, &o);
    bool ok = source_rows(&o.section, scratch_file(names[format], data, n), &got, &n_skipped) == RK_OK &&
              is_plain(data, n);
    if (ok && format < 2) {
        n_bad = format ? libsvm_rows(data, n, &expected) : csv_rows(&o.section, data, n, &expected);
        check_same(&got, &expected, true);
        if (n_bad != n_skipped) abort();
    }
    if (ok && format == 2) check_known_features(&o.section, data, n, &got);
    rk_buffer_release(&got);
    rk_buffer_release(&expected);
    close_section(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t n_bytes) {
    if (n_bytes < 3) return 0;
    int format = input[0] % 4;
    size_t n = n_bytes - 2;
    char *data = malloc(n);
    uint64_t one, three;
    memcpy(data, input + 2, n);
    if (format == 2) mend_tfrecord((uint8_t *)data, n);
    if (format == 3) mend_rkb((uint8_t *)data, n);
    check_index(data, n);
    check_rows(format, input[1], data, n);
    scratch_file(names[format], data, n);
    if (epoch(format, input[1], 1, &one) != epoch(format, input[1], 3, &three) || one != three) abort();
    free(data);
    return 0;
}
