#include "data/reader.h"

#include "base/file.h"
#include "base/memory.h"

enum { CHUNK_ROWS = 16384 };

static void close_rows(rk_reader *r) {
    if (r->is_open) rk_rows_release(&r->rows);
    r->is_open = false;
}

void rk_reader_rewind(rk_reader *r) {
    close_rows(r);
    r->next = 0;
    r->chunk_row = r->file_row = r->epoch_row = 0;
    if (!r->complete) { /* a pass that was broken off is begun anew */
        for (size_t i = 0; i < r->n_kept; i++) rk_window_release(&r->kept[i]);
        r->n_kept = 0;
        r->kept_bytes = 0;
        r->keeps = r->section->cache_bytes > 0;
    }
}

void rk_reader_release(rk_reader *r) {
    close_rows(r);
    for (size_t i = 0; i < r->n_kept; i++) rk_window_release(&r->kept[i]);
    rk_free(r->kept);
    if (r->current.schema) rk_window_release(&r->current);
    rk_free_strings(r->paths, r->n_paths);
    rk_free(r->directory);
    *r = (rk_reader){0};
}

/* Whether the files have all label columns; they must, unless labels are optional. */
static rk_status check_labels(rk_reader *r) {
    const rk_transforms *t = r->transforms;
    const rk_columns *chunk = r->rows.chunk;
    r->has_labels = true;
    for (size_t i = 0; i < t->n_labels_names && chunk->n_rows > 0; i++) {
        rk_binding binding = r->rows.bindings[i];
        const rk_column *column = binding.join < 0 ? &chunk->columns[binding.column] : &r->rows.joins[binding.join].columns.columns[binding.column];
        if (column->n_values == 0) r->has_labels = false;
    }
    RK_FAIL_IF(!r->has_labels && !r->labels_optional, RK_BAD_DATA, "'%s' has no labels", r->rows.paths[0]);
    return RK_OK;
}

static rk_status open_rows(rk_reader *r) {
    const rk_transforms *t = r->transforms;
    size_t n_optional = r->labels_optional ? t->n_labels_names : 0;
    RK_TRY(rk_rows_open(r->section, r->directory, r->paths, r->n_paths, t->names, t->n_names, n_optional, &r->rows));
    r->is_open = true;
    RK_TRY(rk_rows_next(&r->rows, CHUNK_ROWS));
    r->n_skipped += rk_source_n_skipped(r->rows.source);
    return check_labels(r);
}

/* Fill the window from where the pass stands; fewer rows than window_rows: the split has ended. */
static rk_status fill(rk_reader *r, rk_window *window) {
    window->first_row = r->epoch_row;
    while (window->n_rows < r->window_rows) {
        if (r->chunk_row == r->rows.chunk->n_rows) {
            if (r->rows.chunk->n_rows == 0) return RK_OK;
            RK_TRY(rk_rows_next(&r->rows, CHUNK_ROWS));
            r->chunk_row = 0;
            continue;
        }
        int64_t row = r->chunk_row++;
        if (r->part >= 0 && rk_fraction_split(r->section, r->seed, r->file_row++) != r->part) continue;
        RK_TRY(rk_window_begin_row(window));
        rk_status status = rk_transforms_row(r->transforms, &r->rows, row, window);
        if (status == RK_BAD_DATA && r->section->on_bad_row == 1) {
            rk_window_drop_row(window);
            r->n_skipped++;
            continue;
        }
        if (status != RK_OK) {
            char where[4200];
            rk_source_where(r->rows.source, row, where, sizeof where);
            return rk_error_context(status, "%s", where);
        }
        rk_window_end_row(window);
        r->epoch_row++;
    }
    return RK_OK;
}

static rk_status new_window(const rk_reader *r, rk_window *out) {
    const rk_transforms *t = r->transforms;
    return rk_window_init(out, &t->schema, r->has_labels, r->has_labels && t->weight_name >= 0, r->has_labels && t->group_name >= 0);
}

/* The window just filled stays in memory if it fits; if not, none does from now on. */
static rk_status keep(rk_reader *r, rk_window *window) {
    uint64_t bytes = rk_window_bytes(window);
    if (r->kept_bytes + bytes > (uint64_t)r->section->cache_bytes) {
        r->keeps = false;
        return RK_OK;
    }
    RK_TRY(rk_grow(&r->kept, r->n_kept, &r->kept_capacity, sizeof *r->kept));
    r->kept[r->n_kept++] = *window;
    r->kept_bytes += bytes;
    *window = (rk_window){0};
    return RK_OK;
}

rk_status rk_reader_next(rk_reader *r, const rk_window **out) {
    if (r->complete) {
        *out = r->next < r->n_kept ? &r->kept[r->next++] : NULL;
        return RK_OK;
    }
    if (!r->is_open) RK_TRY(open_rows(r));
    if (!r->current.schema)
        RK_TRY(new_window(r, &r->current));
    else
        rk_window_clear(&r->current);
    int64_t skipped_before = rk_source_n_skipped(r->rows.source);
    RK_TRY(fill(r, &r->current));
    r->n_skipped += rk_source_n_skipped(r->rows.source) - skipped_before;
    if (r->current.n_rows == 0) {
        r->complete = r->keeps;
        close_rows(r);
        *out = NULL;
        return RK_OK;
    }
    r->next++;
    const rk_window *window = &r->current;
    if (r->keeps) {
        RK_TRY(keep(r, &r->current));
        if (r->keeps) window = &r->kept[r->n_kept - 1];
    }
    *out = window;
    return RK_OK;
}
