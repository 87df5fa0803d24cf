/* Texts and numbers that are easily taken for others: the same vocabulary and the same ids out of every
 * format, whatever a file was converted from. */
#include "testing.h"

#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "data/convert.h"
#include "data/file_output.h"
#include "data/section.h"
#include "data/transform/transforms_internal.h"

static char directory[] = "/tmp/reckon-values-XXXXXX";
static char long_a[70001], long_b[70001];

/* A column for each pair, which has both and a missing value in turn, so that what one text looks like
 * decides its type. */
typedef struct pair {
    const char *a, *b;
} pair;

static const pair plain_pairs[] = {
    {"1.1", "1.10"},
    {"2.0", "2.00"},
    {"1e3", "1000"},
    {"1", "+1"},
    {"0", "-0"},
    {"0.0", "-0.0"},
    {"7", "007"},
    {"-7", "-07"},
    {"0x10", "16"},
    {"nan", "NaN"},
    {"inf", "-inf"},
    {".5", "0.5"},
    {"5.", "5"},
    {"1e5", "1E5"},
    {"0.1", "0.10000000149011612"},
    {"16777216", "16777217"},
    {"16777217.0", "16777216.0"},
    {"9223372036854775807", "9223372036854775808"},
    {"-9223372036854775808", "-9223372036854775809"},
    {"18446744073709551615", "18446744073709551616"},
    {"1e-45", "0"},
    {"3.4028235e+38", "3.4028236e+38"},
    {"1e400", "1e401"},
    {"12345678", "1.2345678e+07"},
    {" 5", "5"},
    {"5 ", "5"},
    {"\t5", "5"},
    {" blank", "blank"},
    {"blank\t", "blank"},
    {" ", "  "},
    {"a\r", "a"},
    {"a\nb", "a\\nb"},
    {"a\\", "a\\\\"},
    {"a\"b", "a\"\"b"},
    {"a,b", "a\tb"},
    {"a|b", "a"},
    {"#1", "1"},
    {"caf\xc3\xa9", "caf\xe9"},
    {"\xff\xfe", "\xef\xbb\xbf"},
    {long_a, long_b},
    {"whole", "12"},
    {"12", "-12"},
    {"0.25", "-4"},
};

static char *path_of(const char *name) {
    static char paths[4][300];
    static int at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static void put_quoted(rk_buffer *out, const char *text) {
    rk_buffer_append_u8(out, '"');
    for (; *text; text++) {
        if (*text == '"') rk_buffer_append_u8(out, '"');
        rk_buffer_append_u8(out, (uint8_t)*text);
    }
    rk_buffer_append_u8(out, '"');
}

static void write_csv(const char *name, const pair *pairs, size_t n_pairs) {
    rk_buffer out = {0};
    rk_buffer_append_text(&out, "y");
    for (size_t i = 0; i < n_pairs; i++) rk_buffer_printf(&out, ",c%zu", i);
    rk_buffer_append_text(&out, "\n");
    for (int row = 0; row < 9; row++) {
        rk_buffer_printf(&out, "%d", row % 2);
        for (size_t i = 0; i < n_pairs; i++) {
            const char *text = row % 3 == 0 ? pairs[i].a : pairs[i].b;
            rk_buffer_append_text(&out, ",");
            if (row % 3 != 2) put_quoted(&out, text);
        }
        rk_buffer_append_text(&out, "\n");
    }
    OK(out.status);
    OK(rk_file_write(path_of(name), out.data, out.n_bytes));
    rk_buffer_release(&out);
}

/* Vocabularies of all columns, their ids, the ids of hashes, and keys, as bytes to compare. */
static rk_buffer seen(const char *file, size_t n_pairs) {
    opened o;
    const rk_batch *b;
    rk_buffer text = {0}, out = {0};
    rk_buffer_printf(&text, "train: %s\nlabels: [{name: y}]\nfeatures:\n", file);
    for (size_t i = 0; i < n_pairs; i++)
        rk_buffer_printf(
            &text,
            "  - {name: c%zu, vocabulary: {}}\n  - {name: h%zu, column: c%zu, hash: 1000000000}\n"
            "  - {name: k%zu, column: c%zu, key: true}\n",
            i, i, i, i, i);
    rk_buffer_append_u8(&text, 0);
    OK(open_section(&o, directory, text.data));
    OK(rk_dataset_create(&o.section, o.transforms,
                         &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 5},
                         &o.dataset));
    for (size_t i = 0; i < n_pairs; i++) {
        const rk_vocabulary *d = &o.transforms->fitted[3 * i].vocabulary;
        assert_int_equal(d->n, 2);
        for (size_t k = 0; k < d->n; k++) {
            rk_span word = rk_vocabulary_text(d, k);
            rk_buffer_printf(&out, "c%zu %zu ", i, word.n_bytes);
            rk_buffer_append(&out, word.data, word.n_bytes);
        }
    }
    while (rk_dataset_next(o.dataset, &b) == RK_OK)
        for (int32_t f = 0; f < b->n_features; f++)
            for (int64_t i = 0; i < b->n; i++) {
                int64_t each = b->features[f].ids_per_sample;
                int64_t begin = b->features[f].offsets ? b->features[f].offsets[i] : i * each,
                        end = b->features[f].offsets ? b->features[f].offsets[i + 1] : begin + each;
                assert_true(end - begin <= 1);
                rk_buffer_printf(&out, "%lld;", begin < end ? (long long)b->features[f].ids[begin] : -1LL);
            }
    OK(out.status);
    rk_buffer_release(&text);
    close_section(&o);
    return out;
}

static void check_same(const char *file, size_t n_pairs, const rk_buffer *expected) {
    rk_buffer got = seen(file, n_pairs);
    size_t at = 0;
    while (at < got.n_bytes && at < expected->n_bytes && got.data[at] == expected->data[at]) at++;
    if (at < got.n_bytes || at < expected->n_bytes)
        fail_msg("%s: byte %zu: '%.60s' and not '%.60s'", file, at, got.data + (at > 20 ? at - 20 : 0),
                 expected->data + (at > 20 ? at - 20 : 0));
    rk_buffer_release(&got);
}

/* A section whose transforms are not fitted. */
static rk_status bind_section(opened *o, const char *text) {
    *o = (opened){0};
    RK_TRY(rk_yaml_parse("d.yaml", text, strlen(text), &o->yaml));
    return rk_schema_bind(&rk_data_schema_table, &o->yaml, o->yaml.root, &o->section);
}

static rk_status convert(const char *from, const char *to, const rk_data_section *section) {
    int64_t n_rows = 0, n_skipped = 0;
    RK_TRY(
        rk_data_convert(path_of(from), path_of(to), &(rk_convert_options){0}, section, &n_rows, &n_skipped));
    assert_int_equal(n_skipped, 0);
    return RK_OK;
}

/* From each format to each: with a run file's section that calls the columns categories, and without one. */
static void check_pairs(const char *first, size_t n_pairs, const char *const *formats, size_t n_formats) {
    char files[100];
    opened o;
    rk_buffer expected = seen(first, n_pairs);
    snprintf(files, sizeof files,
             "train: %s\nlabels: [{name: y}]\nfeatures: [{name: c0, hash: 5}, {match: \"c*\", hash: 5}]",
             first);
    OK(bind_section(&o, files));
    for (int with_config = 0; with_config < 2; with_config++)
        for (size_t i = 0; i < n_formats; i++) {
            char from[30], to[30];
            snprintf(from, sizeof from, "from.%s", formats[i]);
            OK(convert(first, from, with_config ? &o.section : NULL));
            check_same(from, n_pairs, &expected);
            for (size_t k = 0; k < n_formats; k++) {
                snprintf(to, sizeof to, "to.%s", formats[k]);
                OK(convert(from, to, NULL));
                check_same(to, n_pairs, &expected);
            }
        }
    close_section(&o);
    rk_buffer_release(&expected);
}

/* A whole number's 64 bits, signed or not; the hash of any other text. */
static void test_keys(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t key;
    } cases[] = {{"0", 0},
                 {"12", 12},
                 {"-1", UINT64_MAX},
                 {"18446744073709551615", UINT64_MAX},
                 {"-9223372036854775808", (uint64_t)1 << 63},
                 {"9223372036854775808", (uint64_t)1 << 63},
                 {"18446744073709551616", 0x6c54e6e2de7459b},
                 {"abc", 0x44bc2cf5ad770999},
                 {"1.50", 0x6cdc5291475a1aca},
                 {"007", 7},
                 {"+7", 7},
                 {"7.0", 7},
                 {"-07.000", (uint64_t)-7},
                 {"-0.0", 0},
                 {"18446744073709551615.0", UINT64_MAX},
                 {"7e0", 0x378eff223f1550b7},
                 {".0", 0xb79c4527c6bdf646},
                 {"-.0", 0x24cbad454bae1c3d},
                 {"1.0.0", 0xdfdc757b4806d4fb},
                 {"0x7.0", 0x5c07cbb3f42216eb}};
    enum { N = sizeof cases / sizeof cases[0] };
    opened o;
    const rk_batch *b;
    rk_buffer rows = {0};
    rk_buffer_append_text(&rows, "y,k\n");
    for (int i = 0; i < N; i++) rk_buffer_printf(&rows, "0,%s\n", cases[i].text);
    OK(rows.status);
    OK(rk_file_write(path_of("keys.csv"), rows.data, rows.n_bytes));
    rk_buffer_release(&rows);
    for (int weighted = 0; weighted < 2; weighted++) { /* a column at a time, and value by value */
        OK(open_section(&o, directory,
                        weighted ? "train: keys.csv\nlabels: [{name: y}]\nshuffle: false\n"
                                   "features: [{name: k, key: true, weights: y}]\n"
                                 : "train: keys.csv\nlabels: [{name: y}]\nshuffle: false\n"
                                   "features: [{name: k, key: true}]\n"));
        OK(rk_dataset_create(&o.section, o.transforms,
                             &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = N},
                             &o.dataset));
        OK(rk_dataset_next(o.dataset, &b));
        assert_int_equal(b->n, N);
        for (int i = 0; i < N; i++) assert_true((uint64_t)b->features[0].ids[i] == cases[i].key);
        close_section(&o);
    }
}

static void test_texts(void **state) {
    (void)state;
    static const char *const formats[] = {"csv", "tsv", "tfrecord", "rkb", "csv.gz"};
    size_t n = sizeof plain_pairs / sizeof plain_pairs[0];
    write_csv("first.csv", plain_pairs, n);
    check_pairs("first.csv", n, formats, 5);
}

/* What csv cannot hold. */
static void test_nul_bytes(void **state) {
    (void)state;
    static const char *const formats[] = {"tfrecord", "rkb"}, *const names[] = {"y", "c0", "c1"};
    static const rk_column_type types[] = {RK_COLUMN_I64, RK_COLUMN_TEXT, RK_COLUMN_TEXT};
    static const rk_span texts[2][2] = {{{"a\0b", 3}, {"a", 1}}, {{"5\0", 2}, {"5", 1}}};
    rk_columns rows;
    rk_file_output *out;
    OK(rk_columns_init(&rows, 3, names, types));
    for (int row = 0; row < 9; row++) {
        OK(rk_column_add_i64(&rows.columns[0], row % 2));
        for (int c = 0; c < 2; c++) OK(rk_column_add_text(&rows.columns[1 + c], texts[c][row % 2]));
        OK(rk_columns_end_row(&rows));
    }
    OK(rk_file_output_open(path_of("nul.rkb"), RK_DATA_RKB, NULL, 0, &out));
    OK(rk_file_output_add_rows(out, &rows));
    OK(rk_file_output_commit(out));
    rk_file_output_free(out);
    rk_columns_release(&rows);
    check_pairs("nul.rkb", 2, formats, 2);
    FAILS(convert("nul.rkb", "no.tsv", NULL), RK_BAD_DATA,
          "a value with a NUL byte cannot be written as separated values");
}

/* Empty texts, which a file may hold, are no values: in a row of one, and among others. */
static void test_empty_texts(void **state) {
    (void)state;
    static const char *const formats[] = {"tfrecord", "rkb"}, *const names[] = {"y", "c0", "x"};
    static const rk_column_type types[] = {RK_COLUMN_I64, RK_COLUMN_TEXT, RK_COLUMN_I64};
    static const char *const texts[] = {"a", "", "b"};
    rk_columns rows;
    rk_buffer seen_texts[2];
    for (int with = 0; with < 2; with++) {
        rk_file_output *out;
        OK(rk_columns_init(&rows, 3, names, types));
        for (int row = 0; row < 90; row++) {
            OK(rk_column_add_i64(&rows.columns[0], row % 2));
            OK(rk_column_add_i64(&rows.columns[2], row));
            if (with && row % 4 == 0) OK(rk_column_add_text(&rows.columns[1], (rk_span){"", 0}));
            if (with || row % 3 != 1)
                OK(rk_column_add_text(&rows.columns[1], (rk_span){texts[row % 3], strlen(texts[row % 3])}));
            OK(rk_columns_end_row(&rows));
        }
        OK(rk_file_output_open(path_of("empty.rkb"), RK_DATA_RKB, NULL, 0, &out));
        OK(rk_file_output_add_rows(out, &rows));
        OK(rk_file_output_commit(out));
        rk_file_output_free(out);
        rk_columns_release(&rows);
        check_pairs("empty.rkb", 1, formats, 2);
        seen_texts[with] = seen("empty.rkb", 1);
    }
    assert_int_equal(seen_texts[0].n_bytes, seen_texts[1].n_bytes);
    assert_memory_equal(seen_texts[0].data, seen_texts[1].data, seen_texts[0].n_bytes);
    for (int with = 0; with < 2; with++) rk_buffer_release(&seen_texts[with]);
}

static rk_column_type type_in(const char *file, const char *column) {
    const char *paths[] = {path_of(file)};
    rk_source *source;
    const rk_chunk *chunk;
    OK(rk_source_open(&(rk_source_options){.paths = paths, .n_paths = 1}, &source));
    OK(rk_source_read_chunk(source, &chunk));
    rk_column_type type = chunk->columns.columns[rk_columns_find(&chunk->columns, column)].type;
    rk_source_free(source);
    return type;
}

/* What the run file makes a number of may be spelt in any way; what it also looks at as a text keeps it. */
static void test_types(void **state) {
    (void)state;
    static const struct {
        /* c0 has 1.10 and 007, c1 12 and 13, c2 0.5 and -0 */
        const char *config; /* "-": none */
        rk_column_type types[3];
    } cases[] = {
        {"-", {RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32}},
        {"features: [{name: c0, dense: true}, {name: c1, dense: true}]",
         {RK_COLUMN_F32, RK_COLUMN_I64, RK_COLUMN_F32}},
        {"features: [{match: \"c*\", dense: true, normalize: true}]",
         {RK_COLUMN_F32, RK_COLUMN_I64, RK_COLUMN_F32}},
        {"features: [{name: c0, dense: true}, {name: h, column: c0, hash: 9}]",
         {RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32}},
        {"features: [{name: c0, vocabulary: {}}]", {RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32}},
        {"features: [{name: c0, quantiles: 3}]", {RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32}},
        {"group: c0\nfeatures: [{name: c0, dense: true}]", {RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32}},
        {"sample_weight: c0\nfeatures: [{name: c1, dense: true}]",
         {RK_COLUMN_F32, RK_COLUMN_I64, RK_COLUMN_F32}},
        {"joins: [{path: x.csv, key: c0}]\nfeatures: [{name: c0, dense: true}]",
         {RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32}},
        {"labels: [{name: c0, loss: mse}]\nfeatures: [{name: c1, hash: 9}]",
         {RK_COLUMN_F32, RK_COLUMN_I64, RK_COLUMN_F32}},
        {"labels: [{name: l, column: c0, threshold: 1.1}]\nfeatures: [{name: c1, hash: 9}]",
         {RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32}},
        {"labels: [{name: c0, positive: [\"007\"]}]\nfeatures: [{name: c1, hash: 9}]",
         {RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_F32}},
    };
    static const pair pairs[] = {{"1.10", "007"}, {"12", "13"}, {"0.5", "-0"}};
    write_csv("typed.csv", pairs, 3);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[300];
        opened o;
        bool with = cases[i].config[0] != '-';
        snprintf(text, sizeof text, "train: typed.csv\n%s", with ? cases[i].config : "features: []");
        OK(bind_section(&o, text));
        OK(convert("typed.csv", "typed.rkb", with ? &o.section : NULL));
        for (int c = 0; c < 3; c++) {
            char name[8];
            snprintf(name, sizeof name, "c%d", c);
            if (type_in("typed.rkb", name) != cases[i].types[c])
                fail_msg("%s: %s is %s", text, name, rk_column_type_name(type_in("typed.rkb", name)));
        }
        close_section(&o);
    }
}

/* Numbers, boundaries and thresholds of two digits fall on the same side in a text as in an f32. */
static void test_boundaries(void **state) {
    (void)state;
    static const char *const files[] = {"cut.csv", "cut.rkb", "cut.tfrecord"};
    rk_buffer text = {0};
    rk_buffer_append_text(&text, "x\n");
    for (int i = 0; i < 100; i++) rk_buffer_printf(&text, "%g\n", i / 100.0);
    OK(rk_file_write(path_of("cut.csv"), text.data, text.n_bytes));
    OK(convert("cut.csv", "cut.rkb", NULL));
    OK(convert("cut.csv", "cut.tfrecord", NULL));
    for (size_t f = 0; f < 3; f++)
        for (int batch = 1; batch < 200; batch += 150) {
            opened o;
            const rk_batch *b;
            char with[300];
            snprintf(with, sizeof with,
                     "train: %s\nlabels: [{name: l, column: x, threshold: 0.7}, {name: m, column: x, "
                     "threshold: 0.57}]\n"
                     "features: [{name: x, bucketize: [0.07, 0.3, 0.7, 0.99]}]",
                     files[f]);
            OK(open_section(&o, directory, with));
            OK(rk_dataset_create(
                &o.section, o.transforms,
                &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = batch},
                &o.dataset));
            for (int64_t row = 0; rk_dataset_next(o.dataset, &b) == RK_OK;)
                for (int64_t i = 0; i < b->n; i++, row++) {
                    assert_int_equal(b->features[0].ids[i],
                                     (row >= 7) + (row >= 30) + (row >= 70) + (row >= 99));
                    assert_true(b->labels[2 * i] == (float)(row >= 70) &&
                                b->labels[2 * i + 1] == (float)(row >= 57));
                }
            close_section(&o);
        }
    rk_buffer_release(&text);
}

static void check_text(const char *file, const char *expected) {
    char *text;
    size_t n;
    OK(rk_file_read(path_of(file), &text, &n));
    assert_int_equal(n, strlen(expected));
    assert_memory_equal(text, expected, n);
    rk_free(text);
}

/* libsvm through every format and back, with groups, several labels and no ids. */
static void test_libsvm(void **state) {
    (void)state;
    static const char *const formats[] = {"rkb", "libsvm"};
    static const char *const rows = "1 qid:7 3:1 9223372036854775807:0.5\n0,1 qid:7 5:1\n-0.25\n0.1 2:1\n";
    OK(rk_file_write(path_of("a.libsvm"), rows, strlen(rows)));
    for (size_t i = 0; i < 2; i++) {
        char middle[30];
        snprintf(middle, sizeof middle, "b.%s", formats[i]);
        OK(convert("a.libsvm", middle, NULL));
        OK(convert(middle, "c.libsvm", NULL));
        check_text("c.libsvm", rows);
    }
    OK(rk_file_write(path_of("d.libsvm"), "1 2:1 3:1\n0\n", 12));
    OK(convert("d.libsvm", "d.csv", NULL));
    check_text("d.csv", "label,qid,ids\n1,,2|3\n0,,\n");
    OK(convert("d.libsvm", "d.tfrecord", NULL));
    OK(convert("d.tfrecord", "e.libsvm", NULL));
    check_text("e.libsvm", "1 2:1 3:1\n0\n");
}

/* A row of one column without a value is a row; values that would come back as others are refused. */
static void test_fields(void **state) {
    (void)state;
    static const char *const names[] = {"x"};
    static const rk_column_type types[] = {RK_COLUMN_TEXT};
    static const char *const values[] = {"b", "c", "a|b"};
    rk_columns rows;
    rk_file_output *out;
    OK(rk_columns_init(&rows, 1, names, types));
    OK(rk_columns_end_row(&rows));
    for (int i = 0; i < 2; i++) OK(rk_column_add_text(&rows.columns[0], (rk_span){values[i], 1}));
    OK(rk_columns_end_row(&rows));
    OK(rk_file_output_open(path_of("one.csv"), RK_DATA_CSV, NULL, 0, &out));
    OK(rk_file_output_add_rows(out, &rows));
    OK(rk_file_output_commit(out));
    rk_file_output_free(out);
    check_text("one.csv", "x\n\"\"\nb|c\n");
    OK(convert("one.csv", "one.rkb", NULL));
    OK(convert("one.rkb", "two.csv", NULL));
    check_text("two.csv", "x\n\"\"\nb|c\n");
    OK(rk_column_add_text(&rows.columns[0], (rk_span){values[2], 3}));
    OK(rk_columns_end_row(&rows));
    OK(rk_file_output_open(path_of("one.csv"), RK_DATA_CSV, NULL, 0, &out));
    FAILS(rk_file_output_add_rows(out, &rows), RK_BAD_DATA,
          "column 'x': several values of a row are written with '|' between them, but a value has a '|' or a "
          "trailing space itself\nhint: write rkb or tfrecord");
    rk_file_output_free(out);
    rk_columns_release(&rows);
}

static int set_up(void **state) {
    (void)state;
    memset(long_a, 'x', sizeof long_a - 1);
    memset(long_b, 'x', sizeof long_b - 1);
    long_b[sizeof long_b - 2] = 'y';
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    assert_int_equal(rk_alloc_live(), 0);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys),      cmocka_unit_test(test_texts),
                                       cmocka_unit_test(test_nul_bytes), cmocka_unit_test(test_empty_texts),
                                       cmocka_unit_test(test_types),     cmocka_unit_test(test_boundaries),
                                       cmocka_unit_test(test_libsvm),    cmocka_unit_test(test_fields)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
