#include "server/request/request_rows.h"

#include <string.h>

#include "base/memory.h"

/* What a column is as Arrow's structs: utf8, int64 or float64, or a list of it. */
typedef struct column_structs {
    struct ArrowSchema schema, item_schema, *item_schema_pointer;
    struct ArrowArray array, items, *items_pointer;
    const void *buffers[2], *item_buffers[3];
} column_structs;

/* Columns side by side. */
typedef struct table_structs {
    struct ArrowSchema schema, **schemas; /* [n_columns] */
    struct ArrowArray array, **arrays;    /* [n_columns] */
    const void *no_buffer;
} table_structs;

typedef struct rk_request_structs {
    table_structs rows, context;
    column_structs *columns; /* [n_columns] */
} rk_request_structs;

/* Nothing is the receiver's. */
static void ignore_schema_release(struct ArrowSchema *schema) {
    schema->release = NULL;
}
static void ignore_array_release(struct ArrowArray *array) {
    array->release = NULL;
}

rk_status rk_request_rows_init(rk_request_rows *rows, const struct ArrowSchema *schema, int64_t n_required) {
    size_t n = (size_t)schema->n_children;
    *rows = (rk_request_rows){0};
    RK_TRY(rk_alloc(n, sizeof *rows->columns, &rows->columns));
    rows->n_columns = n;
    for (size_t c = 0; c < n; c++) {
        rk_request_column *column = &rows->columns[c];
        column->name = schema->children[c]->name;
        column->required = (int64_t)c < n_required;
        column->is_text = true;
        RK_TRY(rk_reserve(&column->ends, &column->ends_capacity, 64, sizeof *column->ends));
        RK_TRY(rk_reserve(&column->first, &column->first_capacity, 1, sizeof *column->first));
        column->ends[0] = column->first[0] = 0;
    }
    rk_request_structs *t;
    RK_TRY(rk_alloc(1, sizeof *t, &t));
    rows->structs = t;
    return RK_ALLOC_ALL(RK_ARRAY(n, t->rows.schemas), RK_ARRAY(n, t->rows.arrays),
                        RK_ARRAY(n, t->context.schemas), RK_ARRAY(n, t->context.arrays),
                        RK_ARRAY(n, t->columns));
}

void rk_request_rows_release(rk_request_rows *rows) {
    for (size_t c = 0; c < rows->n_columns; c++) {
        rk_request_column *column = &rows->columns[c];
        RK_FREE_ALL(column->ends, column->numbers, column->nulls, column->first, column->lists,
                    column->bits[0], column->bits[1]);
        rk_buffer_release(&column->text);
    }
    rk_request_structs *t = rows->structs;
    if (t) RK_FREE_ALL(t->rows.schemas, t->rows.arrays, t->context.schemas, t->context.arrays, t->columns);
    RK_FREE_ALL(t, rows->columns);
}

/* Clients give columns in the same order again and again: the one after the last found is tried first. */
rk_request_column *rk_request_rows_find(rk_request_rows *rows, rk_span name) {
    for (size_t tried = 0; tried < rows->n_columns; tried++) {
        rk_request_column *column = &rows->columns[rows->expected];
        rows->expected = (rows->expected + 1) % rows->n_columns;
        if (rk_span_equal(name, column->name)) return column;
    }
    return NULL;
}

void rk_request_column_set_reading(rk_request_column *column, rk_column_reading reading) {
    column->reading = reading;
    column->is_text = reading == RK_READS_TEXTS;
}

static rk_span format_number(const rk_request_column *c, rk_request_number number,
                             char scratch[RK_NUMBER_BYTES]) {
    if (c->reading == RK_READS_INTEGERS) return rk_format_i64(number.i64, scratch);
    bool is_f32 = c->reading == RK_READS_F32 && (double)(float)number.f64 == number.f64;
    return is_f32 ? rk_format_f32((float)number.f64, scratch) : rk_format_f64(number.f64, scratch);
}

rk_span rk_request_get_value(const rk_request_column *c, int32_t v, char scratch[RK_NUMBER_BYTES]) {
    if (!c->is_text) return format_number(c, c->numbers[v], scratch);
    if (!c->text.data) return (rk_span){"", 0};
    return (rk_span){c->text.data + c->ends[v], (size_t)(c->ends[v + 1] - c->ends[v])};
}

rk_span rk_request_get_first_value(const rk_request_column *c, size_t row, char scratch[RK_NUMBER_BYTES]) {
    int32_t v = c->first[row];
    return v == c->first[row + 1] || c->nulls[v] ? (rk_span){"", 0} : rk_request_get_value(c, v, scratch);
}

rk_status rk_request_add_row(rk_request_column *c, bool list) {
    RK_TRY(rk_reserve(&c->lists, &c->lists_capacity, c->n_rows + 1, sizeof *c->lists));
    RK_TRY(rk_reserve(&c->first, &c->first_capacity, c->n_rows + 2, sizeof *c->first));
    c->lists[c->n_rows++] = list;
    c->n_lists += list;
    c->first[c->n_rows] = (int32_t)c->n_values;
    c->given = true;
    return RK_OK;
}

static rk_status end_added_value(rk_request_column *c, bool null) {
    RK_TRY(rk_reserve(&c->nulls, &c->nulls_capacity, c->n_values + 1, sizeof *c->nulls));
    c->nulls[c->n_values++] = null;
    c->first[c->n_rows] = (int32_t)c->n_values;
    return RK_OK;
}

/* Where value v ends, whose text is appended. */
static rk_status append_text(rk_request_column *c, size_t v, rk_span text) {
    RK_TRY(rk_reserve(&c->ends, &c->ends_capacity, v + 2, sizeof *c->ends));
    RK_FAIL_IF(text.n_bytes > (size_t)INT32_MAX - c->text.n_bytes, RK_BAD_DATA,
               "column '%s': the values of a request have 2 GiB of text or more", c->name);
    rk_buffer_append(&c->text, text.data, text.n_bytes);
    RK_TRY(c->text.status);
    c->ends[v + 1] = (int32_t)c->text.n_bytes;
    return RK_OK;
}

/* Numbers become their texts once another text stands among them. */
static rk_status make_column_text(rk_request_column *c) {
    char scratch[RK_NUMBER_BYTES];
    for (size_t v = 0; v < c->n_values && !c->is_text; v++)
        RK_TRY(append_text(c, v, c->nulls[v] ? (rk_span){"", 0} : format_number(c, c->numbers[v], scratch)));
    c->is_text = true;
    return RK_OK;
}

static rk_status add_number(rk_request_column *c, rk_request_number number, bool null) {
    RK_TRY(rk_reserve(&c->numbers, &c->numbers_capacity, c->n_values + 1, sizeof *c->numbers));
    c->numbers[c->n_values] = number;
    return end_added_value(c, null);
}

rk_status rk_request_add_text(rk_request_column *c, rk_span text) {
    if (!c->is_text) RK_TRY(make_column_text(c));
    RK_TRY(append_text(c, c->n_values, text));
    return end_added_value(c, false);
}

rk_status rk_request_add_null(rk_request_column *c) {
    if (!c->is_text) return add_number(c, (rk_request_number){0}, true);
    RK_TRY(append_text(c, c->n_values, (rk_span){"", 0}));
    return end_added_value(c, true);
}

/* Another text of the same number would be other text. */
static bool is_plain_integer(rk_span text, int64_t *out) {
    return text.n_bytes <= 18 && rk_parse_i64(text, out) && (*out != 0 || text.n_bytes == 1);
}

rk_status rk_request_add_json_number(rk_request_column *c, rk_span text) {
    rk_request_number number;
    bool fits = !c->is_text && (c->reading == RK_READS_INTEGERS ? is_plain_integer(text, &number.i64)
                                                                : rk_parse_f64(text, &number.f64));
    return fits ? add_number(c, number, false) : rk_request_add_text(c, text);
}

rk_status rk_request_add_i64(rk_request_column *c, int64_t number) {
    char scratch[RK_NUMBER_BYTES];
    if (!c->is_text)
        return add_number(c,
                          c->reading == RK_READS_INTEGERS ? (rk_request_number){.i64 = number}
                                                          : (rk_request_number){.f64 = (double)number},
                          false);
    return rk_request_add_text(c, rk_format_i64(number, scratch));
}

rk_status rk_request_add_u64(rk_request_column *c, uint64_t number) {
    char scratch[RK_NUMBER_BYTES];
    if (number <= INT64_MAX) return rk_request_add_i64(c, (int64_t)number);
    return rk_request_add_json_number(c, rk_format_u64(number, scratch));
}

static bool takes_floats(const rk_request_column *c) {
    return !c->is_text && c->reading != RK_READS_INTEGERS;
}

rk_status rk_request_add_f32(rk_request_column *c, float number) {
    char scratch[RK_NUMBER_BYTES];
    if (!takes_floats(c)) return rk_request_add_json_number(c, rk_format_f32(number, scratch));
    double wide = c->reading == RK_READS_F32 ? (double)number : rk_f64_of_f32_text(number);
    return add_number(c, (rk_request_number){.f64 = wide}, false);
}

rk_status rk_request_add_f64(rk_request_column *c, double number) {
    char scratch[RK_NUMBER_BYTES];
    if (!takes_floats(c)) return rk_request_add_json_number(c, rk_format_f64(number, scratch));
    return add_number(c, (rk_request_number){.f64 = number}, false);
}

rk_status rk_request_fill_missing(rk_request_column *c, size_t n_rows) {
    bool given = c->given;
    while (c->n_rows < n_rows) {
        RK_TRY(rk_request_add_row(c, false));
        RK_TRY(rk_request_add_null(c));
    }
    c->given = given;
    return RK_OK;
}

static rk_status repeat_value(rk_request_column *c, int32_t v) {
    if (!c->is_text) return add_number(c, c->numbers[v], c->nulls[v]);
    if (c->nulls[v]) return rk_request_add_null(c);
    size_t n_bytes = (size_t)(c->ends[v + 1] - c->ends[v]);
    rk_buffer_extend(&c->text, n_bytes); /* so that the copy's source stays where it is */
    RK_TRY(c->text.status);
    c->text.n_bytes -= n_bytes;
    return rk_request_add_text(c, (rk_span){c->text.data + c->ends[v], n_bytes});
}

rk_status rk_request_repeat_row(rk_request_column *c, size_t row, size_t n_rows) {
    while (c->n_rows < n_rows) {
        RK_TRY(rk_request_add_row(c, c->lists[row]));
        for (int32_t v = c->first[row]; v < c->first[row + 1]; v++) RK_TRY(repeat_value(c, v));
    }
    return RK_OK;
}

void rk_request_rows_begin(rk_request_rows *rows) {
    for (size_t c = 0; c < rows->n_columns; c++) rows->columns[c].given = false;
}

rk_status rk_request_rows_end(rk_request_rows *rows, size_t n_rows) {
    for (size_t c = 0; c < rows->n_columns; c++) {
        rk_request_column *column = &rows->columns[c];
        RK_FAIL_IF(column->required && !column->given && n_rows > column->n_rows, RK_BAD_DATA,
                   "column '%s' is missing\nhint: a value that is not known is null", column->name);
        if (!column->is_context) RK_TRY(rk_request_fill_missing(column, n_rows));
    }
    return RK_OK;
}

void rk_request_rows_truncate(rk_request_rows *rows, size_t n_rows) {
    for (size_t i = 0; i < rows->n_columns; i++) {
        rk_request_column *c = &rows->columns[i];
        c->is_context = false;
        while (c->n_rows > n_rows) c->n_lists -= c->lists[--c->n_rows];
        c->n_values = (size_t)c->first[c->n_rows];
        if (c->n_values == 0) c->is_text = c->reading == RK_READS_TEXTS;
        c->text.n_bytes = c->is_text ? (size_t)c->ends[c->n_values] : 0;
        c->text.status = RK_OK;
    }
}

/* A bit a value, 1 where it is there; NULL: all are. *n_null counts the others. */
static rk_status make_validity_bits(rk_request_column *c, int which, size_t n, const uint8_t **bits,
                                    int64_t *n_null) {
    size_t n_bytes = (n + 7) / 8;
    RK_TRY(rk_reserve(&c->bits[which], &c->bits_capacity[which], n_bytes + 1, 1));
    uint8_t *to = c->bits[which];
    memset(to, 0, n_bytes);
    *n_null = 0;
    for (size_t i = 0; i < n; i++) {
        bool null = which ? c->nulls[i] : !c->lists[i] && c->nulls[c->first[i]];
        to[i / 8] |= (uint8_t)(!null << i % 8);
        *n_null += null;
    }
    *bits = *n_null ? to : NULL;
    return RK_OK;
}

static struct ArrowSchema make_arrow_schema(const char *format, const char *name) {
    return (struct ArrowSchema){
        .format = format, .name = name, .flags = ARROW_FLAG_NULLABLE, .release = ignore_schema_release};
}

static rk_status make_arrow_column(rk_request_column *c, size_t n_rows, column_structs *s) {
    const uint8_t *bits;
    int64_t n_null;
    bool list = c->n_lists > 0;
    RK_TRY(make_validity_bits(c, 1, (size_t)c->first[n_rows], &bits, &n_null));
    s->item_buffers[0] = bits;
    s->item_buffers[1] = c->is_text ? (const void *)c->ends : c->numbers;
    s->item_buffers[2] = c->text.data ? c->text.data : "";
    s->items = (struct ArrowArray){.length = c->first[n_rows],
                                   .null_count = n_null,
                                   .n_buffers = c->is_text ? 3 : 2,
                                   .buffers = s->item_buffers,
                                   .release = ignore_array_release};
    const char *format = c->is_text ? "u" : c->reading == RK_READS_INTEGERS ? "l" : "g";
    s->item_schema = make_arrow_schema(format, list ? "item" : c->name);
    if (!list) {
        s->schema = s->item_schema;
        s->array = s->items;
        return RK_OK;
    }
    RK_TRY(make_validity_bits(c, 0, n_rows, &bits, &n_null));
    s->buffers[0] = bits;
    s->buffers[1] = c->first;
    s->items_pointer = &s->items;
    s->item_schema_pointer = &s->item_schema;
    s->schema = make_arrow_schema("+l", c->name);
    s->schema.n_children = 1;
    s->schema.children = &s->item_schema_pointer;
    s->array = (struct ArrowArray){.length = (int64_t)n_rows,
                                   .null_count = n_null,
                                   .n_buffers = 2,
                                   .n_children = 1,
                                   .buffers = s->buffers,
                                   .children = &s->items_pointer,
                                   .release = ignore_array_release};
    return RK_OK;
}

static bool has_values(const rk_request_column *c) {
    bool any = false;
    for (size_t v = 0; v < c->n_values && !any; v++) any = !c->nulls[v];
    return any || c->n_lists > 0;
}

static void add_column_to_table(table_structs *t, column_structs *column) {
    int64_t n = t->schema.n_children++;
    t->schemas[n] = &column->schema;
    t->arrays[n] = &column->array;
}

static rk_request_table finish_arrow_table(table_structs *t, size_t n_rows) {
    int64_t n = t->schema.n_children;
    t->schema = (struct ArrowSchema){.format = "+s",
                                     .name = "",
                                     .n_children = n,
                                     .children = t->schemas,
                                     .release = ignore_schema_release};
    t->array = (struct ArrowArray){.length = (int64_t)n_rows,
                                   .n_buffers = 1,
                                   .n_children = n,
                                   .buffers = &t->no_buffer,
                                   .children = t->arrays,
                                   .release = ignore_array_release};
    return (rk_request_table){&t->schema, &t->array};
}

rk_status rk_request_rows_to_arrow(rk_request_rows *rows, size_t n_rows, rk_request_table *out,
                                   rk_request_table *context) {
    rk_request_structs *t = rows->structs;
    t->rows.schema.n_children = t->context.schema.n_children = 0;
    for (size_t c = 0; c < rows->n_columns; c++) {
        rk_request_column *column = &rows->columns[c];
        if (!column->required && !has_values(column)) continue;
        RK_TRY(make_arrow_column(column, column->is_context ? 1 : n_rows, &t->columns[c]));
        add_column_to_table(column->is_context ? &t->context : &t->rows, &t->columns[c]);
    }
    *out = finish_arrow_table(&t->rows, n_rows);
    *context = t->context.schema.n_children ? finish_arrow_table(&t->context, 1) : (rk_request_table){0};
    return RK_OK;
}
