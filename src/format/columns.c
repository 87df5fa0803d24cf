#include "format/columns.h"

#include <string.h>

#include "base/memory.h"
#include "base/text/find_text.h"

_Static_assert(sizeof(rk_text_place) == sizeof(int64_t) && sizeof(double) == sizeof(int64_t),
               "values of all types but f32 take 8 bytes (rk_column_repeat_row)");

const char *rk_column_type_name(rk_column_type type) {
    static const char *const names[] = {"text", "i64", "f32", "f64"};
    return names[type];
}

/* Room for `need` elements. */
static rk_status reserve_elements(void *array, int64_t *capacity, int64_t need, size_t bytes) {
    if (need <= *capacity) return RK_OK;
    int64_t wanted = *capacity + *capacity / 2;
    if (wanted < need) wanted = need;
    if (wanted < 64) wanted = 64;
    RK_TRY(rk_realloc((size_t)wanted, bytes, array));
    *capacity = wanted;
    return RK_OK;
}

static rk_status column_init(rk_column *column, const char *name, rk_column_type type) {
    *column = (rk_column){.type = type, .per_row = -1};
    RK_TRY(rk_strdup(name, &column->name));
    RK_TRY(reserve_elements(&column->offsets, &column->rows_capacity, 64, sizeof *column->offsets));
    column->offsets[0] = 0;
    return RK_OK;
}

rk_status rk_columns_init(rk_columns *columns, int32_t n_columns, const char *const *names,
                          const rk_column_type *types) {
    RK_AUTO(rk_columns_release) rk_columns made = {0};
    RK_TRY(rk_alloc((size_t)n_columns, sizeof *made.columns, &made.columns));
    made.n_columns = n_columns;
    for (int32_t c = 0; c < n_columns; c++)
        RK_TRY(column_init(&made.columns[c], names[c], types ? types[c] : RK_COLUMN_TEXT));
    *columns = made;
    made = (rk_columns){0};
    return RK_OK;
}

rk_status rk_columns_init_like(rk_columns *columns, const rk_columns *like) {
    RK_AUTOFREE const char **names = NULL;
    RK_AUTOFREE rk_column_type *types = NULL;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)like->n_columns, names), RK_ARRAY((size_t)like->n_columns, types)));
    for (int32_t c = 0; c < like->n_columns; c++) {
        names[c] = like->columns[c].name;
        types[c] = like->columns[c].type;
    }
    return rk_columns_init(columns, like->n_columns, names, types);
}

/* Where the values of a column of numbers are. */
static void **values_of_number_column(rk_column *column) {
    return column->type == RK_COLUMN_I64   ? (void **)&column->i64
           : column->type == RK_COLUMN_F32 ? (void **)&column->f32
                                           : (void **)&column->f64;
}

static void drop_borrowed_values(rk_column *column) {
    if (!column->is_borrowed) return;
    *values_of_number_column(column) = column->own;
    column->is_borrowed = false;
    column->n_values = 0;
}

void rk_columns_release(rk_columns *columns) {
    for (int32_t c = 0; c < columns->n_columns; c++) {
        rk_column *column = &columns->columns[c];
        drop_borrowed_values(column);
        RK_FREE_ALL(column->name, column->offsets, column->i64, column->f32, column->f64, column->places,
                    column->text_memory, column->weights);
    }
    rk_free(columns->columns);
    *columns = (rk_columns){0};
}

int64_t rk_columns_bytes(const rk_columns *columns) {
    int64_t bytes = 0;
    for (int32_t c = 0; c < columns->n_columns; c++)
        bytes += (columns->n_rows + columns->columns[c].n_values) * (int64_t)sizeof(int64_t) +
                 (int64_t)columns->columns[c].n_text_bytes;
    return bytes;
}

void rk_columns_clear(rk_columns *columns) {
    columns->n_rows = columns->rows_room = 0;
    for (int32_t c = 0; c < columns->n_columns; c++) {
        drop_borrowed_values(&columns->columns[c]);
        columns->columns[c].n_values = 0;
        columns->columns[c].per_row = -1;
        columns->columns[c].packed.data = NULL;
        columns->columns[c].n_text_bytes = 0;
        rk_free(columns->columns[c].weights);
        columns->columns[c].weights = NULL;
        columns->columns[c].weights_capacity = 0;
    }
}

int32_t rk_columns_find(const rk_columns *columns, const char *name) {
    return (int32_t)RK_POSITION_BY(name, name, columns->columns, columns->n_columns);
}

/* A value without a weight, in a column that has weights, counts as 1. */
static rk_status end_appended_value(rk_column *column) {
    if (column->weights) {
        RK_TRY(reserve_elements(&column->weights, &column->weights_capacity, column->n_values + 1,
                                sizeof *column->weights));
        column->weights[column->n_values] = 1;
    }
    column->n_values++;
    return RK_OK;
}

rk_status rk_column_add_text(rk_column *column, rk_span value) {
    size_t begin = column->n_text_bytes, n_bytes = value.n_bytes;
    RK_FAIL_IF(n_bytes > UINT32_MAX - begin, RK_UNSUPPORTED, "column '%s': 4 GiB of text in one piece",
               column->name);
    RK_TRY(reserve_elements(&column->places, &column->values_capacity, column->n_values + 1,
                            sizeof *column->places));
    RK_TRY(reserve_elements(&column->text_memory, &column->text_capacity, (int64_t)(begin + n_bytes) + 1, 1));
    if (n_bytes) memcpy(column->text_memory + begin, value.data, n_bytes);
    column->text = column->text_memory;
    column->places[column->n_values] = (rk_text_place){(uint32_t)begin, (uint32_t)n_bytes};
    column->n_text_bytes = begin + n_bytes;
    return end_appended_value(column);
}

rk_status rk_column_add_i64(rk_column *column, int64_t value) {
    RK_TRY(reserve_elements(&column->i64, &column->values_capacity, column->n_values + 1, sizeof value));
    column->i64[column->n_values] = value;
    return end_appended_value(column);
}

rk_status rk_column_add_f32(rk_column *column, float value) {
    RK_TRY(reserve_elements(&column->f32, &column->values_capacity, column->n_values + 1, sizeof value));
    column->f32[column->n_values] = value;
    return end_appended_value(column);
}

rk_status rk_column_add_weight(rk_column *column, float weight) {
    if (!column->weights) {
        RK_TRY(
            reserve_elements(&column->weights, &column->weights_capacity, column->n_values, sizeof weight));
        for (int64_t i = 0; i < column->n_values; i++) column->weights[i] = 1;
    }
    column->weights[column->n_values - 1] = weight;
    return RK_OK;
}

static rk_status reserve_for_next_row(rk_columns *columns) {
    int64_t room = INT64_MAX;
    for (int32_t c = 0; c < columns->n_columns; c++) {
        rk_column *column = &columns->columns[c];
        RK_TRY(reserve_elements(&column->offsets, &column->rows_capacity, columns->n_rows + 2,
                                sizeof *column->offsets));
        column->alike_rows = 0;
        room = column->rows_capacity - 1 < room ? column->rows_capacity - 1 : room;
    }
    columns->rows_room = room;
    return RK_OK;
}

rk_status rk_columns_end_row(rk_columns *columns) {
    if (columns->n_rows + 1 > columns->rows_room) RK_TRY(reserve_for_next_row(columns));
    columns->n_rows++;
    for (int32_t c = 0; c < columns->n_columns; c++)
        columns->columns[c].offsets[columns->n_rows] = columns->columns[c].n_values;
    return RK_OK;
}

static rk_status append_values_of_row(const rk_column *from, int64_t begin, int64_t end, rk_column *to) {
    for (int64_t v = begin; v < end; v++) {
        if (from->type == RK_COLUMN_TEXT) RK_TRY(rk_column_add_text(to, rk_column_text(from, v)));
        if (from->type == RK_COLUMN_I64) RK_TRY(rk_column_add_i64(to, from->i64[v]));
        if (from->type == RK_COLUMN_F32) RK_TRY(rk_column_add_f32(to, from->f32[v]));
        if (from->weights) RK_TRY(rk_column_add_weight(to, from->weights[v]));
    }
    return RK_OK;
}

rk_status rk_columns_append(rk_columns *to, const rk_columns *rows) {
    for (int64_t row = 0; row < rows->n_rows; row++) {
        for (int32_t c = 0; c < rows->n_columns; c++)
            RK_TRY(append_values_of_row(&rows->columns[c], rows->columns[c].offsets[row],
                                        rows->columns[c].offsets[row + 1], &to->columns[c]));
        RK_TRY(rk_columns_end_row(to));
    }
    return RK_OK;
}

void rk_columns_drop_unended_row(rk_columns *columns) {
    for (int32_t c = 0; c < columns->n_columns; c++)
        columns->columns[c].n_values = columns->columns[c].offsets[columns->n_rows];
}

int64_t rk_column_values_per_row(const rk_column *column, int64_t first, int64_t n) {
    if (column->per_row >= 0) return column->per_row;
    const int64_t *offsets = column->offsets + first;
    int64_t k = offsets[1] - offsets[0], differ = 0;
    for (int64_t i = 1; i < n; i++) differ |= offsets[i + 1] - offsets[i] - k;
    return differ ? -1 : k;
}

rk_status rk_column_reserve(rk_column *column, int64_t n_rows, int64_t n_values, int64_t n_text_bytes) {
    drop_borrowed_values(column);
    RK_TRY(reserve_elements(&column->offsets, &column->rows_capacity, n_rows + 1, sizeof *column->offsets));
    if (n_rows > 0) column->alike_rows = 0;
    switch (column->type) {
        case RK_COLUMN_I64:
            return reserve_elements(&column->i64, &column->values_capacity, n_values, sizeof *column->i64);
        case RK_COLUMN_F32:
            return reserve_elements(&column->f32, &column->values_capacity, n_values, sizeof *column->f32);
        case RK_COLUMN_F64:
            return reserve_elements(&column->f64, &column->values_capacity, n_values, sizeof *column->f64);
        default:
            RK_TRY(reserve_elements(&column->places, &column->values_capacity, n_values,
                                    sizeof *column->places));
            RK_TRY(reserve_elements(&column->text_memory, &column->text_capacity, n_text_bytes, 1));
            column->text = column->text_memory;
            return RK_OK;
    }
}

rk_status rk_column_repeat_row(rk_column *column, int64_t n) {
    const char *text = column->text;
    const void *borrowed = column->is_borrowed ? *values_of_number_column(column) : NULL;
    int64_t each = column->n_values;
    RK_FAIL_IF(each > 0 && n > INT64_MAX / 8 / each, RK_UNSUPPORTED,
               "column '%s': %lld values in each of %lld rows", column->name, (long long)each, (long long)n);
    RK_TRY(rk_column_reserve(column, n, n * each, 0));
    column->text = text;
    char *values = column->type == RK_COLUMN_I64   ? (char *)column->i64
                   : column->type == RK_COLUMN_F32 ? (char *)column->f32
                   : column->type == RK_COLUMN_F64 ? (char *)column->f64
                                                   : (char *)column->places;
    size_t n_bytes =
        (size_t)each * (column->type == RK_COLUMN_F32 ? sizeof *column->f32 : sizeof *column->i64);
    if (borrowed && n && each) memcpy(values, borrowed, n_bytes);
    for (int64_t i = 1; i < n && each; i++) memcpy(values + (size_t)i * n_bytes, values, n_bytes);
    for (int64_t i = 0; i <= n; i++) column->offsets[i] = i * each;
    column->n_values = n * each;
    return RK_OK;
}

void rk_column_set_type(rk_column *column, rk_column_type type) {
    drop_borrowed_values(column);
    column->n_values = 0;
    if (column->type == type) return;
    RK_FREE_ALL(column->i64, column->f32, column->f64, column->places);
    column->i64 = NULL;
    column->f32 = NULL;
    column->f64 = NULL;
    column->places = NULL;
    column->values_capacity = 0;
    column->type = type;
}

rk_status rk_column_set_empty_rows(rk_column *column, int64_t n_rows) {
    RK_TRY(rk_column_reserve(column, n_rows, 0, 0));
    column->n_values = 0;
    column->per_row = -1;
    memset(column->offsets, 0, (size_t)(n_rows + 1) * sizeof *column->offsets);
    return RK_OK;
}

rk_status rk_column_borrow_values(rk_column *column, const void *values, int64_t n_rows, int64_t each) {
    drop_borrowed_values(column);
    if (column->alike_each != each || column->alike_rows < n_rows) {
        RK_TRY(
            reserve_elements(&column->offsets, &column->rows_capacity, n_rows + 1, sizeof *column->offsets));
        for (int64_t i = 0; i <= n_rows; i++) column->offsets[i] = i * each;
        column->alike_each = each;
        column->alike_rows = n_rows;
    }
    void **numbers = values_of_number_column(column);
    column->own = *numbers;
    *numbers = (void *)(size_t)values;
    column->is_borrowed = true;
    column->per_row = each;
    column->n_values = n_rows * each;
    return RK_OK;
}

rk_status rk_column_reserve_weights(rk_column *column, int64_t n_values) {
    return reserve_elements(&column->weights, &column->weights_capacity, n_values, sizeof *column->weights);
}

rk_status rk_columns_unpack_ints(rk_columns *columns) {
    for (int32_t c = 0; c < columns->n_columns; c++) {
        rk_column *column = &columns->columns[c];
        if (!column->packed.data) continue;
        RK_TRY(
            reserve_elements(&column->i64, &column->values_capacity, column->n_values, sizeof *column->i64));
        rk_unpack_bits(&column->packed, column->n_values, column->i64);
        column->packed.data = NULL;
    }
    return RK_OK;
}

bool rk_columns_have_same_types(const rk_columns *a, const rk_columns *b) {
    if (a->n_columns != b->n_columns) return false;
    for (int32_t c = 0; c < a->n_columns; c++)
        if (a->columns[c].type != b->columns[c].type || strcmp(a->columns[c].name, b->columns[c].name) != 0)
            return false;
    return true;
}
