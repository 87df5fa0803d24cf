/* From files to batches: transforms, order, positions, caching, bad input. */
#include "testing.h"

#include <math.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "data/transform/vocabulary.h"
#include "data/section.h"
#include "format/byte_stream.h"

enum { ROWS = 1000 };
static char directory[] = "/tmp/reckon-data-XXXXXX";

static const char *const run_text =
    "train: a.csv\n"
    "labels: [{name: y}]\n"
    "shuffle_window: 200\n"
    "seed: 5\n"
    "features:\n"
    "  - {name: n, identity: 1000}\n"
    "  - {name: word, vocabulary: {min_count: 2}}\n"
    "  - {name: tags, separator: \"|\", hash: 50}\n"
    "  - {name: x, dense: true, normalize: true}\n"
    "  - {name: bucket, column: x, bucketize: [100, 500]}\n"
    "  - {name: both, cross: [word, bucket], hash: 64}\n";

static void write_file(const char *name, const void *data, size_t n_bytes) {
    char *path;
    OK(rk_path_join(directory, name, &path));
    OK(rk_file_write(path, data, n_bytes));
    rk_free(path);
}

static rk_buffer good_rows(void) {
    rk_buffer text = {0};
    rk_buffer_append_text(&text, "\xef\xbb\xbfn,word,tags,x,y\r\n");
    for (int i = 0; i < ROWS; i++)
        rk_buffer_printf(&text, "%d,%s,%s,%d,%d\r\n", i,
                         i % 3      ? "even so"
                         : i == 999 ? "rare"
                                    : "",
                         i % 2 ? "a|b" : "c", i, i % 2);
    OK(text.status);
    return text;
}

static rk_status open_text(const char *yaml_text, const char *extra, const char *split, int64_t batch,
                           bool shuffle, opened *o) {
    char text[2048];
    snprintf(text, sizeof text, "%s%s", yaml_text, extra);
    RK_TRY(open_section(o, directory, text));
    return rk_dataset_create(
        &o->section, o->transforms,
        &(rk_dataset_options){
            .directory = directory, .split = split, .batch_size = batch, .seed = 9, .shuffle = shuffle},
        &o->dataset);
}

/* Where the ids of a sample begin; those of sample n end where those of n+1 begin. */
static int64_t begin_of(const rk_ids *ids, int64_t sample) {
    return ids->offsets ? ids->offsets[sample] : sample * ids->ids_per_sample;
}

static int64_t count_of(const rk_ids *ids, int64_t sample) {
    return begin_of(ids, sample + 1) - begin_of(ids, sample);
}

/* The first feature's ids (the row numbers) of one epoch, in order. */
static int64_t read_epoch(rk_dataset *d, int64_t *order) {
    const rk_batch *batch;
    int64_t n = 0;
    rk_status status;
    while ((status = rk_dataset_next(d, &batch)) == RK_OK)
        for (int64_t i = 0; i < batch->n; i++)
            order[n++] = batch->features[0].ids[begin_of(&batch->features[0], i)];
    if (status != RK_END) print_error("%s\n", rk_last_error());
    assert_int_equal(status, RK_END);
    return n;
}

static void test_values(void **state) {
    (void)state;
    opened o;
    OK(open_text(run_text, "", "train", 64, false, &o));
    const rk_data_schema *schema = rk_dataset_schema(o.dataset);
    assert_int_equal(schema->n_dense, 1);
    assert_int_equal(schema->n_features, 5);
    assert_int_equal(schema->features[1].cardinality,
                     2); /* out of vocabulary, and the one word that is not rare */
    assert_int_equal(schema->features[3].cardinality, 3);
    const rk_batch *b;
    double mean = 499.5, deviation = sqrt((ROWS * (double)ROWS - 1) / 12);
    for (int64_t row = 0; rk_dataset_next(o.dataset, &b) == RK_OK;)
        for (int64_t i = 0; i < b->n; i++, row++) {
            assert_int_equal(b->features[0].ids[begin_of(&b->features[0], i)], row);
            int64_t words = count_of(&b->features[1], i);
            assert_int_equal(words, row % 3 || row == 999 ? 1 : 0);
            if (words) assert_int_equal(b->features[1].ids[begin_of(&b->features[1], i)], row % 3 ? 1 : 0);
            assert_int_equal(count_of(&b->features[2], i), row % 2 ? 2 : 1);
            assert_true(fabs(b->dense[i] - (row - mean) / deviation) < 1e-5);
            assert_int_equal(b->features[3].ids[i], row < 100 ? 0 : row < 500 ? 1 : 2);
            assert_int_equal(count_of(&b->features[4], i), words);
            assert_true(b->labels[i] == (float)(row % 2));
            assert_int_equal(b->first_row + i, row);
        }
    assert_int_equal(rk_dataset_n_rows(o.dataset), ROWS);
    close_section(&o);
}

static void test_order(void **state) {
    (void)state;
    opened o, streamed;
    static int64_t first[ROWS], second[ROWS], again[ROWS];
    int seen[ROWS] = {0};
    OK(open_text(run_text, "", "train", 64, true, &o));
    OK(open_text(run_text, "cache_bytes: 0\n", "train", 64, true, &streamed));
    assert_int_equal(read_epoch(o.dataset, first), ROWS);
    assert_int_equal(read_epoch(o.dataset, second), ROWS);
    for (int i = 0; i < ROWS; i++) seen[second[i]]++;
    for (int i = 0; i < ROWS; i++) assert_int_equal(seen[i], 1); /* each row once an epoch */
    assert_memory_not_equal(first, second, sizeof first);
    assert_int_equal(read_epoch(streamed.dataset, again), ROWS);
    assert_memory_equal(first, again, sizeof first);
    assert_int_equal(read_epoch(streamed.dataset, again), ROWS);
    assert_memory_equal(second, again, sizeof second);
    /* Seeking to where a batch began gives the same batches again. */
    for (int64_t row = 0; row < ROWS; row += 64 * 5) {
        OK(rk_dataset_seek(o.dataset, (rk_dataset_position){1, row}));
        int64_t n = read_epoch(o.dataset, again);
        assert_int_equal(n, ROWS - row);
        assert_memory_equal(again, second + row, (size_t)n * sizeof *again);
        rk_dataset_position at = rk_dataset_current_position(o.dataset);
        assert_true(at.epoch == 2 && at.row == 0);
    }
    close_section(&o);
    close_section(&streamed);
}

/* Only one large batch is made ahead, and the batches are what they are with several. */
static void test_large_batches(void **state) {
    (void)state;
    opened usual, large;
    static int64_t first[ROWS], second[ROWS], again[ROWS];
    OK(open_text(run_text, "", "train", 64, true, &usual));
    OK(open_section(&large, directory, run_text));
    const rk_dataset_options options = {.directory = directory,
                                        .split = "train",
                                        .batch_size = 64,
                                        .seed = 9,
                                        .shuffle = true,
                                        .large_batch_bytes = 1000};
    OK(rk_dataset_create(&large.section, large.transforms, &options, &large.dataset));
    const rk_batch *few, *all;
    OK(rk_dataset_next(usual.dataset, &all));
    OK(rk_dataset_next(large.dataset, &few));
    assert_true(rk_dataset_peak_bytes(large.dataset, few, ROWS) <
                rk_dataset_peak_bytes(usual.dataset, all, ROWS));
    OK(rk_dataset_seek(usual.dataset, (rk_dataset_position){0, 0}));
    OK(rk_dataset_seek(large.dataset, (rk_dataset_position){0, 0}));
    for (int epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(read_epoch(usual.dataset, epoch ? second : first), ROWS);
        assert_int_equal(read_epoch(large.dataset, again), ROWS);
        assert_memory_equal(again, epoch ? second : first, sizeof again);
    }
    close_section(&usual);
    close_section(&large);
}

/* What parses is counted while it is there: a split that is kept whole needs it no more. */
static void test_peak_bytes(void **state) {
    (void)state;
    opened kept, streamed;
    static int64_t order[ROWS];
    const rk_batch *b;
    OK(open_text(run_text, "cache: {max_bytes: 0}\n", "train", 64, true, &kept));
    OK(open_text(run_text, "cache_bytes: 0\n", "train", 64, true, &streamed));
    int64_t rows[2], pieces[2];
    for (int i = 0; i < 2; i++) {
        rk_dataset *d = (i ? streamed : kept).dataset;
        OK(rk_dataset_next(d, &b));
        int64_t before = (int64_t)rk_dataset_peak_bytes(d, b, ROWS);
        while (rk_dataset_next(d, &b) == RK_OK) {
        }
        assert_int_equal(read_epoch(d, order), ROWS);
        OK(rk_dataset_next(d, &b));
        rows[i] = (int64_t)rk_dataset_peak_bytes(d, b, ROWS);
        pieces[i] = before - rows[i];
    }
    assert_true(pieces[0] > 4 * ROWS); /* the file's bytes, and more */
    assert_true(pieces[1] < ROWS);     /* batches differ a little */
    assert_true(rows[0] > 8 * ROWS && rows[1] > pieces[0]);
    close_section(&kept);
    close_section(&streamed);
}

static void test_fractions(void **state) {
    (void)state;
    opened train, valid;
    static int64_t a[ROWS], b[ROWS];
    int seen[ROWS] = {0};
    OK(open_text(run_text, "valid: {fraction: 0.3}\n", "train", 64, true, &train));
    OK(open_text(run_text, "valid: {fraction: 0.3}\n", "valid", 64, false, &valid));
    int64_t n = read_epoch(train.dataset, a), m = read_epoch(valid.dataset, b);
    assert_int_equal(n + m, ROWS);
    assert_true(m > 240 && m < 360);
    for (int64_t i = 0; i < n; i++) seen[a[i]]++;
    for (int64_t i = 0; i < m; i++) seen[b[i]]++;
    for (int i = 0; i < ROWS; i++) assert_int_equal(seen[i], 1);
    close_section(&train);
    close_section(&valid);
}

static rk_status drain(opened *o) {
    const rk_batch *batch;
    rk_status status;
    while ((status = rk_dataset_next(o->dataset, &batch)) == RK_OK) {
    }
    return status;
}

static void expect_bad(const char *text, const char *message, int64_t n_skipped) {
    char path[256], expected[512];
    opened o;
    write_file("bad.csv", text, strlen(text));
    static const char *const bad =
        "train: bad.csv\nlabels: [{name: y}]\nfeatures: [{name: n, identity: 1000}, {name: x, dense: "
        "true}]\n";
    OK(open_text(bad, "", "train", 8, false, &o));
    snprintf(path, sizeof path, "'%s/bad.csv'", directory);
    snprintf(expected, sizeof expected, message, path);
    FAILS(drain(&o), RK_BAD_DATA, expected);
    FAILS(drain(&o), RK_BAD_DATA, expected); /* and again */
    close_section(&o);
    OK(open_text(bad, "on_bad_row: skip\ncache_bytes: 0\n", "train", 8, false, &o));
    for (int64_t pass = 0; pass < 3; pass++) { /* each counts its own, the one that is gone back to as well */
        assert_int_equal(drain(&o), RK_END);
        assert_int_equal(rk_dataset_n_skipped(o.dataset), n_skipped);
        if (pass == 1) OK(rk_dataset_seek(o.dataset, (rk_dataset_position){1, 0}));
    }
    close_section(&o);
}

static void test_bad_rows(void **state) {
    (void)state;
    expect_bad("n,x,y\n1,2,0\n1,abc,1\n5,1,1\n", "%s: line 3: column 'x': 'abc' is not a number", 1);
    expect_bad("n,x,y\n1,2,0\n1000,3,1\n5,1,1\n",
               "%s: line 3: column 'n': id 1000 is not within 0 to 999\nhint: set the feature's 'identity' "
               "to a larger number, or use 'hash'",
               1);
    expect_bad("n,x,y\n1,2,0\n\n1,2\n1,2,0,4\n", "%s: line 4: 2 fields, where 3 columns were expected", 2);
    expect_bad(
        "n,x,y\n1,2,0\n1,2,\n",
        "%s: line 3: the label 'y' is missing\nhint: if rows may lack this label, set its 'optional: true'",
        1);
    expect_bad("n,x,y\n1,2,0\n1,2,3\n",
               "%s: line 3: the label 'y' is 3; a cross-entropy needs 0 to 1\nhint: set the label's loss to "
               "mse, or give a threshold",
               1);
    expect_bad("n,x,y\n1,2,0\n1,1e39,1\n5,1,1\n", "%s: line 3: column 'x': 1e+39 is too large for f32", 1);
    expect_bad("n,x,y\n1,2,0\n1,\"2\"2,1\n3,2,1\n", "%s: line 3: field 2: text after the closing quote", 1);
}

static void test_cut_gzip(void **state) {
    (void)state;
    rk_buffer text = good_rows();
    char path[256];
    snprintf(path, sizeof path, "%s/a.csv.gz", directory);
    rk_byte_sink *sink;
    OK(rk_byte_sink_open(path, &sink));
    OK(rk_byte_sink_write(sink, text.data, text.n_bytes));
    OK(rk_byte_sink_commit(sink));
    rk_byte_sink_free(sink);
    char *packed;
    size_t n;
    OK(rk_file_read(path, &packed, &n));
    static const char *const gz =
        "train: cut.csv.gz\nlabels: [{name: y}]\nfeatures: [{name: n, identity: 1000}]\n";
    opened o;
    write_file("cut.csv.gz", packed, n);
    OK(open_text(gz, "", "train", 64, false, &o));
    assert_int_equal(drain(&o), RK_END);
    assert_int_equal(rk_dataset_n_rows(o.dataset), ROWS);
    close_section(&o);
    for (size_t length = 30; length < n;
         length += 97) { /* a cut container fails even where bad rows may be skipped */
        write_file("cut.csv.gz", packed, length);
        OK(open_text(gz, "on_bad_row: skip\n", "train", 64, false, &o));
        assert_int_equal(drain(&o), RK_BAD_DATA);
        assert_non_null(strstr(rk_last_error(), "the compressed data is cut"));
        close_section(&o);
    }
    rk_free(packed);
    rk_buffer_release(&text);
}

static void test_missing_columns_and_files(void **state) {
    (void)state;
    opened o;
    OK(open_text("train: a.csv\nlabels: [{name: y}]\nfeatures: [{name: wrod, hash: 9}]\n", "", "train", 8,
                 false, &o));
    assert_int_equal(drain(&o), RK_CONFIG);
    assert_non_null(strstr(rk_last_error(), "has no column 'wrod'\nhint: did you mean 'word'?"));
    close_section(&o);
    OK(open_text("train: none.csv\nlabels: [{name: y}]\nfeatures: [{name: word, hash: 9}]\n", "", "train", 8,
                 false, &o));
    assert_int_equal(drain(&o), RK_NOT_FOUND);
    close_section(&o);
    assert_int_equal(
        open_text("train: a.csv\nlabels: [{name: y}]\nfeatures: [{name: word, hash: 9, identity: 4}]\n", "",
                  "train", 8, false, &o),
        RK_CONFIG);
    assert_string_equal(rk_last_error(),
                        "d.yaml:3: 'word': a feature has one kind, not several\nhint: give one of hash, "
                        "identity, vocabulary, key, bucketize, quantiles, cross (with hash), dense");
    close_section(&o);
}

static void test_names_that_stand_twice(void **state) {
    (void)state;
    static const char twice[] = "word,n,word,x,x\na,1,b,2,3\n";
    opened o;
    write_file("twice.csv", twice, sizeof twice - 1);
    OK(open_text("train: twice.csv\nlabels: [{name: n}]\nfeatures: [{name: word, hash: 9}]\n", "", "train", 8,
                 false, &o));
    assert_int_equal(drain(&o), RK_CONFIG);
    assert_non_null(strstr(rk_last_error(), "has two columns 'word'\nhint: data.columns"));
    close_section(&o);
    OK(
        open_text("train: twice.csv\nheader: true\ncolumns: [word, n, _, _, _]\nlabels: [{name: "
                  "n}]\nfeatures: [{name: word, hash: 9}]\n",
                  "", "train", 8, false, &o));
    assert_int_equal(drain(&o), RK_END); /* what nothing reads may be called what it likes */
    close_section(&o);
}

static rk_status check_valid(const char *valid) {
    char text[256];
    opened o;
    snprintf(text, sizeof text,
             "train: a.csv\nvalid: %s\nlabels: [{name: y}]\nfeatures: [{name: word, hash: 9}]\n", valid);
    RK_TRY(open_text(text, "", "valid", 8, false, &o));
    rk_status status = rk_dataset_check(o.dataset);
    close_section(&o);
    return status;
}

static void test_check(void **state) {
    (void)state;
    static const char head[] = "word,y\n", rows[] = "word,y\na,1\n";
    write_file("head.csv", head, sizeof head - 1);
    write_file("rows.csv", rows, sizeof rows - 1);
    OK(check_valid("rows.csv"));
    OK(check_valid("[head.csv, rows.csv]"));
    OK(check_valid("{fraction: 0.5}"));
    assert_int_equal(check_valid("head.csv"), RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), "head.csv' has no rows"));
    assert_int_equal(check_valid("none.csv"), RK_NOT_FOUND);
    assert_int_equal(check_valid("[rows.csv, twice.csv]"), RK_CONFIG); /* the second file, too */
    assert_non_null(strstr(rk_last_error(), "twice.csv' has no column 'y'"));
}

static void test_joins(void **state) {
    (void)state;
    static const char films[] = "1|Amelie (\xe9)|comedy\n2|Alien|horror\n",
                      ratings[] = "film,y\n1,1\n2,0\n3,1\n1,0\n";
    write_file("films.txt", films, sizeof films - 1);
    write_file("ratings.csv", ratings, sizeof ratings - 1);
    opened o;
    OK(
        open_text("train: ratings.csv\nlabels: [{name: y}]\njoins: [{path: films.txt, key: film, separator: "
                  "\"|\", columns: [film, title, genre]}]\n"
                  "features: [{name: film, vocabulary: {}}, {name: genre, vocabulary: {}}]\n",
                  "", "train", 8, false, &o));
    const rk_batch *b;
    OK(rk_dataset_next(o.dataset, &b));
    assert_int_equal(b->n, 4);
    static const int64_t expected[] = {0, 1, 2, 2, 3}; /* the third film has no row to join */
    for (int i = 0; i < 5; i++) assert_int_equal(begin_of(&b->features[1], i), expected[i]);
    assert_true(b->features[1].ids[0] == b->features[1].ids[2] &&
                b->features[1].ids[0] != b->features[1].ids[1]);
    close_section(&o);
}

static void test_save_and_load(void **state) {
    (void)state;
    opened o;
    OK(open_text(run_text, "", "train", 64, false, &o));
    char saved[256];
    rk_text_list names = {0};
    snprintf(saved, sizeof saved, "%s/saved", directory);
    OK(rk_make_directories(saved));
    OK(rk_transforms_save(o.transforms, saved, &names));
    assert_int_equal(names.n, 2);
    rk_transforms *loaded;
    OK(rk_transforms_load_files(&o.section, saved, &loaded));
    const rk_data_schema *a = rk_transforms_schema(o.transforms), *b = rk_transforms_schema(loaded);
    for (int f = 0; f < a->n_features; f++)
        assert_int_equal(a->features[f].cardinality, b->features[f].cardinality);
    rk_dataset *again;
    const rk_batch *x, *y;
    OK(rk_dataset_create(&o.section, loaded,
                         &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 64},
                         &again));
    OK(rk_dataset_next(o.dataset, &x));
    OK(rk_dataset_next(again, &y));
    assert_memory_equal(x->dense, y->dense, 64 * sizeof(float));
    for (int f = 0; f < a->n_features; f++)
        assert_memory_equal(x->features[f].ids, y->features[f].ids,
                            (size_t)begin_of(&x->features[f], 64) * sizeof(int64_t));
    rk_dataset_free(again);
    rk_transforms_free(loaded);
    rk_text_list_release(&names);
    close_section(&o);
}

static void test_weights(void **state) {
    (void)state;
    static const char text[] = "tags,w,y\na|b,0.5|2,1\nc,1,0\n,,1\na||b|c, 1||2| 3,0\n";
    static const char features[] =
        "train: w.csv\nlabels: [{name: y}]\nfeatures: [{name: tags, hash: 50, separator: \"|\", weights: "
        "w}]\n";
    static const float expected[] = {0.5F, 2, 1, 1, 2, 3};
    write_file("w.csv", text, sizeof text - 1);
    opened o;
    const rk_batch *b;
    OK(open_text(features, "", "train", 8, false, &o));
    OK(rk_dataset_next(o.dataset, &b));
    assert_true(b->n == 4 && b->features[0].offsets[4] == 6);
    assert_memory_equal(b->features[0].weights, expected, sizeof expected);
    close_section(&o);
    static const char *const rows[] = {"a|b,1", "a,1|2", "a,x", "a,nan"};
    static const char *const said[] = {"fewer weights than ids", "more weights than ids",
                                       "'x' is not a number", "'nan' is not a number"};
    for (int i = 0; i < 4; i++) {
        char bad[64];
        write_file("w.csv", bad, (size_t)snprintf(bad, sizeof bad, "tags,w,y\n%s,1\n", rows[i]));
        OK(open_text(features, "", "train", 8, false, &o));
        assert_int_equal(drain(&o), RK_BAD_DATA);
        assert_non_null(strstr(rk_last_error(), said[i]));
        close_section(&o);
    }
}

static void test_libsvm_fields(void **state) {
    (void)state;
    static const char text[] = "1 0:1 10:1\n# a comment\n0 3 12:0.5 13\n";
    write_file("a.libsvm", text, sizeof text - 1);
    opened o;
    OK(
        open_text("train: a.libsvm\nlabels: [{name: y, column: label}]\nfields: [{name: user, first: 0, "
                  "last: 9}, {name: item, first: 10, last: 19}]\n"
                  "features: [{name: user, identity: 10}, {name: item, identity: 10}]\n",
                  "", "train", 8, false, &o));
    const rk_batch *b;
    OK(rk_dataset_next(o.dataset, &b));
    assert_int_equal(b->n, 2);
    assert_true(b->labels[0] == 1 && b->labels[1] == 0);
    assert_true(b->features[0].ids[1] == 3 && b->features[1].ids[0] == 0 && b->features[1].ids[1] == 2 &&
                b->features[1].ids[2] == 3);
    close_section(&o);
    static const char *const weighted =
        "train: a.libsvm\nlabels: [{name: y, column: label}]\nfeatures: [{name: ids, identity: 20, weights: "
        "ids}]\n";
    static const float expected[] = {1, 1, 1, 0.5F, 1};
    OK(open_text(weighted, "", "train", 8, false, &o));
    OK(rk_dataset_next(o.dataset, &b));
    assert_memory_equal(b->features[0].weights, expected, sizeof expected); /* the values beside the ids */
    close_section(&o);
}

static void test_out_of_memory(void **state) {
    (void)state;
    long before = rk_alloc_live();
    for (long n = 1; n < 3000; n += 7) {
        opened o = {0};
        rk_alloc_fail_after(n, true);
        rk_status status = open_text(run_text, "", "train", 64, true, &o);
        if (status == RK_OK) status = drain(&o);
        rk_alloc_fail_after(0, false);
        close_section(&o);
        assert_int_equal(rk_alloc_live(), before);
        if (status == RK_END) return;
        assert_int_equal(status, RK_NO_MEMORY);
    }
    fail();
}

static int set_up(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    rk_buffer text = good_rows();
    write_file("a.csv", text.data, text.n_bytes);
    rk_buffer_release(&text);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_large_batches),
        cmocka_unit_test(test_peak_bytes),
        cmocka_unit_test(test_fractions),
        cmocka_unit_test(test_bad_rows),
        cmocka_unit_test(test_cut_gzip),
        cmocka_unit_test(test_missing_columns_and_files),
        cmocka_unit_test(test_names_that_stand_twice),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_libsvm_fields),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
