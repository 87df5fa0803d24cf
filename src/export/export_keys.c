/* Dynamic tables: their keys in ascending order, and rows in the order of the keys. Behind them is the row
 * that all keys without one share, or several. */
#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "export/export_internal.h"

typedef struct placed_key {
    int64_t key, row;
} placed_key;

static rk_status read_placed_keys(rk_exporting *x, const rk_stored_tensor *stored, placed_key *out) {
    enum { KEYS_AT_ONCE = 32768 };
    RK_AUTOFREE int64_t *keys = NULL;
    RK_TRY(rk_alloc(KEYS_AT_ONCE, sizeof *keys, &keys));
    for (int64_t first = 0; first < stored->n_rows; first += KEYS_AT_ONCE) {
        int64_t n = rk_min_i64(stored->n_rows - first, KEYS_AT_ONCE);
        RK_TRY(rk_stored_tensor_read(&x->tensors, stored, first, n, keys));
        for (int64_t i = 0; i < n; i++) out[first + i] = (placed_key){keys[i], first + i};
    }
    return RK_OK;
}

static rk_status sort_keys_of_table(rk_exporting *x, const rk_stored_tensor *stored, rk_exported_keys *out) {
    RK_AUTOFREE placed_key *placed = NULL;
    size_t n = (size_t)stored->n_rows;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, placed), RK_ARRAY(n, out->keys), RK_ARRAY(n, out->order)));
    RK_TRY(read_placed_keys(x, stored, placed));
    if (n) qsort(placed, n, sizeof *placed, rk_compare_i64);
    for (size_t i = 0; i < n; i++) {
        RK_FAIL_IF(i && placed[i].key == placed[i - 1].key, RK_BAD_DATA,
                   "tensor '%s': the key %lld is there twice", stored->name, (long long)placed[i].key);
        out->keys[i] = placed[i].key;
        out->order[i] = placed[i].row;
    }
    return RK_OK;
}

const rk_exported_keys *rk_export_get_keys(const rk_exporting *x, const char *table) {
    for (size_t i = 0; i < x->n_keyed; i++)
        if (strcmp(x->keyed[i]->table, table) == 0) return x->keyed[i];
    return NULL;
}

rk_status rk_export_load_keys(rk_exporting *x, const char *table, const rk_exported_keys **out) {
    const rk_stored_tensor *stored = rk_stored_tensors_find_of_table(&x->tensors, table, "keys");
    *out = rk_export_get_keys(x, table);
    if (!stored || *out) return RK_OK;
    const rk_stored_tensor *rows = rk_stored_tensors_find_of_table(&x->tensors, table, "rows"),
                           *missing = rk_stored_tensors_find_of_table(&x->tensors, table, "oov_rows");
    RK_FAIL_IF(!rows || rows->n_rows != stored->n_rows ||
                   (missing && (missing->n_rows < 1 || missing->n_columns != rows->n_columns ||
                                missing->type != rows->type)),
               RK_BAD_DATA, "table '%s' does not have a row for each of its keys", table);
    rk_exported_keys *keys;
    RK_TRY(rk_reserve_one_more(&x->keyed, x->n_keyed, &x->keyed_capacity, sizeof(rk_exported_keys *)));
    RK_TRY(rk_alloc(1, sizeof *keys, &keys));
    x->keyed[x->n_keyed++] = keys;
    keys->n = stored->n_rows;
    keys->missing = missing;
    RK_TRY(rk_strdup(table, &keys->table));
    RK_TRY(sort_keys_of_table(x, stored, keys));
    *out = keys;
    return RK_OK;
}

void rk_export_free_keys(rk_exporting *x) {
    for (size_t i = 0; i < x->n_keyed; i++)
        RK_FREE_ALL(x->keyed[i]->table, x->keyed[i]->keys, x->keyed[i]->order, x->keyed[i]);
    rk_free(x->keyed);
}

rk_status rk_export_read_rows_in_key_order(rk_exporting *x, const rk_exported_tensor *t, int64_t first,
                                           int64_t n, char *out) {
    const rk_exported_keys *keys = t->keyed;
    size_t row_bytes = (size_t)t->stored->n_columns * rk_dtype_bytes(t->stored->type);
    int64_t last = first + n, last_key = rk_min_i64(last, keys->n);
    if (rk_exported_tensor_is_keys(t)) {
        memcpy(out, keys->keys + first, (size_t)n * sizeof *keys->keys);
        return RK_OK;
    }
    if (last_key > first)
        RK_TRY(rk_stored_tensor_gather(&x->tensors, t->stored, keys->order + first, last_key - first, out));
    if (last == last_key) return RK_OK;
    int64_t first_shared = rk_max_i64(first, keys->n) - keys->n;
    char *row = out + (size_t)(keys->n + first_shared - first) * row_bytes;
    if (keys->missing)
        return rk_stored_tensor_read(&x->tensors, keys->missing, first_shared, last - keys->n - first_shared,
                                     row);
    memset(row, 0, row_bytes);
    return RK_OK;
}
