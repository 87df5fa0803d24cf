/* A run whose rows are in memory, in streams of the Arrow C data interface, is the run over files with the
 * same values, to the bit, however the streams are cut. */
#include "testing.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include <reckon/convert.h>
#include <reckon/dataset.h>
#include <reckon/trainer.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/rng.h"

enum { N = 20000, N_WORDS = 40, N_COLUMNS = 7, N_CHILDREN = 11 };

static char directory[] = "/tmp/reckon_streams_XXXXXX";
static const char data_text[] =
    "  labels: [{name: y}]\n"
    "  features:\n"
    "    - {name: word, vocabulary: {min_count: 2}}\n"
    "    - {name: kind, hash: 50}\n"
    "    - {name: shop, hash: 90}\n"
    "    - {name: tags, separator: '|', hash: 64}\n"
    "    - {name: x, dense: true, normalize: true}\n"
    "    - {name: pair, dense: true, width: 2, separator: '|'}\n"
    "embedding: {dim: 4}\n"
    "model: {kind: deepfm, deep: [8]}\n"
    "train: {batch_size: 512, epochs: 2, tensorboard: false, optimizer: {kind: adam, learning_rate: 0.01}}\n";

/* The rows, column by column, as an array of any length has them: a stream's are parts of these. */
static struct rows {
    int32_t word_ends[N + 1], tag_ends[N + 1], tags[3 * N];
    int64_t kind_ends[N_WORDS + 1], shop[N];
    int16_t kind[N];
    float x[N], pair[2 * N];
    uint8_t has_word[N / 8 + 1], has_x[N / 8 + 1], y[N];
    char words[8 * N], kinds[8 * N_WORDS];
} rows;

static void set_bit(uint8_t *bits, int i) {
    bits[i / 8] |= (uint8_t)(1 << (i % 8));
}

/* Row i into the columns, and as a line of csv. */
static void make_row(rk_rng *rng, int i, FILE *csv) {
    char *word = rows.words + rows.word_ends[i];
    int n_word = rk_rng_below(rng, 9) ? sprintf(word, "w%d", (int)rk_rng_below(rng, 300)) : 0;
    rows.word_ends[i + 1] = rows.word_ends[i] + n_word;
    if (n_word) set_bit(rows.has_word, i);
    rows.kind[i] = (int16_t)rk_rng_below(rng, N_WORDS);
    rows.shop[i] = (int64_t)rk_rng_below(rng, 1000) * 1000000007;
    int n_tags = (int)rk_rng_below(rng, 4);
    for (int k = 0; k < n_tags; k++) rows.tags[rows.tag_ends[i] + k] = (int32_t)rk_rng_below(rng, 500) - 250;
    rows.tag_ends[i + 1] = rows.tag_ends[i] + n_tags;
    bool has_x = rk_rng_below(rng, 5) != 0;
    rows.x[i] = (float)rk_rng_normal(rng);
    if (has_x) set_bit(rows.has_x, i);
    for (int k = 0; k < 2; k++) rows.pair[2 * i + k] = (float)rk_rng_normal(rng);
    rows.y[i] = (double)rows.kind[i] / N_WORDS + (has_x ? rows.x[i] : 0) > 0.5;
    fprintf(csv, "%d,%.*s,k%d,%lld,", rows.y[i], n_word, word, rows.kind[i], (long long)rows.shop[i]);
    for (int k = 0; k < n_tags; k++) fprintf(csv, "%s%d", k ? "|" : "", rows.tags[rows.tag_ends[i] + k]);
    fprintf(csv, ",");
    if (has_x) fprintf(csv, "%.17g", (double)rows.x[i]);
    fprintf(csv, ",%.17g|%.17g\n", (double)rows.pair[2 * i], (double)rows.pair[2 * i + 1]);
}

static void make_rows(void) {
    char path[256];
    rk_rng rng = {1, 2, 0};
    snprintf(path, sizeof path, "%s/a.csv", directory);
    FILE *csv = fopen(path, "w");
    assert_non_null(csv);
    fprintf(csv, "y,word,kind,shop,tags,x,pair\n");
    for (int i = 0; i < N; i++) make_row(&rng, i, csv);
    fclose(csv);
    for (int i = 0; i < N_WORDS; i++)
        rows.kind_ends[i + 1] = rows.kind_ends[i] + sprintf(rows.kinds + rows.kind_ends[i], "k%d", i);
}

/* A stream as a library makes them: what it gives is its own memory until it is released. */
typedef struct maker {
    int64_t sizes[3];            /* of its arrays, in turn */
    int fail_at;                 /* the array that get_next fails at, or -1 */
    const char *rename, *retype; /* a column's, or NULL */
    int64_t short_by;            /* rows that a child has not */
    int n_open, n_arrays, n_schemas;
    int n_passes; /* streams that were opened */
} maker;

typedef struct stream {
    maker *maker;
    int64_t row;
    int n_given;
} stream;

static const struct {
    const char *name, *format;
} children[N_CHILDREN] = {{"when", "tsu:UTC"}, {"pair", "+w:2"}, {"x", "f"},    {"tags", "+l"},
                          {"shop", "l"},       {"kind", "s"},    {"word", "u"}, {"y", "C"}};

static void release_schema(struct ArrowSchema *s) {
    for (int64_t c = 0; c < s->n_children; c++) {
        if (s->children[c]->release) s->children[c]->release(s->children[c]);
        free(s->children[c]);
    }
    if (s->dictionary) s->dictionary->release(s->dictionary);
    free(s->dictionary);
    free(s->children);
    if (s->private_data) --((maker *)s->private_data)->n_schemas;
    s->release = NULL;
}

static void release_array(struct ArrowArray *a) {
    for (int64_t c = 0; c < a->n_children; c++) {
        if (a->children[c]->release) a->children[c]->release(a->children[c]);
        free(a->children[c]);
    }
    if (a->dictionary) a->dictionary->release(a->dictionary);
    free(a->dictionary);
    free(a->children);
    free(a->buffers);
    if (a->private_data) --((maker *)a->private_data)->n_arrays;
    a->release = NULL;
}

static struct ArrowSchema *new_schema(const char *name, const char *format, int64_t n_children) {
    struct ArrowSchema *s = calloc(1, sizeof *s);
    *s = (struct ArrowSchema){
        .name = name, .format = format, .n_children = n_children, .release = release_schema};
    s->children = calloc((size_t)n_children + 1, sizeof *s->children);
    return s;
}

static struct ArrowArray *new_array(int64_t row, int64_t n, const void *valid, const void *data,
                                    const void *text) {
    struct ArrowArray *a = calloc(1, sizeof *a);
    *a = (struct ArrowArray){.offset = row,
                             .length = n,
                             .null_count = valid ? -1 : 0,
                             .n_buffers = text ? 3 : 2,
                             .release = release_array};
    a->buffers = calloc(3, sizeof *a->buffers);
    a->buffers[0] = valid;
    a->buffers[1] = data;
    a->buffers[2] = text;
    a->children = calloc(N_CHILDREN, sizeof *a->children);
    return a;
}

static void add_child(struct ArrowArray *a, struct ArrowArray *child) {
    a->children[a->n_children++] = child;
}

static int get_schema(struct ArrowArrayStream *stream_of, struct ArrowSchema *out) {
    maker *m = ((stream *)stream_of->private_data)->maker;
    struct ArrowSchema *s = new_schema("", "+s", 0);
    free(s->children);
    s->children = calloc(N_CHILDREN, sizeof *s->children);
    for (int c = 0; children[c].name; c++) {
        const char *name = children[c].name, *format = children[c].format;
        if (m->rename && strcmp(name, m->rename) == 0) name = "renamed";
        if (m->retype && strcmp(name, m->retype) == 0) format = strcmp(format, "l") == 0 ? "L" : "tdD";
        bool is_list = *format == '+';
        s->children[s->n_children++] = new_schema(name, format, is_list);
        if (is_list) s->children[c]->children[0] = new_schema("item", strcmp(name, "pair") ? "i" : "f", 0);
        if (strcmp(name, "kind") == 0) s->children[c]->dictionary = new_schema("", "U", 0);
    }
    s->private_data = m;
    m->n_schemas++;
    *out = *s;
    free(s);
    return 0;
}

static int get_next(struct ArrowArrayStream *stream_of, struct ArrowArray *out) {
    stream *s = stream_of->private_data;
    maker *m = s->maker;
    *out = (struct ArrowArray){0};
    if (s->n_given == m->fail_at) return EIO;
    int64_t row = s->row, n = m->sizes[s->n_given++ % 3];
    if (n > N - row) n = N - row;
    if (row == N) return 0;
    s->row += n;
    struct ArrowArray *a = new_array(0, n, NULL, NULL, NULL);
    a->n_buffers = 1;
    add_child(a, new_array(row, n, NULL, rows.shop, NULL));
    add_child(a, new_array(row, n, NULL, NULL, NULL)); /* pair: its values' buffer is the child's */
    a->children[1]->n_buffers = 1;
    add_child(a->children[1], new_array(0, 2 * N, NULL, rows.pair, NULL));
    add_child(a, new_array(row, n, rows.has_x, rows.x, NULL));
    add_child(a, new_array(row, n, NULL, rows.tag_ends, NULL));
    add_child(a->children[3], new_array(0, rows.tag_ends[N], NULL, rows.tags, NULL));
    add_child(a, new_array(row, n - (n > m->short_by ? m->short_by : 0), NULL, rows.shop, NULL));
    add_child(a, new_array(row, n, NULL, rows.kind, NULL));
    a->children[5]->dictionary = new_array(0, N_WORDS, NULL, rows.kind_ends, rows.kinds);
    add_child(a, new_array(row, n, rows.has_word, rows.word_ends, rows.words));
    add_child(a, new_array(row, n, NULL, rows.y, NULL));
    a->private_data = m;
    m->n_arrays++;
    *out = *a;
    free(a);
    return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream_of) {
    (void)stream_of;
    return "the table went away";
}

static void release_stream(struct ArrowArrayStream *stream_of) {
    stream *s = stream_of->private_data;
    s->maker->n_open--;
    free(s);
    stream_of->release = NULL;
}

static int open_stream(void *user, struct ArrowArrayStream *out) {
    maker *m = user;
    stream *s = calloc(1, sizeof *s);
    s->maker = m;
    m->n_open++;
    m->n_passes++;
    *out = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release_stream, s};
    return 0;
}

static int open_nothing(void *user, struct ArrowArrayStream *out) {
    (void)user;
    (void)out;
    return ENOENT;
}

static int open_released(void *user, struct ArrowArrayStream *out) {
    (void)user;
    *out = (struct ArrowArrayStream){0};
    return 0;
}

static rk_config *config_with(const char *splits, maker *m, const char *override) {
    rk_config *config;
    char text[2048], output[256];
    const char *overrides[] = {output, override};
    snprintf(output, sizeof output, "train.output=%s/run", directory);
    snprintf(text, sizeof text, "data:\n%s%s", splits, data_text);
    OK(rk_config_parse(text, "run.yaml", directory, overrides, 2, &config));
    if (m) OK(rk_config_add_stream(config, "rows", open_stream, m));
    return config;
}

static rk_config *config_of(const char *splits, maker *m) {
    return config_with(splits, m, "train.epochs=2");
}

typedef struct result {
    double metrics[16];
    int32_t n_metrics;
    char *bytes; /* of all parameters */
    size_t n_bytes;
} result;

static void take_parameters(rk_model *model, result *out) {
    const rk_model_parameter *parameters;
    int32_t n;
    OK(rk_model_parameters(model, &parameters, &n));
    for (int32_t i = 0; i < n; i++) {
        const rk_tensor *t = &parameters[i].tensor;
        size_t bytes = 4;
        for (int32_t d = 0; d < t->n_dims; d++) bytes *= (size_t)t->shape[d];
        OK(rk_realloc(out->n_bytes + bytes, 1, &out->bytes));
        memcpy(out->bytes + out->n_bytes, t->data, bytes);
        out->n_bytes += bytes;
    }
}

static result train(const char *splits, maker *m) {
    result out = {0};
    rk_trainer *trainer;
    const rk_metric *metrics;
    rk_trainer_options options = RK_TRAINER_OPTIONS_INIT;
    options.overwrite = true;
    rk_config *config = config_of(splits, m);
    OK(rk_trainer_create(config, &options, &trainer));
    OK(rk_trainer_run(trainer));
    OK(rk_trainer_evaluate(trainer, "valid", &metrics, &out.n_metrics));
    assert_true(out.n_metrics > 1 && out.n_metrics <= 16);
    for (int32_t i = 0; i < out.n_metrics; i++) out.metrics[i] = metrics[i].value;
    take_parameters(rk_trainer_model(trainer), &out);
    rk_trainer_free(trainer);
    rk_config_free(config);
    if (m) assert_true(m->n_open == 0 && m->n_arrays == 0 && m->n_schemas == 0); /* all was released */
    return out;
}

static void assert_same(const result *a, const result *b) {
    assert_int_equal(a->n_metrics, b->n_metrics);
    assert_memory_equal(a->metrics, b->metrics, (size_t)a->n_metrics * sizeof *a->metrics);
    assert_int_equal(a->n_bytes, b->n_bytes);
    assert_memory_equal(a->bytes, b->bytes, a->n_bytes);
}

static void test_same_bits(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{N, N, N}, {1, 0, 700}, {8192, 8193, 4097}, {0, 0, 9999}};
    char input[256], output[256];
    snprintf(input, sizeof input, "%s/a.csv", directory);
    snprintf(output, sizeof output, "%s/a.rkb", directory);
    int64_t n_rows, n_skipped;
    OK(rk_convert(input, output, NULL, &n_rows, &n_skipped));
    assert_int_equal(n_rows, N);
    result csv = train("  train: a.csv\n  valid: {fraction: 0.2}\n", NULL);
    result whole = train("  train: a.csv\n  valid: a.csv\n", NULL);
    assert_true(memcmp(csv.metrics, whole.metrics, sizeof csv.metrics) != 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        maker m = {.fail_at = -1};
        memcpy(m.sizes, sizes[i], sizeof m.sizes);
        result got = train("  train: arrow:rows\n  valid: {fraction: 0.2}\n", &m);
        assert_same(&got, &csv);
        rk_free(got.bytes);
    }
    maker m = {.fail_at = -1, .sizes = {3000, 5, 10000}};
    const char *const splits[] = {"  train: arrow:rows\n  valid: arrow:rows\n",
                                  "  train: arrow:rows\n  valid: a.csv\n  cache_bytes: 0\n",
                                  "  train: a.csv\n  valid: arrow:rows\n",
                                  "  train: {path: arrow:rows}\n  valid: a.rkb\n  reader_threads: 3\n"};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        result got = train(splits[i], &m);
        assert_same(&got, &whole);
        rk_free(got.bytes);
    }
    rk_free(csv.bytes);
    rk_free(whole.bytes);
}

/* Streams that are opened for three epochs, beside what fitting opens. */
static int passes_of(const char *epochs) {
    maker m = {.fail_at = -1, .sizes = {N, N, N}};
    rk_config *config = config_with("  train: arrow:rows\n", &m, epochs);
    rk_dataset *dataset;
    const rk_batch *batch;
    OK(rk_dataset_open(config, "train", &dataset));
    int n_fits = m.n_passes;
    for (int epoch = 0; epoch < 3; epoch++) {
        rk_status status;
        while ((status = rk_dataset_next(dataset, &batch)) == RK_OK) continue;
        assert_int_equal(status, RK_END);
    }
    rk_dataset_free(dataset);
    rk_config_free(config);
    return m.n_passes - n_fits;
}

/* Rows stay in memory for a second epoch, but not if one was asked for. */
static void test_kept_rows(void **state) {
    (void)state;
    assert_int_equal(passes_of("train.epochs=2"), 1);
    assert_int_equal(passes_of("train.epochs=1"), 2);
}

/* What reading a stream to its end says. */
static void assert_fails(const char *split, rk_open_stream open, maker *m, rk_status status,
                         const char *message) {
    rk_config *config = config_of("  train: a.csv\n", NULL);
    if (open) OK(rk_config_add_stream(config, "rows", open, m));
    rk_dataset *dataset;
    const rk_batch *batch;
    OK(rk_dataset_open(config, split, &dataset));
    rk_status got;
    while ((got = rk_dataset_next(dataset, &batch)) == RK_OK) continue;
    if (got != status || strcmp(rk_last_error(), message) != 0) fail_msg("%s", rk_last_error());
    rk_dataset_free(dataset);
    rk_config_free(config);
    if (m) assert_true(m->n_open == 0 && m->n_arrays == 0 && m->n_schemas == 0);
}

static void test_failures(void **state) {
    (void)state;
    maker m = {.fail_at = 2, .sizes = {9000, 9000, 9000}};
    assert_fails("arrow:rows", open_stream, &m, RK_IO,
                 "'arrow:rows': the stream gives no rows: the table went away");
    m.fail_at = -1;
    m.short_by = 1;
    assert_fails("arrow:rows", open_stream, &m, RK_INVALID_ARGUMENT,
                 "'arrow:rows': the array that begins with row 0: column 'shop': fewer rows than the struct\n"
                 "hint: it is no array as the Arrow C data interface has them");
    m.short_by = 0;
    m.retype = "word";
    assert_fails("arrow:rows", open_stream, &m, RK_BAD_DATA,
                 "'arrow:rows': column 'word': the Arrow type 'tdD' is not supported\n"
                 "hint: cast it to integers, floats, bool, utf8, or a list of those");
    m.retype = "shop";
    const int64_t shop = rows.shop[17001];
    rows.shop[17001] = -1;
    assert_fails("arrow:rows", open_stream, &m, RK_BAD_DATA,
                 "'arrow:rows': row 17001: column 'shop': 18446744073709551615 is more than a 64-bit integer "
                 "with a sign\nhint: a column that only features with 'key' read may have it");
    rows.shop[17001] = shop;
    m.retype = NULL;
    const float x = rows.pair[2 * 12345 + 1];
    rows.pair[2 * 12345 + 1] = NAN;
    assert_fails("arrow:rows", open_stream, &m, RK_BAD_DATA,
                 "'arrow:rows': row 12345: column 'pair': 'nan' is not a number");
    rows.pair[2 * 12345 + 1] = x;
    m.rename = "tags";
    assert_fails(
        "arrow:rows", open_stream, &m, RK_CONFIG,
        "'arrow:rows' has no column 'tags'\nhint: its columns are pair, x, renamed, shop, kind, word, y");
    assert_fails("arrow:rows", open_nothing, NULL, RK_IO,
                 "'arrow:rows': the stream could not be opened: No such file or directory");
    assert_fails("arrow:rows", open_released, NULL, RK_INVALID_ARGUMENT,
                 "'arrow:rows': what was opened is no stream, or was released");
    assert_fails("arrow:row", open_nothing, NULL, RK_NOT_FOUND,
                 "'arrow:row': the program gives no stream of this name\nhint: is 'arrow:rows' meant?");
    assert_fails("arrow:rows", NULL, NULL, RK_NOT_FOUND,
                 "'arrow:rows': the program gives no stream of this name\n"
                 "hint: rk_config_add_stream gives one; a file's path has no 'arrow:'");
}

static void test_names(void **state) {
    (void)state;
    maker m = {.fail_at = -1};
    rk_config *config = config_of("  train: arrow:rows\n", &m);
    assert_int_equal(rk_config_add_stream(config, "rows", open_stream, &m), RK_INVALID_ARGUMENT);
    assert_string_equal(rk_last_error(), "there is a stream 'rows' already");
    assert_int_equal(rk_config_add_stream(config, "", open_stream, &m), RK_INVALID_ARGUMENT);
    assert_int_equal(rk_config_add_stream(config, "other", NULL, &m), RK_INVALID_ARGUMENT);
    rk_config_free(config);
}

/* Every allocation that fails ends in an error, and all that was opened is released. */
static void test_no_memory(void **state) {
    (void)state;
    maker m = {.fail_at = -1, .sizes = {300, 300, N}};
    for (long k = 1; k < 2000; k++) {
        rk_config *config = config_of("  train: arrow:rows\n  reader_threads: 1\n", &m);
        rk_dataset *dataset = NULL;
        const rk_batch *batch;
        rk_alloc_fail_after(k, true);
        rk_status status = rk_dataset_open(config, "train", &dataset);
        if (status == RK_OK) status = rk_dataset_next(dataset, &batch);
        rk_alloc_fail_after(0, false);
        rk_dataset_free(dataset);
        rk_config_free(config);
        assert_true(m.n_open == 0 && m.n_arrays == 0 && m.n_schemas == 0);
        if (status == RK_OK) return;
        if (status != RK_NO_MEMORY) fail_msg("%s", rk_last_error());
        if (k > 40) k += 20; /* each fits anew */
    }
    fail_msg("memory was never enough");
}

int main(void) {
    assert_non_null(mkdtemp(directory));
    make_rows();
    long live = rk_alloc_live();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits), cmocka_unit_test(test_kept_rows),
                                       cmocka_unit_test(test_failures), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_no_memory)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    OK(rk_remove_tree(directory));
    return failed || rk_alloc_live() != live;
}
