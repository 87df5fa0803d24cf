/* The fast ways through a file against the slow ones: columns against single rows, formats and spellings
 * against each other, any number of threads. */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/convert.h"
#include "data/section.h"
#include "data/transform/transforms_internal.h"
#include "format/rkb/rkb.h"

enum { ROWS = 9000 };
static char directory[] = "/tmp/reckon-reading-XXXXXX";

static const char *const features_text =
    "labels: [{name: y}, {name: z, threshold: 3, loss: mse}]\n"
    "sample_weight: w\n"
    "group: word\n"
    "timestamp: y\n"
    "joins: [{path: join.csv, key: word}]\n"
    "features:\n"
    "  - {name: n, identity: 1000000, identity_offset: -5}\n"
    "  - {name: n_hash, column: n, hash: 777, hash_seed: 3}\n"
    "  - {name: n_words, column: n, vocabulary: {min_count: 2, oov: 3}}\n"
    "  - {name: n_bucket, column: n, bucketize: [10, 500, 9000]}\n"
    "  - {name: word, hash: 1000}\n"
    "  - {name: word_or, column: word, hash: 1000, default_value: none}\n"
    "  - {name: words, column: word, vocabulary: {oov: 2}}\n"
    "  - {name: dropped, column: word, vocabulary: {min_count: 3, oov: 0}}\n"
    "  - {name: tags, separator: \"|\", hash: 90}\n"
    "  - {name: few_tags, column: tags, separator: \"|\", hash: 90, max_length: 2}\n"
    "  - {name: ids, separator: \"|\", identity: 5000}\n"
    "  - {name: x_bucket, column: x, quantiles: 7}\n"
    "  - {name: both, cross: [tags, x_bucket], hash: 500}\n"
    "  - {name: joined, hash: 20}\n"
    "  - {name: x, dense: true}\n"
    "  - {name: x_log, column: x, dense: true, log1p: true, normalize: true}\n"
    "  - {name: n_dense, column: n, dense: true, default_value: \"7\"}\n";

static void open_files(const char *files, const char *features, opened *o) {
    char text[4096];
    snprintf(text, sizeof text, "%s\n%s", files, features);
    OK(open_section(o, directory, text));
}

static void write_file(const char *name, const rk_buffer *text) {
    char *path;
    OK(text->status);
    OK(rk_path_join(directory, name, &path));
    OK(rk_file_write(path, text->data, text->n_bytes));
    rk_free(path);
}

/* How the same rows are spelt. */
typedef enum spelling { PLAIN, ODD } spelling;

static void put(rk_buffer *out, const char *text, spelling how, rk_rng *rng) {
    uint64_t way = how == PLAIN ? 9 : rk_rng_below(rng, 9);
    rk_buffer_printf(out,
                     way == 0   ? "\"%s\""
                     : way == 1 ? " %s\t"
                     : way == 2 ? "\t%s"
                     : way == 3 ? " \"%s\" "
                                : "%s",
                     text);
}

/* Rows n,w,tags,ids,x,y,z,word. The odd ones have quotes, blanks, comments, blank lines, carriage returns and
 * doubled quotes. */
static rk_buffer make_rows(spelling how, int64_t n_rows) {
    rk_buffer out = {0};
    rk_rng values = {1, 2, 0}, ways = {3, 4, 0};
    rk_buffer_append_text(&out, "n,w,tags,ids,x,y,z,word\n");
    for (int64_t row = 0; row < n_rows; row++) {
        char text[8][100] = {""};
        uint64_t draw = rk_rng_below(&values, 1000000), length = 1 + draw % 6, n_tags = 1 + draw % 4;
        if (draw % 11)
            snprintf(text[0], 100, "%lld",
                     (long long)(draw % (uint64_t[]){10, 1000, 100000, 900000}[length % 4]) - 5);
        if (draw % 7)
            snprintf(text[7], 100,
                     draw % 5   ? "word%d"
                     : draw % 3 ? "a \"\"b\"\", c%d"
                                : "%d",
                     (int)(draw % 40));
        for (uint64_t i = 0; i < n_tags; i++)
            snprintf(text[2] + strlen(text[2]), 20, "%st%d", i ? i % 2 ? "|" : "| " : "",
                     (int)rk_rng_below(&values, 99));
        for (uint64_t i = 0; i < 3; i++)
            snprintf(text[3] + strlen(text[3]), 20, "%s%d", i ? "|" : "", (int)rk_rng_below(&values, 5000));
        snprintf(text[4], 100, draw % 2 ? "%.3f" : "%.9g",
                 (double)(float)rk_rng_normal(&values) * (double)length);
        snprintf(text[5], 100, "%d", (int)(draw % 2));
        snprintf(text[6], 100, "%d.5", (int)(draw % 6));
        snprintf(text[1], 100, "%g", (double)length / 2);
        for (int c = 0; c < 8; c++) {
            if (c) rk_buffer_append_text(&out, ",");
            if (strchr(text[c], '"'))
                rk_buffer_printf(&out, "\"%s\"", text[c]);
            else
                put(&out, text[c], how, &ways);
        }
        rk_buffer_append_text(&out, how == ODD && row % 3 == 0 ? "\r\n" : "\n");
        if (how == ODD && row % 50 == 0) rk_buffer_append_text(&out, row % 100 ? "\n" : "# \"a comment\n");
    }
    return out;
}

static void check_windows(const rk_window *a, const rk_window *b) {
    const rk_data_schema *schema = a->schema;
    size_t n = (size_t)a->n_rows;
    assert_int_equal(a->n_rows, b->n_rows);
    assert_memory_equal(a->dense, b->dense, n * (size_t)schema->n_dense * sizeof(float));
    assert_memory_equal(a->labels, b->labels, n * (size_t)schema->n_tasks * sizeof(float));
    assert_memory_equal(a->sample_weights, b->sample_weights, n * sizeof(float));
    assert_memory_equal(a->groups, b->groups, n * sizeof(int64_t));
    for (int32_t f = 0; f < schema->n_features; f++) {
        assert_int_equal(a->features[f].n_ids, b->features[f].n_ids);
        assert_memory_equal(a->features[f].ids, b->features[f].ids, a->features[f].n_ids * sizeof(int64_t));
        rk_ids x = rk_id_list_view(&a->features[f]), y = rk_id_list_view(&b->features[f]);
        for (int64_t row = 0; row <= a->n_rows; row++)
            assert_int_equal(rk_ids_begin_of_sample(&x, row), rk_ids_begin_of_sample(&y, row));
    }
}

/* A piece of many rows goes column by column, a piece of one goes value by value. */
static void check_columns_against_rows(const char *files) {
    opened o;
    rk_joined_rows rows;
    rk_window together, alone;
    rk_transform_scratch memory = {0};
    const rk_chunk *chunk;
    open_files(files, features_text, &o);
    const rk_transforms *t = o.transforms;
    const rk_window_columns all = {true, true, true, true};
    OK(rk_joined_rows_open(&o.section, directory, o.section.train.path, 1, t->names, t->n_names + 1, 0,
                           &rows)); /* with the timestamp */
    OK(rk_window_init(&together, &t->schema, all));
    OK(rk_window_init(&alone, &t->schema, all));
    for (;;) {
        OK(rk_source_read_chunk(rows.source, &chunk));
        int64_t n = chunk->columns.n_rows, n_first = n / 3;
        if (n == 0) break;
        rk_piece piece = {&rows, &chunk->columns, 0, n_first, &memory, NULL};
        if (n_first) OK(rk_transforms_transform_rows(t, &piece, &together));
        piece.first = n_first;
        piece.n = n - n_first;
        OK(rk_transforms_transform_rows(t, &piece, &together));
        piece.n = 1;
        for (piece.first = 0; piece.first < n; piece.first++)
            OK(rk_transforms_transform_rows(t, &piece, &alone));
    }
    assert_int_equal(alone.n_rows, ROWS);
    assert_int_equal(alone.features[10].ids_per_sample, 3); /* three ids a row need no offsets */
    check_windows(&together, &alone);
    rk_window_release(&together);
    rk_window_release(&alone);
    rk_transform_scratch_release(&memory);
    rk_joined_rows_release(&rows);
    close_section(&o);
}

static void test_columns_against_rows(void **state) {
    (void)state;
    check_columns_against_rows("train: plain.csv");
    check_columns_against_rows("train: odd.csv\ncomment: \"#\"");
    check_columns_against_rows("train: plain.rkb");
    check_columns_against_rows("train: plain.tfrecord");
}

/* A whole epoch as one hash of everything in its batches; the number of rows in *n_rows. */
static uint64_t epoch_hash(const char *files, const char *features, int64_t batch_size, bool shuffle,
                           int64_t *n_rows) {
    opened o;
    rk_dataset *d;
    const rk_batch *b;
    uint64_t hash = 0;
    open_files(files, features, &o);
    OK(rk_dataset_create(&o.section, o.transforms,
                         &(rk_dataset_options){.directory = directory,
                                               .split = "train",
                                               .batch_size = batch_size,
                                               .seed = 4,
                                               .shuffle = shuffle},
                         &d));
    *n_rows = 0;
    while (rk_dataset_next(d, &b) == RK_OK) {
        assert_int_equal(b->first_row, *n_rows);
        *n_rows += b->n;
        hash = rk_hash_bytes(b->dense, (size_t)(b->n * b->n_dense) * sizeof(float), hash);
        hash = rk_hash_bytes(b->labels, (size_t)(b->n * b->n_tasks) * sizeof(float), hash);
        for (int32_t f = 0; f < b->n_features; f++) {
            const rk_ids *ids = &b->features[f];
            for (int64_t i = 0; i <= b->n; i++) {
                int64_t begin = ids->offsets ? ids->offsets[i] : i * ids->ids_per_sample;
                hash = rk_hash_bytes(&begin, sizeof begin, hash);
            }
            hash = rk_hash_bytes(
                ids->ids,
                (size_t)(ids->offsets ? ids->offsets[b->n] : b->n * ids->ids_per_sample) * sizeof(int64_t),
                hash);
        }
    }
    rk_dataset_free(d);
    close_section(&o);
    return hash;
}

static void test_threads(void **state) {
    (void)state;
    static const char *const files[] = {"train: plain.csv", "train: odd.csv\ncomment: \"#\"",
                                        "train: plain.tfrecord", "train: {path: [plain.tfrecord, plain.rkb]}",
                                        "train: plain.csv\nvalid: {fraction: 0.2}"};
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        uint64_t expected[2] = {0};
        int64_t rows[2], n;
        for (int threads = 1; threads < 6; threads += threads) {
            char with[200];
            snprintf(with, sizeof with, "%s\nreader_threads: %d", files[f], threads);
            for (int shuffle = 0; shuffle < 2; shuffle++) {
                uint64_t hash = epoch_hash(with, features_text, 300, shuffle, &n);
                if (threads == 1) {
                    expected[shuffle] = hash;
                    rows[shuffle] = n;
                }
                assert_true(hash == expected[shuffle] && n == rows[shuffle]);
            }
        }
        assert_int_equal(rows[0], rows[1]);
        if (f < 3) assert_int_equal(rows[0], ROWS);
        if (f < 4) continue;
        opened o;
        open_files(files[f], features_text, &o);
        for (int64_t row = 0; row < ROWS; row++)
            rows[1] -= rk_split_of_row(&o.section, (uint64_t)o.section.seed, row) == 0;
        assert_int_equal(rows[1], 0); /* by the rows' numbers in the file, not in its pieces */
        close_section(&o);
    }
}

static void test_formats(void **state) {
    (void)state;
    int64_t n;
    uint64_t expected = epoch_hash("train: plain.csv", features_text, 1000, false, &n);
    assert_true(epoch_hash("train: odd.csv\ncomment: \"#\"", features_text, 1000, false, &n) == expected);
    assert_true(epoch_hash("train: plain.rkb", features_text, 1000, false, &n) ==
                epoch_hash("train: plain.tfrecord", features_text, 1000, false, &n));
    for (int64_t size = 1; size < 20000;
         size = size * 5 + 2) { /* batches out of windows, of their own or the file's size */
        uint64_t streamed = epoch_hash("train: plain.csv\ncache_bytes: 0", features_text, size, false, &n);
        assert_true(streamed == epoch_hash("train: plain.csv", features_text, size, false, &n));
    }
}

/* One bad row here and there among many: each is found, named, or left out alone. */
static void test_bad_rows_among_many(void **state) {
    (void)state;
    static const char *const bad =
        "train: bad.csv\nlabels: [{name: y}]\nfeatures: [{name: n, identity: 1000}, {name: x, dense: true}]";
    rk_buffer text = {0};
    int64_t n_bad = 0, n_rows;
    rk_buffer_append_text(&text, "n,x,y\n");
    for (int row = 0; row < 30000; row++) {
        bool spoilt = row > 20000 && row % 1000 < 3;
        n_bad += spoilt;
        rk_buffer_printf(&text,
                         spoilt && row % 2 ? "%d,x%d,1\n"
                         : spoilt          ? "%d,%d\n"
                                           : "%d,%d.5,1\n",
                         row % 1000, row);
    }
    write_file("bad.csv", &text);
    rk_buffer_release(&text);
    for (int threads = 1; threads < 4; threads++) {
        char with[300], expected[300];
        opened o;
        rk_dataset *d;
        const rk_batch *b;
        rk_status status;
        snprintf(with, sizeof with, "%s\nreader_threads: %d", bad, threads);
        open_files(with, "", &o);
        OK(rk_dataset_create(
            &o.section, o.transforms,
            &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 100}, &d));
        while ((status = rk_dataset_next(d, &b)) == RK_OK) continue;
        snprintf(expected, sizeof expected, "'%s/bad.csv': line 20003: column 'x': 'x20001' is not a number",
                 directory); /* not the later one that has too few fields */
        FAILS(status, RK_BAD_DATA, expected);
        rk_dataset_free(d);
        close_section(&o);
        snprintf(with, sizeof with, "%s\non_bad_row: skip\nreader_threads: %d", bad, threads);
        open_files(with, "", &o);
        OK(rk_dataset_create(
            &o.section, o.transforms,
            &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 100}, &d));
        for (n_rows = 0; (status = rk_dataset_next(d, &b)) == RK_OK; n_rows += b->n) continue;
        assert_int_equal(status, RK_END);
        assert_int_equal(n_rows, 30000 - n_bad);
        assert_int_equal(rk_dataset_n_skipped(d), n_bad);
        rk_dataset_free(d);
        close_section(&o);
    }
}

/* Bad values of typed columns are noticed a column at a time, too. */
static void test_bad_typed_values(void **state) {
    (void)state;
    static const struct {
        const char *features, *message;
    } cases[] = {
        {"{name: n, identity: 100}",
         "column 'n': id 100 is not within 0 to 99\nhint: set the feature's 'identity' to a larger number, "
         "or use 'hash'"},
        {"{name: n, identity: 101, identity_offset: 1}",
         "column 'n': id -1 is not within 0 to 100\nhint: set the feature's 'identity_offset' to its least "
         "value, or use 'hash'"},
        {"{name: least, identity: 9, identity_offset: 1}",
         "column 'least': id -9223372036854775808 is not within 0 to 8\nhint: set the feature's "
         "'identity_offset' to its least value, or use 'hash'"},
        {"{name: x, dense: true}", "column 'x': 'inf' is not a number"},
        {"{name: x, bucketize: [1]}", "column 'x': 'inf' is not a number"},
        {"{name: x2, column: x, dense: true, log1p: true}", "column 'x': 'inf' is not a number"},
    };
    static const char *const names[] = {"n", "x", "y", "least"};
    static const rk_column_type types[] = {RK_COLUMN_I64, RK_COLUMN_F32, RK_COLUMN_F32, RK_COLUMN_I64};
    rk_columns rows;
    rk_rkb_writer *writer;
    char path[200];
    snprintf(path, sizeof path, "%s/typed.rkb", directory);
    OK(rk_columns_init(&rows, 4, names, types));
    for (int row = 0; row < 101; row++) {
        OK(rk_column_add_i64(&rows.columns[0], row));
        OK(rk_column_add_f32(&rows.columns[1], row == 77 ? (float)INFINITY : (float)row));
        OK(rk_column_add_f32(&rows.columns[2], 0));
        OK(rk_column_add_i64(&rows.columns[3], INT64_MIN));
        OK(rk_columns_end_row(&rows));
    }
    OK(rk_rkb_writer_open(path, 0, &writer));
    OK(rk_rkb_writer_add(writer, &rows));
    OK(rk_rkb_writer_commit(writer));
    rk_rkb_writer_free(writer);
    rk_columns_release(&rows);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[300], expected[400];
        opened o;
        rk_dataset *d;
        const rk_batch *b;
        snprintf(text, sizeof text, "labels: [{name: y}]\nfeatures: [%s]", cases[i].features);
        open_files("train: typed.rkb", text, &o);
        OK(rk_dataset_create(
            &o.section, o.transforms,
            &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 1000}, &d));
        snprintf(expected, sizeof expected, "'%s': line %d: %s", path,
                 i == 0  ? 101
                 : i < 3 ? 1
                         : 78,
                 cases[i].message);
        FAILS(rk_dataset_next(d, &b), RK_BAD_DATA, expected);
        rk_dataset_free(d);
        close_section(&o);
    }
}

/* The rows that the csv parser alone finds in a text after its header, as "field;field;field." for each
 * row. */
static rk_buffer rows_one_by_one(const char *data, size_t n, int64_t *n_bad) {
    const rk_csv_dialect dialect = {',', '"', true};
    rk_csv_record record = {0};
    rk_buffer out = {0};
    rk_buffer_append_text(&out, "");
    for (size_t at = 0, consumed; at < n; at += consumed) {
        const char *end = memchr(data + at, '\n', n - at);
        rk_status status =
            data[at] == '#' ? RK_OK : rk_csv_parse(&dialect, data + at, n - at, true, &record, &consumed);
        if (data[at] == '#' || status != RK_OK) consumed = end ? (size_t)(end + 1 - data) - at : n - at;
        if (data[at] == '#' || (status == RK_OK && record.n_fields == 0)) continue;
        *n_bad += status != RK_OK || record.n_fields != 3;
        if (status != RK_OK || record.n_fields != 3) continue;
        for (size_t i = 0; i < 3; i++) {
            rk_buffer_append(&out, record.fields[i].data, record.fields[i].n_bytes);
            rk_buffer_append_text(&out, i == 2 ? "." : ";");
        }
    }
    rk_csv_record_release(&record);
    OK(out.status);
    return out;
}

/* Rows out of the source are those of the parser alone, however wild the text. */
static void check_wild_text(rk_rng *rng, size_t n, uint64_t n_plain) {
    static const char special[] = {',', ',', ',', '\n', '\n', '"', '\r', ' ', '\t', '#', 0};
    char path[200];
    rk_buffer text = {0};
    int64_t n_bad = 0;
    rk_buffer_append_text(&text, "a,b,c\n");
    for (size_t i = 0; i < n; i++) {
        uint64_t kind = rk_rng_below(rng, n_plain + sizeof special);
        rk_buffer_append_u8(&text,
                            kind < sizeof special ? (uint8_t)special[kind] : (uint8_t)('k' + kind % 10));
    }
    write_file("wild.csv", &text);
    snprintf(path, sizeof path, "%s/wild.csv", directory);
    rk_buffer expected = rows_one_by_one(text.data + 6, n, &n_bad), got = {0};
    rk_data_section section = {
        .on_bad_row = 1, .quote = (char *)(size_t) "\"", .comment = (char *)(size_t) "#", .trim = true};
    const char *paths[] = {path};
    rk_source *source;
    const rk_chunk *chunk;
    OK(rk_source_open(&(rk_source_options){.section = &section, .paths = paths, .n_paths = 1}, &source));
    rk_buffer_append_text(&got, "");
    for (;;) {
        OK(rk_source_read_chunk(source, &chunk));
        if (chunk->columns.n_rows == 0) break;
        for (int64_t row = 0; row < chunk->columns.n_rows; row++)
            for (int c = 0; c < 3; c++) {
                const rk_column *column = &chunk->columns.columns[c];
                if (column->offsets[row] < column->offsets[row + 1]) {
                    rk_span value = rk_column_text(column, column->offsets[row]);
                    rk_buffer_append(&got, value.data, value.n_bytes);
                }
                rk_buffer_append_text(&got, c == 2 ? "." : ";");
            }
    }
    assert_int_equal(rk_source_n_skipped(source), n_bad);
    assert_int_equal(got.n_bytes, expected.n_bytes);
    assert_memory_equal(got.data, expected.data, got.n_bytes);
    rk_source_free(source);
    rk_buffer_release(&text);
    rk_buffer_release(&expected);
    rk_buffer_release(&got);
}

static void test_wild_text(void **state) {
    (void)state;
    rk_rng rng = {8, 9, 0};
    for (int round = 0; round < 300; round++)
        check_wild_text(&rng, rk_rng_below(&rng, 700), (uint64_t)round % 30);
    check_wild_text(&rng, 500000, 5); /* several pieces */
    check_wild_text(&rng, 500000, 40);
}

static void convert(const char *from, const char *to, int64_t n_wanted) {
    char *input, *output;
    int64_t n_rows, n_skipped;
    OK(rk_path_join(directory, from, &input));
    OK(rk_path_join(directory, to, &output));
    OK(rk_data_convert(input, output, &(rk_convert_options){0}, NULL, &n_rows, &n_skipped));
    assert_int_equal(n_rows, n_wanted);
    rk_free(input);
    rk_free(output);
}

/* A converted file has the ids of the csv: of numbers with a point too, and of digits that are names. */
static void test_ids_of_converted(void **state) {
    (void)state;
    static const char *const features =
        "labels: [{name: y}]\nfeatures: [{name: x, hash: 100000}, {name: whole, hash: 100000}, {name: "
        "padded, hash: 100000}, {name: long, hash: 100000}]";
    rk_buffer text = {0};
    rk_buffer_append_text(&text, "x,whole,padded,long,y\n");
    for (int row = 0; row < 300; row++)
        rk_buffer_printf(&text, "%g,%s,%08d,%d.0,%d\n", row / 10.0, row % 2 ? "0.5" : "83886080", row,
                         16777216 + row, row % 2);
    write_file("ids.csv", &text);
    rk_buffer_release(&text);
    convert("ids.csv", "ids.rkb", 300);
    convert("ids.csv", "ids.tfrecord", 300);
    int64_t n;
    uint64_t expected = epoch_hash("train: ids.csv", features, 100, false, &n);
    assert_true(epoch_hash("train: ids.rkb", features, 100, false, &n) == expected);
    assert_true(epoch_hash("train: ids.tfrecord", features, 100, false, &n) == expected);
}

static int set_up(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    rk_buffer join = {0}, plain = make_rows(PLAIN, ROWS), odd = make_rows(ODD, ROWS);
    rk_buffer_append_text(&join, "word,joined\n");
    for (int i = 0; i < 30; i += 2) rk_buffer_printf(&join, "word%d,j%d\n", i, i % 5);
    write_file("join.csv", &join);
    write_file("plain.csv", &plain);
    write_file("odd.csv", &odd);
    rk_buffer_release(&join);
    rk_buffer_release(&plain);
    rk_buffer_release(&odd);
    convert("plain.csv", "plain.tfrecord", ROWS);
    convert("plain.csv", "plain.rkb", ROWS);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK;
}

/* Blocks of one row and of several: ids that stay packed, and those that do not. */
static void test_small_blocks(void **state) {
    (void)state;
    static const char *const names[] = {"n", "y"};
    static const rk_column_type types[] = {RK_COLUMN_I64, RK_COLUMN_F32};
    static const int sizes[] = {1, 20, 1, 9, 3};
    rk_columns rows;
    rk_rkb_writer *writer;
    char path[200];
    int64_t next = 0;
    snprintf(path, sizeof path, "%s/small.rkb", directory);
    OK(rk_columns_init(&rows, 2, names, types));
    OK(rk_rkb_writer_open(path, 0, &writer));
    for (size_t b = 0; b < sizeof sizes / sizeof sizes[0]; b++) {
        rk_columns_clear(&rows);
        for (int row = 0; row < sizes[b]; row++, next++) {
            for (int k = 0; k < 2; k++) OK(rk_column_add_i64(&rows.columns[0], 100 + next + k));
            OK(rk_column_add_f32(&rows.columns[1], 0));
            OK(rk_columns_end_row(&rows));
        }
        OK(rk_rkb_writer_add(writer, &rows));
    }
    OK(rk_rkb_writer_commit(writer));
    rk_rkb_writer_free(writer);
    rk_columns_release(&rows);
    for (int threads = 1; threads < 4; threads++) {
        char files[100];
        opened o;
        rk_dataset *d;
        const rk_batch *b;
        int64_t row = 0;
        snprintf(files, sizeof files, "train: small.rkb\nreader_threads: %d", threads);
        open_files(files, "labels: [{name: y}]\nfeatures: [{name: n, identity: 40, identity_offset: 98}]",
                   &o);
        OK(rk_dataset_create(&o.section, o.transforms,
                             &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 7},
                             &d));
        for (rk_status status; (status = rk_dataset_next(d, &b)) == RK_OK;)
            for (int64_t i = 0; i < b->n; i++, row++)
                for (int k = 0; k < 2; k++) assert_int_equal(b->features[0].ids[2 * i + k], 2 + row + k);
        assert_int_equal(row, next);
        rk_dataset_free(d);
        close_section(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_columns_against_rows),
                                       cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_formats),
                                       cmocka_unit_test(test_ids_of_converted),
                                       cmocka_unit_test(test_bad_rows_among_many),
                                       cmocka_unit_test(test_bad_typed_values),
                                       cmocka_unit_test(test_small_blocks),
                                       cmocka_unit_test(test_wild_text)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
