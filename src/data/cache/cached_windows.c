#include "data/cache/cached_windows.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/memory.h"
#include "batch/narrow_integers.h"
#include "data/cache/cached_transforms.h"

enum { PIECE = 4096 /* integers that are narrowed at once */ };

void rk_window_list_release(rk_window_list *list) {
    for (size_t i = 0; i < list->n; i++) rk_window_release(&list->windows[i]);
    rk_free(list->windows);
    *list = (rk_window_list){0};
}

rk_status rk_cached_windows_key(const rk_window_settings *m, char *const *paths, size_t n_paths,
                                rk_cache_key *out) {
    RK_AUTO(rk_cache_key_release) rk_cache_key key = {0};
    uint64_t fitted;
    RK_TRY(rk_cache_key_init(rk_transforms_section(m->transforms), m->directory, &key));
    RK_TRY(rk_transforms_hash(m->transforms, &fitted));
    if (key.folder) RK_TRY(rk_cache_inputs_add(&key.inputs, m->directory, paths, n_paths));
    rk_buffer_printf(&key.settings,
                     "what: windows of %s\nrows: %" PRId64 "\nshuffles: %d\norder: %" PRIu64
                     "\nfitted: %016" PRIx64 "\n",
                     m->split, m->window_rows, m->shuffles, m->seed, fitted);
    RK_TRY(key.settings.status);
    *out = key;
    key = (rk_cache_key){0};
    return RK_OK;
}

static rk_status save_integers(const int64_t *values, size_t n, rk_cache_writer *w) {
    int width = rk_narrowest_integer_width(values, (int64_t)n, 0);
    uint64_t piece[PIECE];
    RK_TRY(rk_cache_write_u64(w, (uint64_t)width));
    for (size_t first = 0; first < n; first += PIECE) {
        size_t count = n - first < PIECE ? n - first : PIECE;
        rk_narrow_integers(piece, width, values + first, (int64_t)count, 0);
        RK_TRY(rk_cache_write(w, piece, count * (size_t)width));
    }
    return RK_OK;
}

static rk_status load_integers(rk_cache_reader *r, size_t n, int64_t *out) {
    uint64_t width, piece[PIECE];
    RK_TRY(rk_cache_read_u64(r, &width));
    if (width > INT_MAX || !rk_integer_width_is_valid((int)width))
        return rk_cache_damaged_error(r, "integers have a length that there is not");
    for (size_t first = 0; first < n; first += PIECE) {
        size_t count = n - first < PIECE ? n - first : PIECE;
        RK_TRY(rk_cache_read(r, piece, count * width));
        rk_widen_integers(out + first, (int)width, piece, (int64_t)count);
    }
    return RK_OK;
}

static rk_status save_ids(const rk_id_list *list, bool weighted, rk_cache_writer *w) {
    RK_TRY(rk_cache_write_u64(w, (uint64_t)list->ids_per_sample));
    RK_TRY(rk_cache_write_u64(w, list->n_ids));
    if (list->ids_per_sample < 0) RK_TRY(save_integers(list->offsets, (size_t)list->n + 1, w));
    RK_TRY(save_integers(list->ids, list->n_ids, w));
    return weighted ? rk_cache_write(w, list->weights, list->n_ids * sizeof(float)) : RK_OK;
}

static rk_status save_window(const rk_window *window, rk_cache_writer *w) {
    const rk_data_schema *schema = window->schema;
    size_t n = (size_t)window->n_rows;
    RK_TRY(rk_cache_write_u64(w, (uint64_t)window->n_rows));
    RK_TRY(rk_cache_write(w, window->dense, n * (size_t)schema->n_dense * sizeof(float)));
    if (window->has.labels)
        RK_TRY(rk_cache_write(w, window->labels, n * (size_t)schema->n_tasks * sizeof(float)));
    if (window->has.weights) RK_TRY(rk_cache_write(w, window->sample_weights, n * sizeof(float)));
    if (window->has.groups) RK_TRY(rk_cache_write(w, window->groups, n * sizeof(int64_t)));
    if (window->has.timestamps) RK_TRY(rk_cache_write(w, window->timestamps, n * sizeof(int64_t)));
    for (int32_t f = 0; f < schema->n_features; f++)
        RK_TRY(save_ids(&window->features[f], schema->features[f].weighted, w));
    return RK_OK;
}

static rk_status save_windows(const void *context, rk_cache_writer *w) {
    const rk_window_list *list = context;
    RK_TRY(rk_cache_write_u64(w, list->n));
    for (size_t i = 0; i < list->n; i++) RK_TRY(save_window(&list->windows[i], w));
    return RK_OK;
}

void rk_cached_windows_store(rk_cache_key *key, const rk_window_list *list) {
    rk_cache_store(key, save_windows, list);
}

/* What is read into, and how much of it there may be. */
typedef struct window_load {
    const rk_window_settings *manner;
    uint64_t max_bytes, n_bytes;
    rk_window_list list;
} window_load;

/* n elements are to follow that stand in the file with `least` bytes each or more, and in memory with `bytes`
 * each. */
static rk_status check_elements_fit(window_load *load, const rk_cache_reader *r, uint64_t n, uint64_t least,
                                    uint64_t bytes) {
    if (n > r->n_left / least) return rk_cache_damaged_error(r, "it is shorter than its numbers say");
    load->n_bytes += n * bytes;
    RK_FAIL_IF(load->n_bytes > load->max_bytes, RK_UNSUPPORTED,
               "'%s': its rows take more than data.cache_bytes", r->path);
    return RK_OK;
}

static rk_status load_offsets(window_load *load, rk_cache_reader *r, uint64_t n_ids, rk_id_list *out) {
    size_t n = (size_t)out->n + 1;
    RK_TRY(check_elements_fit(load, r, n, 1, sizeof *out->offsets));
    RK_TRY(rk_reserve(&out->offsets, &out->offsets_capacity, n, sizeof *out->offsets));
    RK_TRY(load_integers(r, n, out->offsets));
    bool ascend = out->offsets[0] == 0 && out->offsets[n - 1] == (int64_t)n_ids;
    for (size_t i = 1; i < n; i++) ascend &= out->offsets[i] >= out->offsets[i - 1];
    return ascend ? RK_OK : rk_cache_damaged_error(r, "offsets do not ascend");
}

/* k ids in each of n samples, or with -1 by offsets. */
static bool is_valid_id_count(int64_t k, int64_t n, uint64_t n_ids) {
    if (k <= 0) return k == -1 || (k == 0 && n_ids == 0);
    return (uint64_t)k <= n_ids && n_ids % (uint64_t)k == 0 && n_ids / (uint64_t)k == (uint64_t)n;
}

static rk_status load_ids(window_load *load, rk_cache_reader *r, int64_t n, bool weighted, rk_id_list *out) {
    uint64_t ids_per_sample, n_ids;
    RK_TRY(rk_cache_read_u64(r, &ids_per_sample));
    RK_TRY(rk_cache_read_u64(r, &n_ids));
    if (!is_valid_id_count((int64_t)ids_per_sample, n, n_ids))
        return rk_cache_damaged_error(r, "samples have another number of ids than there are");
    out->n = n;
    out->ids_per_sample = (int64_t)ids_per_sample;
    if (out->ids_per_sample < 0) RK_TRY(load_offsets(load, r, n_ids, out));
    RK_TRY(check_elements_fit(load, r, n_ids, 1, sizeof *out->ids + (weighted ? sizeof *out->weights : 0)));
    RK_TRY(rk_id_list_reserve(out, n_ids, weighted));
    out->n_ids = n_ids;
    RK_TRY(load_integers(r, n_ids, out->ids));
    return weighted ? rk_cache_read(r, out->weights, n_ids * sizeof *out->weights) : RK_OK;
}

static rk_status load_window(window_load *load, rk_cache_reader *r, rk_window *out) {
    const rk_data_schema *schema = out->schema;
    size_t dense = (size_t)schema->n_dense * sizeof(float), labels = (size_t)schema->n_tasks * sizeof(float),
           bytes = dense + (out->has.labels ? labels : 0) + (out->has.weights ? sizeof(float) : 0) +
                   (out->has.groups ? sizeof(int64_t) : 0) + (out->has.timestamps ? sizeof(int64_t) : 0);
    uint64_t n;
    RK_TRY(rk_cache_read_u64(r, &n));
    if (n == 0 || n > (uint64_t)load->manner->window_rows)
        return rk_cache_damaged_error(r, "a window has another number of rows than it can have");
    RK_TRY(check_elements_fit(load, r, n, bytes ? bytes : 1, bytes));
    RK_TRY(rk_window_reserve(out, (int64_t)n));
    RK_TRY(rk_cache_read(r, out->dense, n * dense));
    if (out->has.labels) RK_TRY(rk_cache_read(r, out->labels, n * labels));
    if (out->has.weights) RK_TRY(rk_cache_read(r, out->sample_weights, n * sizeof(float)));
    if (out->has.groups) RK_TRY(rk_cache_read(r, out->groups, n * sizeof(int64_t)));
    if (out->has.timestamps) RK_TRY(rk_cache_read(r, out->timestamps, n * sizeof(int64_t)));
    for (int32_t f = 0; f < schema->n_features; f++)
        RK_TRY(load_ids(load, r, (int64_t)n, schema->features[f].weighted, &out->features[f]));
    out->n_rows = (int64_t)n;
    return RK_OK;
}

static rk_status load_windows(void *context, rk_cache_reader *r) {
    window_load *load = context;
    rk_window_list *list = &load->list;
    const rk_window_settings *m = load->manner;
    uint64_t n;
    RK_TRY(rk_cache_read_count(r, 1, &n));
    for (uint64_t i = 0; i < n; i++) {
        RK_TRY(rk_reserve_one_more(&list->windows, list->n, &list->capacity, sizeof *list->windows));
        rk_window *window = &list->windows[list->n];
        RK_TRY(rk_window_init(window, rk_transforms_schema(m->transforms), m->has));
        list->n++;
        RK_TRY(load_window(load, r, window));
        window->first_row = (int64_t)i * m->window_rows;
        if (i + 1 < n && window->n_rows != m->window_rows)
            return rk_cache_damaged_error(r, "a window has another number of rows than it can have");
    }
    return RK_OK;
}

rk_status rk_cached_windows_find(rk_cache_key *key, const rk_window_settings *manner, uint64_t max_bytes,
                                 rk_window_list *out, bool *found) {
    window_load load = {.manner = manner, .max_bytes = max_bytes};
    *found = false;
    rk_status status = rk_cache_find(key, load_windows, &load, found);
    if (*found)
        *out = load.list;
    else
        rk_window_list_release(&load.list);
    return status;
}
