/* Columns in memory, alone and of a stream, whose types, offsets, indices, lengths and missing buffers are
 * the input's: a batch of finite numbers and ids that there are, or an error. Buffers are as long as their
 * arrays say, to the byte; texts as far as offsets of 12 bits go. */
#include <math.h>
#include <sanitizer/lsan_interface.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "arrow_building.h"
#include "base/memory.h"
#include "data/data_config.h"
#include "data/source/source.h"
#include "data/transform/transforms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { N_COLUMNS = 5, MAX_LENGTH = 64, TEXT_BYTES = 1 << 12, MAX_BUFFERS = 64 };

static const char section_text[] =
    "train: x.csv\nmissing: ['?']\nlabels: [{name: y}]\n"
    "features: [{name: a, dense: true, log1p: true}, {name: b, column: a, bucketize: [0, 1]}, {name: c, "
    "hash: 9}, "
    "{name: d, identity: 100}, {name: e, hash: 7, separator: '|', weights: w, max_length: 3}]\n";
static const char *const names[N_COLUMNS + 1] = {"a", "c", "d", "e", "w", "y"};

static rk_yaml yaml;
static rk_data_section section;
static rk_transforms *transforms;
static rk_transform_workspace *workspace;

typedef struct input {
    const uint8_t *at, *end;
    void *buffers[MAX_BUFFERS];
    size_t n_buffers;
} input;

static uint8_t take(input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

static void *take_bytes(input *in, size_t n) {
    uint8_t *out = malloc(n ? n : 1);
    if (!out || in->n_buffers == MAX_BUFFERS) abort();
    for (size_t i = 0; i < n; i++) out[i] = take(in);
    return in->buffers[in->n_buffers++] = out;
}

static void *take_offsets(input *in, size_t n, bool wide) {
    void *offsets = take_bytes(in, n * (wide ? 8 : 4));
    for (size_t i = 0; i < n; i++) {
        int32_t *narrow = (int32_t *)offsets + i;
        int64_t *whole = (int64_t *)offsets + i;
        if (wide && *whole > 0) *whole &= TEXT_BYTES - 1;
        if (!wide && *narrow > 0) *narrow &= TEXT_BYTES - 1;
    }
    return offsets;
}

/* Views of no text or of one; lengths and offsets are mostly such as can be. */
static void set_text_view(input *in, size_t n, arrow_column *c) {
    static const int64_t text_bytes = TEXT_BYTES;
    int32_t *views = (int32_t *)(size_t)c->buffers[1];
    for (size_t i = 0; i < n; i++) {
        if (views[4 * i] > 0) views[4 * i] &= 31;
        if (views[4 * i + 3] > 0 && views[4 * i] > 12) views[4 * i + 3] &= TEXT_BYTES - 1;
    }
    c->array.n_buffers = 3;
    if (take(in) % 4 == 0) return;
    c->array.n_buffers = 4;
    c->buffers[2] = take_bytes(in, TEXT_BYTES);
    c->buffers[3] = &text_bytes;
}

/* Indices into the formats that may stand here: lists and dictionaries hold no lists. */
static void build(input *in, const char *name, bool flat, arrow_column *c, arrow_column *inner) {
    static const struct {
        const char *format;
        int bytes;
    } formats[] = {{"c", 1},     {"C", 1},   {"s", 2},   {"S", 2},    {"i", 4},   {"I", 4},    {"l", 8},
                   {"L", 8},     {"e", 2},   {"f", 4},   {"g", 8},    {"b", 0},   {"u", -4},   {"U", -8},
                   {"n", 0},     {"z", -4},  {"x", 8},   {"+l", -4},  {"+L", -8}, {"+w:3", 0}, {"+w:", 0},
                   {"+w:-1", 0}, {"vu", 16}, {"vz", 16}, {"+vl", -4}, {"+vL", -8}};
    size_t kind = take(in) % (sizeof formats / sizeof formats[0]);
    int64_t length = take(in) % MAX_LENGTH, offset = take(in) % 8;
    size_t n = (size_t)(length + offset);
    int bytes = formats[kind].bytes;
    bool is_list = formats[kind].format[0] == '+';
    const void *valid = take(in) % 2 ? take_bytes(in, (n + 7) / 8) : NULL;
    const void *values = bytes < 0 ? take_offsets(in, n + 1, bytes == -8)
                                   : take_bytes(in, bytes ? n * (size_t)bytes : (n + 7) / 8);
    const void *text = bytes < 0 && !is_list ? take_bytes(in, TEXT_BYTES) : NULL;
    arrow_set(c, name, formats[kind].format, length, valid, values, text);
    c->array.offset = offset;
    if (formats[kind].format[0] == 'v') set_text_view(in, n, c);
    if (is_list && formats[kind].format[1] == 'v') {
        c->buffers[2] = take_offsets(in, n, bytes == -8);
        c->array.n_buffers = 3;
    }
    if (flat) return;
    if (is_list) arrow_set_items(c, &inner[0]);
    if (is_list) build(in, "item", true, &inner[0], NULL);
    if (take(in) % 4) return;
    arrow_set_dictionary(is_list ? &inner[0] : c, &inner[1]);
    build(in, "", true, &inner[1], NULL);
}

/* The same columns as a stream of one array, or of none where a function of it fails. */
typedef struct given {
    arrow_table *table;
    uint8_t fails;
} given;

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
    const given *g = stream->private_data;
    *out = g->table->schema;
    return g->fails == 1;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
    given *g = stream->private_data;
    *out = g->table ? g->table->array : (struct ArrowArray){0};
    g->table = NULL;
    return g->fails == 2;
}

static void release(struct ArrowArrayStream *stream) {
    stream->release = NULL;
}

static int open_given(void *user, struct ArrowArrayStream *out) {
    *out = (struct ArrowArrayStream){get_schema, get_next, NULL, release, user};
    return ((given *)user)->fails == 3;
}

static volatile double sum_of_all;

/* Every value that reading gives is looked at, so that the address sanitizer sees where it stands. */
static void read_stream(given *g) {
    rk_arrow_opener opener = {(char *)(size_t) "x", open_given, g};
    rk_arrow_streams streams = {&opener, 1, 1};
    rk_data_section with_streams = section;
    with_streams.streams = &streams;
    const char *const path = "arrow:x";
    rk_source_options options = {.section = &with_streams, .paths = &path, .n_paths = 1};
    rk_source *source;
    const rk_chunk *chunk = NULL;
    double sum = 0;
    if (rk_source_open(&options, &source) != RK_OK) abort();
    while (rk_source_read_chunk(source, &chunk) == RK_OK && chunk->columns.n_rows > 0)
        for (int32_t c = 0; c < chunk->columns.n_columns; c++) {
            const rk_column *column = &chunk->columns.columns[c];
            for (int64_t v = 0; v < column->offsets[chunk->columns.n_rows]; v++)
                if (column->type != RK_COLUMN_TEXT)
                    sum += rk_column_number(column, v);
                else
                    for (size_t k = 0; k < rk_column_text(column, v).n_bytes; k++)
                        sum += rk_column_text(column, v).data[k];
        }
    rk_source_free(source);
    sum_of_all = sum;
}

/* Kept to the end: the leak checker does not see that pointers to empty arrays, which end their block, hold
 * it. */
static void prepare(void) {
    rk_fit_options options = {.directory = ""};
    __lsan_disable();
    if (rk_yaml_parse("d.yaml", section_text, sizeof section_text - 1, &yaml) != RK_OK ||
        rk_schema_bind(&rk_data_schema_table, &yaml, yaml.root, &section) != RK_OK ||
        rk_transforms_fit_section(&section, &yaml, &options, &transforms) != RK_OK ||
        rk_transform_workspace_create(transforms, &workspace) != RK_OK)
        abort();
    __lsan_enable();
}

static void check(const rk_batch *b) {
    const rk_data_schema *schema = rk_transforms_schema(transforms);
    for (int64_t i = 0; i < b->n * b->n_dense; i++)
        if (!isfinite(b->dense[i])) abort();
    for (int32_t f = 0; f < b->n_features; f++) {
        const rk_ids *ids = &b->features[f];
        int64_t n = ids->offsets ? ids->offsets[b->n] : b->n * ids->ids_per_sample;
        for (int64_t i = 0; i < n; i++)
            if (ids->ids[i] < 0 || ids->ids[i] >= schema->features[f].cardinality) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    input in = {.at = data, .end = data + n_bytes};
    arrow_column columns[N_COLUMNS + 1], inner[N_COLUMNS + 1][2], *list[N_COLUMNS + 1];
    arrow_table table;
    const rk_batch *batch;
    if (!transforms) prepare();
    int64_t n_columns = N_COLUMNS + take(&in) % 2, length = take(&in) % MAX_LENGTH, offset = take(&in) % 8;
    for (int c = 0; c < n_columns; c++) {
        build(&in, names[c], false, &columns[c], inner[c]);
        list[c] = &columns[c];
        if (take(&in) % 8 == 1) columns[c].buffers[take(&in) % 3] = NULL;
    }
    arrow_set_table(&table, list, n_columns, length);
    table.array.offset = offset;
    if (rk_transforms_apply(transforms, &table.schema, &table.array, workspace, &batch) == RK_OK)
        check(batch);
    read_stream(&(given){&table, take(&in)});
    for (size_t b = 0; b < in.n_buffers; b++) free(in.buffers[b]);
    return 0;
}
