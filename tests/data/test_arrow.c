/* Columns in memory give the batches that a file with the same values gives, to the bit. */
#include "testing.h"

#include <unistd.h>

#include "arrow_building.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "data/section.h"
#include "data/transform/transforms_apply.h"

static char directory[] = "/tmp/reckon_arrow_XXXXXX";

#include "data/written_file.h"

static void assert_same_ids(const rk_ids *a, const rk_ids *b, int64_t n) {
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t begin_a = a->offsets ? a->offsets[i] : i * a->ids_per_sample,
                end_a = a->offsets ? a->offsets[i + 1] : begin_a + a->ids_per_sample,
                begin_b = b->offsets ? b->offsets[i] : i * b->ids_per_sample,
                end_b = b->offsets ? b->offsets[i + 1] : begin_b + b->ids_per_sample;
        assert_int_equal(begin_a, begin_b);
        assert_int_equal(end_a, end_b);
        at = end_a;
    }
    assert_memory_equal(a->ids, b->ids, (size_t)at * sizeof *a->ids);
    assert_int_equal(a->weights != NULL, b->weights != NULL);
    if (a->weights) assert_memory_equal(a->weights, b->weights, (size_t)at * sizeof *a->weights);
}

static void assert_same(const rk_batch *a, const rk_batch *b) {
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->n_dense, b->n_dense);
    assert_int_equal(a->n_features, b->n_features);
    if (a->n_dense) assert_memory_equal(a->dense, b->dense, (size_t)(a->n * a->n_dense) * sizeof(float));
    for (int32_t f = 0; f < a->n_features; f++) assert_same_ids(&a->features[f], &b->features[f], a->n);
    assert_int_equal(a->labels != NULL, b->labels != NULL);
    if (a->labels) assert_memory_equal(a->labels, b->labels, (size_t)(a->n * a->n_tasks) * sizeof(float));
    assert_int_equal(a->groups != NULL, b->groups != NULL);
    if (a->groups) assert_memory_equal(a->groups, b->groups, (size_t)a->n * sizeof *a->groups);
}

static const char section_text[] =
    "train: a.csv\n"
    "missing: ['?']\n"
    "labels: [{name: y, column: label}]\n"
    "group: user\n"
    "joins: [{path: shops.csv, key: shop}]\n"
    "features:\n"
    "  - {name: word, vocabulary: {}}\n"
    "  - {name: rare, column: word, vocabulary: {min_count: 2, oov: 0}}\n"
    "  - {name: user, hash: 100}\n"
    "  - {name: day, identity: 10, identity_offset: -2}\n"
    "  - {name: price, dense: true, log1p: true, normalize: true}\n"
    "  - {name: bucket, column: price, bucketize: [0.5, 2, 3.25]}\n"
    "  - {name: text, column: price, hash: 1000}\n"
    "  - {name: tags, separator: '|', hash: 50, weights: shares}\n"
    "  - {name: both, cross: [word, day], hash: 64}\n"
    "  - {name: town, hash: 9}\n";
static const char rows_text[] =
    "label,user,word,day,price,tags,shares,shop\n"
    "1,7,red,1,0.25,a|b,1|0.5,1\n"
    "0,-3,,-2,3.25,,,2\n"
    "0,12345678901,red,0,0.1,c,2,1\n"
    "1,7,?,7,7,a|bb|c,1|2|3,3\n"
    "0,0,blue,,0.001,b,0.25,2\n";
enum { N = 5 };

/* The same rows; day and users as numbers, words and tags in other ways. */
static const uint8_t first_bits[] = {0x1d, 0}, day_bits[] = {0x0f}, tag_bits[] = {0x1d};
static const float labels[N] = {1, 0, 0, 1, 0}, shares[] = {1, 0.5f, 2, 1, 2, 3, 0.25f};
static const int64_t users[N] = {7, -3, 12345678901, 7, 0};
static const int8_t days[N] = {1, -2, 0, 7, 99};
static const double prices[N] = {0.25, 3.25, 0.1, 7, 0.001};
static const int32_t word_ends[] = {0, 3, 3, 6, 7, 11}, tag_ends[] = {0, 2, 2, 3, 6, 7},
                     letter_ends[] = {0, 1, 2, 3, 4, 6, 7, 8};
static const uint16_t shops[N] = {1, 2, 1, 3, 2};

typedef struct columns {
    arrow_column label, user, word, day, price, tags, letters, shares, share, shop, unused;
    arrow_table table;
} columns;

static void build(columns *c) {
    arrow_set(&c->label, "label", "f", N, NULL, labels, NULL);
    arrow_set(&c->user, "user", "l", N, NULL, users, NULL);
    arrow_set(&c->word, "word", "u", N, first_bits, word_ends, "redred?blue");
    arrow_set(&c->day, "day", "c", N, day_bits, days, NULL);
    arrow_set(&c->price, "price", "g", N, NULL, prices, NULL);
    arrow_set(&c->tags, "tags", "+l", N, tag_bits, tag_ends, NULL);
    arrow_set(&c->letters, "item", "u", 7, NULL, letter_ends, "abcabbcb");
    arrow_set_items(&c->tags, &c->letters);
    arrow_set(&c->shares, "shares", "+l", N, NULL, tag_ends, NULL);
    arrow_set(&c->share, "item", "f", 7, NULL, shares, NULL);
    arrow_set_items(&c->shares, &c->share);
    arrow_set(&c->shop, "shop", "S", N, NULL, shops, NULL);
    arrow_set(&c->unused, "when", "tsu:UTC", N, NULL, users, NULL);
    arrow_column *all[] = {&c->unused, &c->shop, &c->shares, &c->tags, &c->price,
                           &c->day,    &c->word, &c->user,   &c->label};
    arrow_set_table(&c->table, all, 9, N);
}

typedef struct fixture {
    opened data;
    rk_transform_workspace *workspace;
    const rk_batch *wanted; /* of the file */
} fixture;

static void open_all(fixture *f) {
    write_file("a.csv", rows_text);
    write_file("shops.csv", "shop,town\n1,Ulm\n2,Bonn\n");
    OK(open_section(&f->data, directory, section_text));
    rk_dataset_options options = {.directory = directory, .split = "train", .batch_size = 100};
    OK(rk_dataset_create(&f->data.section, f->data.transforms, &options, &f->data.dataset));
    OK(rk_dataset_next(f->data.dataset, &f->wanted));
    OK(rk_transform_workspace_create(f->data.transforms, &f->workspace));
}

static void close_all(fixture *f) {
    rk_transform_workspace_free(f->workspace);
    close_section(&f->data);
    assert_int_equal(rk_alloc_live(), 0);
}

static const rk_batch *apply(fixture *f, const columns *c) {
    const rk_batch *batch;
    OK(rk_transforms_apply(f->data.transforms, &c->table.schema, &c->table.array, f->workspace, &batch));
    return batch;
}

static void test_same_as_a_file(void **state) {
    (void)state;
    fixture f;
    columns c;
    open_all(&f);
    build(&c);
    assert_same(apply(&f, &c), f.wanted);
    const int64_t *unknown = rk_transform_workspace_unknown(f.workspace);
    assert_int_equal(unknown[0], 0);
    assert_int_equal(unknown[1], 1); /* blue, which stands there once */
    arrow_set(&c.word, "word", "u", N, NULL, word_ends, "rod\0\0\0?blue");
    (void)apply(&f, &c);
    assert_int_equal(rk_transform_workspace_unknown(f.workspace)[0], 2);
    close_all(&f);
}

/* Every way to say the same, one after the other through one workspace. */
static void test_types(void **state) {
    (void)state;
    fixture f;
    columns c;
    arrow_column words;
    open_all(&f);
    build(&c);
    static const uint8_t indices[N] = {2, 0, 2, 1, 3};
    static const int64_t ends[] = {5, 5, 6, 9, 13};
    arrow_set(&words, "", "U", 4, (const uint8_t[]){0x0e}, ends, "_____?redblue");
    arrow_set(&c.word, "word", "C", N, NULL, indices, NULL);
    arrow_set_dictionary(&c.word, &words);
    assert_same(apply(&f, &c), f.wanted);
    static const int32_t wide_days[N] = {1, -2, 0, 7, 0};
    static const char *const formats[] = {"i", "l"};
    static const int64_t wider_days[N] = {1, -2, 0, 7, 0};
    const void *values[] = {wide_days, wider_days};
    for (int i = 0; i < 2; i++) {
        arrow_set(&c.day, "day", formats[i], N, day_bits, values[i], NULL);
        assert_same(apply(&f, &c), f.wanted);
    }
    static const int32_t user_ends[] = {0, 1, 3, 14, 15, 16};
    arrow_set(&c.user, "user", "z", N, NULL, user_ends, "7-31234567890170");
    assert_same(apply(&f, &c), f.wanted);
    static const int32_t price_ends[] = {0, 4, 8, 11, 12, 17};
    arrow_set(&c.price, "price", "u", N, NULL, price_ends, "0.253.250.170.001");
    const rk_batch *batch = apply(&f, &c);
    assert_memory_equal(batch->dense, f.wanted->dense, N * sizeof(float));
    static const uint8_t label_bits[] = {0x09};
    arrow_set(&c.label, "label", "b", N, NULL, label_bits, NULL);
    assert_memory_equal(apply(&f, &c)->labels, f.wanted->labels, N * sizeof(float));
    static const uint16_t halves[N] = {0x3c00, 0, 0, 0x3c00, 0};
    arrow_set(&c.label, "label", "e", N, NULL, halves, NULL);
    assert_memory_equal(apply(&f, &c)->labels, f.wanted->labels, N * sizeof(float));
    close_all(&f);
}

#define REFUSED(status, message)                                                                        \
    FAILS(rk_transforms_apply(f.data.transforms, &c.table.schema, &c.table.array, f.workspace, &batch), \
          status, message);                                                                             \
    build(&c)
#define NO_ARRAY "\nhint: it is no array as the Arrow C data interface has them"

typedef struct text_view {
    int32_t n;
    char text[4];
    int32_t number, offset; /* or the text goes on */
} text_view;
_Static_assert(sizeof(text_view) == 16, "as Arrow has it");

/* Texts and lists that stand anywhere, in any order; nulls anywhere. */
static void test_views(void **state) {
    (void)state;
    fixture f;
    columns c;
    const rk_batch *batch;
    open_all(&f);
    build(&c);
    static const text_view words[N] = {
        {3, "red", 0, 0}, {-7, "", 9, 9}, {3, "red", 0, 0}, {1, "?", 0, 0}, {4, "blue", 0, 0}};
    static const int64_t text_bytes = 30;
    static const char text[] = "___0.1000000000000_3.2500000000";
    arrow_set_text_views(&c.word, "word", N, first_bits, words, NULL, &text_bytes);
    c.word.array.n_buffers = 3; /* no text is long */
    assert_same(apply(&f, &c), f.wanted);
    static const text_view prices_text[N] = {{4, "0.25", 0, 0},
                                             {12, "3.25", 0x30303030, 0x30303030},
                                             {15, "0.10", 0, 3},
                                             {1, "7", 0, 0},
                                             {5, "0.00", '1', 0}};
    arrow_set_text_views(&c.price, "price", N, NULL, prices_text, text, &text_bytes);
    assert_memory_equal(apply(&f, &c)->dense, f.wanted->dense, N * sizeof(float));
    build(&c);
    static const int32_t begins[N] = {2, -5, 1, 4, 0}, sizes[N] = {2, 77, 1, 3, 1};
    static const float moved_shares[] = {0.25f, 2, 1, 0.5f, 1, 2, 3};
    static const int32_t moved_ends[] = {0, 1, 2, 3, 4, 5, 7, 8};
    static const int64_t wide_begins[N] = {2, 0, 1, 4, 0}, wide_sizes[N] = {2, 0, 1, 3, 1};
    c.letters.buffers[1] = moved_ends;
    c.letters.buffers[2] = "bcababbc";
    c.share.buffers[1] = moved_shares;
    arrow_set_list_views(&c.tags, "tags", "+vl", N, tag_bits, begins, sizes);
    arrow_set_items(&c.tags, &c.letters);
    arrow_set_list_views(&c.shares, "shares", "+vL", N, NULL, wide_begins, wide_sizes);
    arrow_set_items(&c.shares, &c.share);
    assert_same(apply(&f, &c), f.wanted);
    static const int32_t beyond[N] = {2, 0, 1, 5, 0};
    c.tags.buffers[1] = beyond;
    REFUSED(RK_INVALID_ARGUMENT, "column 'tags': offsets beyond its values" NO_ARRAY);
    static const text_view bad[][N] = {
        {{13, "0.10", 1, 3}}, {{13, "0.10", 0, 18}}, {{13, "0.10", 0, -1}}, {{-1, "", 0, 0}}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        arrow_set_text_views(&c.price, "price", N, NULL, bad[i], text, &text_bytes);
        REFUSED(RK_INVALID_ARGUMENT, i < 3 ? "column 'price': a text beyond its buffer" NO_ARRAY
                                           : "column 'price': a text of a negative length" NO_ARRAY);
    }
    close_all(&f);
}

/* Slices: an offset of the struct, one of a child, and of a list's items. */
static void test_offsets(void **state) {
    (void)state;
    fixture f;
    columns c;
    open_all(&f);
    build(&c);
    const rk_batch *whole = apply(&f, &c);
    float price[N];
    memcpy(price, whole->dense, sizeof price);
    c.table.array.offset = 2;
    c.table.array.length = 2;
    const rk_batch *batch = apply(&f, &c);
    assert_int_equal(batch->n, 2);
    assert_memory_equal(batch->dense, price + 2, 2 * sizeof(float));
    assert_int_equal(batch->features[6].offsets[2], 4); /* c, and a, bb, c */
    assert_memory_equal(batch->features[6].weights, ((const float[]){2, 1, 2, 3}), 4 * sizeof(float));
    build(&c);
    static const double more_prices[N + 1] = {999, 0.25, 3.25, 0.1, 7, 0.001};
    static const int8_t more_days[] = {0, 0, 0, 1, -2, 0, 7, 99};
    static const uint8_t more_bits[] = {0x78};
    static const float more_shares[] = {9, 1, 0.5f, 2, 1, 2, 3, 0.25f};
    c.price.buffers[1] = more_prices;
    c.price.array.offset = 1;
    c.day.buffers[0] = more_bits;
    c.day.buffers[1] = more_days;
    c.day.array.offset = 3;
    c.share.buffers[1] = more_shares;
    c.share.array.offset = 1;
    assert_same(apply(&f, &c), f.wanted);
    close_all(&f);
}

static void test_without_labels_and_rows(void **state) {
    (void)state;
    fixture f;
    columns c;
    open_all(&f);
    build(&c);
    c.table.schema.n_children = c.table.array.n_children = 8;
    assert_null(apply(&f, &c)->labels);
    c.table.array.length = 0;
    assert_int_equal(apply(&f, &c)->n, 0);
    build(&c);
    assert_same(apply(&f, &c), f.wanted);
    close_all(&f);
}

/* More values on the way than the last offset says, when nothing was read before that left room for them. */
static void test_rise_and_fall(void **state) {
    (void)state;
    static const int32_t back[] = {0, 7, 0, 0, 0, 0};
    fixture f;
    columns c;
    const rk_batch *batch;
    open_all(&f);
    build(&c);
    c.tags.buffers[1] = back;
    REFUSED(RK_INVALID_ARGUMENT, "column 'tags': its offsets do not ascend" NO_ARRAY);
    close_all(&f);
}

static void test_refusals(void **state) {
    (void)state;
    fixture f;
    columns c;
    arrow_column words;
    const rk_batch *batch;
    open_all(&f);
    build(&c);
    c.word.schema.name = "words";
    REFUSED(RK_BAD_DATA, "there is no column 'word'\nhint: is 'words' meant?");
    c.word.schema.format = "tdD";
    REFUSED(RK_BAD_DATA,
            "column 'word': the Arrow type 'tdD' is not supported\nhint: cast it to integers, floats, bool, "
            "utf8, or a list of those");
    static const int8_t bad_days[N] = {1, -2, 20, 7, 99};
    c.day.buffers[1] = bad_days;
    REFUSED(RK_BAD_DATA,
            "row 2: column 'day': id 22 is not within 0 to 9\nhint: set the feature's 'identity' to a "
            "larger number, or use 'hash'");
    static const uint64_t large[N] = {0, 0, UINT64_MAX, 0, 0};
    arrow_set(&c.user, "user", "L", N, NULL, large, NULL);
    REFUSED(RK_BAD_DATA,
            "row 2: column 'user': 18446744073709551615 is more than a 64-bit integer with a sign\n"
            "hint: a column that only features with 'key' read may have it");
    static const int32_t falling[] = {0, 3, 2, 6, 7, 11}, negative[] = {-1, 3, 3, 6, 7, 11},
                         far[] = {0, 2, 2, 3, 6, 8}, falling_tags[] = {0, 3, 2, 6, 7, 7};
    c.word.buffers[0] = NULL;
    c.word.buffers[1] = falling;
    REFUSED(RK_INVALID_ARGUMENT, "column 'word': its offsets do not ascend" NO_ARRAY);
    c.word.buffers[1] = negative;
    REFUSED(RK_INVALID_ARGUMENT, "column 'word': its offsets do not ascend" NO_ARRAY);
    c.tags.buffers[1] = falling_tags;
    REFUSED(RK_INVALID_ARGUMENT, "column 'tags': its offsets do not ascend" NO_ARRAY);
    c.tags.buffers[1] = far;
    REFUSED(RK_INVALID_ARGUMENT, "column 'tags': offsets beyond its values" NO_ARRAY);
    c.price.array.length = N - 1;
    REFUSED(RK_INVALID_ARGUMENT, "column 'price': fewer rows than the struct" NO_ARRAY);
    c.price.array.offset = -1;
    REFUSED(RK_INVALID_ARGUMENT, "column 'price': a negative or impossible length or offset" NO_ARRAY);
    c.price.array.release = NULL;
    REFUSED(RK_INVALID_ARGUMENT, "column 'price': the array was released" NO_ARRAY);
    c.price.buffers[1] = NULL;
    REFUSED(RK_INVALID_ARGUMENT, "column 'price': a buffer is missing" NO_ARRAY);
    c.price.array.n_buffers = 1;
    REFUSED(RK_INVALID_ARGUMENT, "column 'price': too few buffers" NO_ARRAY);
    c.table.schema.format = "f";
    REFUSED(RK_INVALID_ARGUMENT, "columns come as one struct ('+s') with a child each, not as 'f'");
    static const int8_t outside[N] = {0, 1, 2, -1, 0};
    arrow_set(&words, "", "u", 3, NULL, word_ends, "redred");
    arrow_set(&c.word, "word", "c", N, NULL, outside, NULL);
    arrow_set_dictionary(&c.word, &words);
    REFUSED(RK_INVALID_ARGUMENT, "column 'word': an index that its dictionary has not" NO_ARRAY);
    const uint8_t no_second[] = {0x1d};
    c.table.no_bits = no_second;
    c.table.array.null_count = 1;
    REFUSED(RK_BAD_DATA, "row 1 is null as a whole");
    assert_same(apply(&f, &c), f.wanted); /* nothing of all that is left */
    close_all(&f);
}

static void test_schema(void **state) {
    (void)state;
    fixture f;
    struct ArrowSchema schema;
    open_all(&f);
    OK(rk_transforms_input_schema(f.data.transforms, &schema));
    static const char *const wanted[][2] = {{"word", "u"}, {"user", "u"},   {"day", "l"},  {"price", "f"},
                                            {"tags", "u"}, {"shares", "f"}, {"shop", "u"}, {"label", "f"}};
    assert_string_equal(schema.format, "+s");
    assert_int_equal(schema.n_children, 8);
    for (int i = 0; i < 8; i++) {
        bool found = false;
        for (int k = 0; k < 8; k++)
            found |= strcmp(schema.children[k]->name, wanted[i][0]) == 0 &&
                     strcmp(schema.children[k]->format, wanted[i][1]) == 0;
        if (!found) fail_msg("no column '%s' of '%s'", wanted[i][0], wanted[i][1]);
    }
    assert_string_equal(schema.children[7]->name, "label");
    schema.release(&schema);
    assert_null(schema.release);
    close_all(&f);
}

static rk_status apply_once(void) {
    opened data;
    rk_transform_workspace *workspace = NULL;
    columns c;
    const rk_batch *batch;
    build(&c);
    rk_status status = open_section(&data, directory, section_text);
    if (status == RK_OK) status = rk_transform_workspace_create(data.transforms, &workspace);
    if (status == RK_OK)
        status = rk_transforms_apply(data.transforms, &c.table.schema, &c.table.array, workspace, &batch);
    rk_transform_workspace_free(workspace);
    close_section(&data);
    return status;
}

static void test_no_memory(void **state) {
    (void)state;
    rk_status status;
    int n = 0;
    do {
        rk_alloc_fail_after(++n, true);
        status = apply_once();
        rk_alloc_fail_after(0, false);
        if (status != RK_OK && status != RK_NO_MEMORY) fail_msg("allocation %d: %s", n, rk_last_error());
        assert_int_equal(rk_alloc_live(), 0);
    } while (status != RK_OK);
    assert_true(n > 50);
}

/* A whole number is the same key in a text and in a column of any type of numbers. */
static void test_keys_of_any_type(void **state) {
    (void)state;
    enum { K = 4 };
    static const float zeros[K] = {0}, narrow[K] = {7, 7, -3, 16777216};
    static const double wide[K] = {7, 7, -3, 16777216};
    static const int32_t whole[K] = {7, 7, -3, 16777216}, ends[] = {0, 3, 6, 10, 18};
    static const struct {
        const char *format, *text;
        const void *data;
    } types[] = {
        {"f", NULL, narrow}, {"g", NULL, wide}, {"i", NULL, whole}, {"u", "7.0+07-3.016777216", ends}};
    opened data;
    const rk_batch *batch;
    arrow_column y, k;
    arrow_table table;
    rk_transform_workspace *workspace;
    write_file("keys.csv", "y,k\n0,7\n0,007\n0,-3.00\n0,+16777216\n");
    OK(open_section(&data, directory,
                    "train: keys.csv\nlabels: [{name: y}]\nfeatures: [{name: k, key: true}]"));
    OK(rk_dataset_create(&data.section, data.transforms,
                         &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = K},
                         &data.dataset));
    OK(rk_dataset_next(data.dataset, &batch));
    for (int i = 0; i < K; i++) assert_int_equal(batch->features[0].ids[i], whole[i]);
    OK(rk_transform_workspace_create(data.transforms, &workspace));
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        arrow_set(&y, "y", "f", K, NULL, zeros, NULL);
        arrow_set(&k, "k", types[t].format, K, NULL, types[t].data, types[t].text);
        arrow_column *all[] = {&y, &k};
        arrow_set_table(&table, all, 2, K);
        OK(rk_transforms_apply(data.transforms, &table.schema, &table.array, workspace, &batch));
        for (int i = 0; i < K; i++) assert_int_equal(batch->features[0].ids[i], whole[i]);
    }
    rk_transform_workspace_free(workspace);
    close_section(&data);
}

int main(void) {
    if (!mkdtemp(directory)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_a_file), cmocka_unit_test(test_types),
        cmocka_unit_test(test_offsets),        cmocka_unit_test(test_without_labels_and_rows),
        cmocka_unit_test(test_rise_and_fall),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_schema),         cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_views),          cmocka_unit_test(test_keys_of_any_type),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return rk_remove_tree(directory) != RK_OK || failed;
}
