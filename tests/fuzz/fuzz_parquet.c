/* Rows of a Parquet file read at once against the same rows read a few at a time: both fail, or both give the
 * same. The corpus is tests/golden/parquet. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/parquet/parquet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MOST_ROWS = 256, MOST_GROUPS = 4, MOST_COLUMNS = 24 };

static bool is_same_value(const rk_column *a, int64_t i, const rk_column *b, int64_t k) {
    switch (a->type) {
        case RK_COLUMN_I64:
            return a->i64[i] == b->i64[k];
        case RK_COLUMN_F32:
            return memcmp(&a->f32[i], &b->f32[k], sizeof *a->f32) == 0;
        case RK_COLUMN_F64:
            return memcmp(&a->f64[i], &b->f64[k], sizeof *a->f64) == 0;
        default: {
            rk_span x = rk_column_text(a, i), y = rk_column_text(b, k);
            return x.n_bytes == y.n_bytes && memcmp(x.data, y.data, x.n_bytes) == 0;
        }
    }
}

/* b: the rows of a from `first` on. */
static void compare(const rk_column *a, int64_t first, const rk_column *b, int64_t n) {
    for (int64_t row = 0; row < n; row++) {
        int64_t i = a->offsets[first + row], k = b->offsets[row];
        if (a->offsets[first + row + 1] - i != b->offsets[row + 1] - k) abort();
        for (; k < b->offsets[row + 1]; i++, k++)
            if (!is_same_value(a, i, b, k)) abort();
    }
}

static void read_column(const rk_parquet *file, int64_t group, int32_t c, rk_parquet_memory *memory) {
    const rk_parquet_column *column = rk_parquet_column_at(file, c);
    rk_columns whole = {0}, part = {0};
    const char *name = column->name;
    int64_t n = rk_parquet_group_rows(file, group);
    rk_parquet_rows rows = {.group = group, .n = n < MOST_ROWS ? n : MOST_ROWS};
    if (rk_columns_init(&whole, 1, &name, &column->type) != RK_OK ||
        rk_columns_init(&part, 1, &name, &column->type) != RK_OK)
        abort();
    if (rk_parquet_read(file, c, &rows, memory, whole.columns) == RK_OK)
        for (int64_t first = 0; first < rows.n; first += 37) {
            rk_parquet_rows few = {
                .group = group, .first = first, .n = rows.n - first < 37 ? rows.n - first : 37};
            if (rk_parquet_read(file, c, &few, memory, part.columns) == RK_OK)
                compare(whole.columns, first, part.columns, few.n);
        }
    rk_columns_release(&whole);
    rk_columns_release(&part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_parquet *file;
    if (rk_parquet_open_memory("f.parquet", data, n_bytes, &file) != RK_OK) return 0;
    rk_parquet_memory memory = {0};
    for (int64_t g = 0; g < rk_parquet_n_groups(file) && g < MOST_GROUPS; g++)
        for (int32_t c = 0; c < rk_parquet_n_columns(file) && c < MOST_COLUMNS; c++)
            read_column(file, g, c, &memory);
    rk_parquet_memory_release(&memory);
    rk_parquet_free(file);
    return 0;
}
