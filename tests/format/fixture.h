/* Columns of random content, and their comparison. */
#ifndef RK_TESTS_FORMAT_FIXTURE_H
#define RK_TESTS_FORMAT_FIXTURE_H

#include "testing.h"

#include "base/memory.h"
#include "base/rng.h"
#include "format/columns.h"

static inline rk_span text_span(const char *text) {
    return (rk_span){text, strlen(text)};
}

/* The number below n that a test draws next. */
static inline int64_t draw(rk_rng *rng, uint64_t n) {
    return (int64_t)rk_rng_below(rng, n);
}

static inline rk_status add_random_value(rk_rng *rng, rk_column *column, int shape) {
    static const int64_t spans[] = {1, 2, 200, 60000, 4000000000, INT64_MAX};
    char text[64];
    int64_t number = draw(rng, (uint64_t)spans[shape % 6]) - (shape % 3 ? 0 : spans[shape % 6] / 2);
    if (column->type == RK_COLUMN_I64) return rk_column_add_i64(column, number);
    if (column->type == RK_COLUMN_F32) return rk_column_add_f32(column, (float)rk_rng_normal(rng));
    size_t n = (size_t)snprintf(text, sizeof text, shape % 2 ? "word-%lld" : "%lld",
                                (long long)(shape % 4 == 3 ? number % 50 : number));
    return rk_column_add_text(column, (rk_span){text, shape == 5 && number % 3 == 0 ? 0 : n});
}

/* Rows of any shape: constant, optional and many-valued columns, with and without weights. */
static inline rk_status fill_random(rk_rng *rng, int64_t n_rows, rk_columns *columns) {
    int shapes[16], counts[16], weights[16];
    for (int32_t c = 0; c < columns->n_columns; c++) {
        shapes[c] = (int)draw(rng, 6);
        counts[c] = (int)draw(rng, 4);
        weights[c] = draw(rng, 4) == 0;
    }
    for (int64_t r = 0; r < n_rows; r++) {
        for (int32_t c = 0; c < columns->n_columns; c++) {
            int64_t n = counts[c] == 0 ? 1 : counts[c] == 1 ? 3 : draw(rng, counts[c] == 2 ? 2 : 6);
            for (int64_t i = 0; i < n; i++) {
                RK_TRY(add_random_value(rng, &columns->columns[c], shapes[c]));
                if (weights[c]) RK_TRY(rk_column_add_weight(&columns->columns[c], (float)draw(rng, 100)));
            }
        }
        RK_TRY(rk_columns_end_row(columns));
    }
    return RK_OK;
}

static inline int same_column(const rk_column *a, const rk_column *b, int64_t n_rows) {
    size_t n = (size_t)a->n_values;
    if (a->n_values != b->n_values ||
        memcmp(a->offsets, b->offsets, (size_t)(n_rows + 1) * sizeof *a->offsets) != 0)
        return 0;
    if (n && (a->weights == NULL) != (b->weights == NULL)) return 0;
    if (n && a->weights && memcmp(a->weights, b->weights, n * sizeof *a->weights) != 0) return 0;
    if (a->type == RK_COLUMN_I64) return n == 0 || memcmp(a->i64, b->i64, n * sizeof *a->i64) == 0;
    if (a->type == RK_COLUMN_F32) return n == 0 || memcmp(a->f32, b->f32, n * sizeof *a->f32) == 0;
    for (int64_t v = 0; v < a->n_values; v++) {
        rk_span x = rk_column_text(a, v), y = rk_column_text(b, v);
        if (x.n_bytes != y.n_bytes || memcmp(x.data, y.data, x.n_bytes) != 0) return 0;
    }
    return 1;
}

static inline int same_columns(const rk_columns *a, const rk_columns *b) {
    if (a->n_rows != b->n_rows || !rk_columns_have_same_types(a, b)) return 0;
    for (int32_t c = 0; c < a->n_columns; c++)
        if (!same_column(&a->columns[c], &b->columns[c], a->n_rows)) return 0;
    return 1;
}

#endif
