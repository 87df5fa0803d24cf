/* Columns of the Arrow C data interface over a test's own arrays. */
#ifndef RK_TEST_ARROW_BUILDING_H
#define RK_TEST_ARROW_BUILDING_H

#include <reckon/arrow.h>

enum { MAX_ARROW_COLUMNS = 48 };

typedef struct arrow_column {
    struct ArrowSchema schema, *schema_child;
    struct ArrowArray array, *array_child;
    const void *buffers[4];
} arrow_column;

typedef struct arrow_table {
    struct ArrowSchema schema, *schema_children[MAX_ARROW_COLUMNS];
    struct ArrowArray array, *array_children[MAX_ARROW_COLUMNS];
    const void *no_bits;
} arrow_table;

static inline void arrow_release_schema(struct ArrowSchema *schema) {
    schema->release = NULL;
}
static inline void arrow_release_array(struct ArrowArray *array) {
    array->release = NULL;
}

/* valid: bits or NULL. data: numbers, or offsets; text: bytes of utf8. */
static inline void arrow_set(arrow_column *c, const char *name, const char *format, int64_t n,
                             const void *valid, const void *data, const void *text) {
    *c = (arrow_column){.schema = {.format = format, .name = name, .release = arrow_release_schema},
                        .array = {.length = n,
                                  .null_count = valid ? -1 : 0,
                                  .n_buffers = text || *format == 'u' || *format == 'U' ? 3 : 2,
                                  .release = arrow_release_array},
                        .buffers = {valid, data, text}};
    c->array.buffers = c->buffers;
}

/* utf8_view of 16 bytes a value, over one text of *text_bytes bytes. */
static inline void arrow_set_text_views(arrow_column *c, const char *name, int64_t n, const void *valid,
                                        const void *views, const char *text, const int64_t *text_bytes) {
    arrow_set(c, name, "vu", n, valid, views, text);
    c->array.n_buffers = 4;
    c->buffers[3] = text_bytes;
}

/* format: "+vl", "+vL". */
static inline void arrow_set_list_views(arrow_column *c, const char *name, const char *format, int64_t n,
                                        const void *valid, const void *offsets, const void *sizes) {
    arrow_set(c, name, format, n, valid, offsets, sizes);
    c->array.n_buffers = 3;
}

static inline void arrow_set_items(arrow_column *list, arrow_column *items) {
    list->schema_child = &items->schema;
    list->array_child = &items->array;
    list->schema.children = &list->schema_child;
    list->array.children = &list->array_child;
    list->schema.n_children = list->array.n_children = 1;
}

static inline void arrow_set_dictionary(arrow_column *indices, arrow_column *words) {
    indices->schema.dictionary = &words->schema;
    indices->array.dictionary = &words->array;
}

static inline void arrow_set_table(arrow_table *t, arrow_column *const *columns, int64_t n_columns,
                                   int64_t n) {
    *t = (arrow_table){.schema = {.format = "+s", .name = "", .release = arrow_release_schema},
                       .array = {.length = n, .n_buffers = 1, .release = arrow_release_array}};
    for (int64_t c = 0; c < n_columns; c++) {
        t->schema_children[c] = &columns[c]->schema;
        t->array_children[c] = &columns[c]->array;
    }
    t->schema.children = t->schema_children;
    t->array.children = t->array_children;
    t->array.buffers = &t->no_bits;
    t->schema.n_children = t->array.n_children = n_columns;
}

#endif
