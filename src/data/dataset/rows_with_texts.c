#include "data/dataset/rows_with_texts.h"

#include <string.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/dataset/window_reader.h"

struct rk_rows_with_texts {
    const rk_data_section *section;
    const rk_transforms *transforms;
    int64_t batch_size;
    size_t n_columns;
    bool once;
    rk_status (*choose)(void *context, rk_span text, bool *wanted);
    void *context;
    char *directory;
    rk_split_files files;
    rk_joined_rows reader;
    const rk_chunk *chunk; /* NULL: none yet */
    int64_t at;            /* the row of the chunk that is next */
    int64_t file_row, row; /* its number in the files, and in the split */
    int64_t n_skipped;
    rk_vocabulary seen; /* texts of the first column, with `once` */
    rk_transform_scratch memory;
    rk_window window;
    rk_batch_memory batch;
    /* of the batch */
    rk_buffer text;
    size_t *ends;   /* [n, n_columns] in text */
    rk_span *spans; /* [n, n_columns] */
    int64_t *rows;  /* [n] */
    size_t ends_capacity, spans_capacity, rows_capacity;
};

/* The transforms' names, and behind them those whose texts are wanted. One that may be missing has to come
 * first, and is bound once more in its own place. */
static rk_status open_rows(rk_rows_with_texts *r, const rk_rows_with_texts_options *o) {
    const rk_transforms *t = r->transforms;
    RK_AUTOFREE const char **names = NULL;
    size_t n_first = o->may_miss != NULL, n = n_first;
    RK_TRY(rk_alloc(n_first + t->n_names + o->n_columns, sizeof *names, &names));
    names[0] = o->may_miss;
    for (size_t i = 0; i < t->n_names; i++) names[n++] = t->names[i];
    for (size_t i = 0; i < o->n_columns; i++) names[n++] = o->columns[i];
    RK_TRY(rk_joined_rows_open(&r->files.manner, r->directory, r->files.paths.texts, r->files.paths.n, names,
                               n, n_first + t->n_labels_names, &r->reader));
    rk_source_take_any_bits(r->reader.source);
    memmove(r->reader.bindings, r->reader.bindings + n_first, (n - n_first) * sizeof *r->reader.bindings);
    return RK_OK;
}

rk_status rk_rows_with_texts_open(const rk_data_section *section, const rk_transforms *transforms,
                                  const rk_rows_with_texts_options *o, rk_rows_with_texts **out) {
    RK_AUTO(rk_rows_with_texts_auto_free) rk_rows_with_texts *r = NULL;
    RK_TRY(rk_alloc(1, sizeof *r, &r));
    *r = (rk_rows_with_texts){.section = section,
                              .transforms = transforms,
                              .batch_size = o->batch_size,
                              .n_columns = o->n_columns,
                              .once = o->once,
                              .choose = o->choose,
                              .context = o->context};
    RK_TRY(rk_strdup(o->directory ? o->directory : "", &r->directory));
    RK_TRY(rk_split_files_find(section, r->directory, o->split, &r->files));
    RK_TRY(open_rows(r, o));
    RK_TRY(rk_window_init(&r->window, &transforms->schema, (rk_window_columns){0}));
    RK_TRY(rk_batch_memory_init(&r->batch, &r->window));
    *out = r;
    r = NULL;
    return RK_OK;
}

void rk_rows_with_texts_free(rk_rows_with_texts *r) {
    if (!r) return;
    rk_joined_rows_release(&r->reader);
    rk_text_list_release(&r->files.paths);
    rk_vocabulary_release(&r->seen);
    rk_transform_scratch_release(&r->memory);
    if (r->batch.rows.schema) rk_batch_memory_release(&r->batch);
    if (r->window.schema) rk_window_release(&r->window);
    rk_buffer_release(&r->text);
    rk_free(r->directory);
    rk_free(r->ends);
    rk_free(r->spans);
    rk_free(r->rows);
    rk_free(r);
}

/* The text of a column in a row of the chunk. */
static rk_span read_text(const rk_rows_with_texts *r, size_t column, int64_t row,
                         char scratch[RK_NUMBER_BYTES]) {
    rk_values values = rk_joined_rows_get_values(&r->reader, &r->chunk->columns,
                                                 (int32_t)(r->transforms->n_names + column), row);
    return values.begin < values.end ? rk_value_as_text(values.column, values.begin, scratch)
                                     : (rk_span){"", 0};
}

/* What stands beside a row that is in the window. */
static rk_status copy_texts(rk_rows_with_texts *r, int64_t chunk_row, int64_t number) {
    char scratch[RK_NUMBER_BYTES];
    size_t i = (size_t)(r->window.n_rows - 1);
    RK_TRY(rk_reserve(&r->rows, &r->rows_capacity, i + 1, sizeof *r->rows));
    RK_TRY(rk_reserve(&r->ends, &r->ends_capacity, (i + 1) * r->n_columns, sizeof *r->ends));
    r->rows[i] = number;
    for (size_t c = 0; c < r->n_columns; c++) {
        rk_span text = read_text(r, c, chunk_row, scratch);
        rk_buffer_append(&r->text, text.data, text.n_bytes);
        r->ends[i * r->n_columns + c] = r->text.n_bytes;
    }
    return r->text.status;
}

static rk_status skip_or_fail_row(rk_rows_with_texts *r, int64_t row) {
    char where[4200];
    if (r->section->on_bad_row == 1) {
        r->n_skipped++;
        return RK_OK;
    }
    rk_source_format_location(r->reader.source, r->chunk, row, where, sizeof where);
    return rk_error_context(RK_BAD_DATA, "%s", where);
}

/* With `once`: whether a row's text is new, and wanted. One that is not is known from then on. */
static rk_status is_row_wanted(rk_rows_with_texts *r, rk_span text, bool *wanted) {
    int64_t number;
    *wanted = rk_vocabulary_find(&r->seen, text) < 0;
    if (!*wanted || !r->choose) return RK_OK;
    RK_TRY(r->choose(r->context, text, wanted));
    return *wanted ? RK_OK : rk_vocabulary_add(&r->seen, text, 1, &number);
}

/* The chunk's row at hand into the window, unless it is another split's or not wanted. */
static rk_status add_row_to_window(rk_rows_with_texts *r) {
    int64_t row = r->at++, file_row = r->file_row++;
    char scratch[RK_NUMBER_BYTES];
    rk_span first = {"", 0};
    bool wanted = true;
    if (!rk_split_files_have_row(&r->files, r->section, file_row)) return RK_OK;
    int64_t number = r->row++;
    if (r->once) {
        first = read_text(r, 0, row, scratch);
        RK_TRY(is_row_wanted(r, first, &wanted));
    }
    if (!wanted) return RK_OK;
    const rk_piece piece = {&r->reader, &r->chunk->columns, row, 1, &r->memory, NULL};
    rk_status status = rk_transforms_transform_rows(r->transforms, &piece, &r->window);
    if (status == RK_BAD_DATA) return skip_or_fail_row(r, row);
    RK_TRY(status);
    RK_TRY(copy_texts(r, row, number));
    return r->once ? rk_vocabulary_add(&r->seen, first, 1, &number) : RK_OK;
}

static rk_status fill_window_with_rows(rk_rows_with_texts *r) {
    while (r->window.n_rows < r->batch_size) {
        if (!r->chunk || r->at == r->chunk->columns.n_rows) {
            RK_TRY(rk_source_read_chunk(r->reader.source, &r->chunk));
            r->at = 0;
            if (r->chunk->columns.n_rows == 0) return RK_OK;
        }
        RK_TRY(add_row_to_window(r));
    }
    return RK_OK;
}

static void log_skipped_rows(const rk_rows_with_texts *r) {
    int64_t n = r->n_skipped + rk_source_n_skipped(r->reader.source);
    if (n) rk_log(RK_LOG_WARNING, "'%s': %lld bad rows were skipped", r->files.paths.texts[0], (long long)n);
}

static rk_status set_text_spans(rk_rows_with_texts *r) {
    size_t n = (size_t)r->window.n_rows * r->n_columns;
    RK_TRY(rk_reserve(&r->spans, &r->spans_capacity, n, sizeof *r->spans));
    for (size_t i = 0, begin = 0; i < n; begin = r->ends[i++])
        r->spans[i] = (rk_span){r->text.data + begin, r->ends[i] - begin};
    return RK_OK;
}

rk_status rk_rows_with_texts_next(rk_rows_with_texts *r, rk_batch_with_texts *out) {
    rk_window_clear(&r->window);
    rk_buffer_clear(&r->text);
    RK_TRY(fill_window_with_rows(r));
    if (r->window.n_rows == 0) {
        log_skipped_rows(r);
        RK_FAIL_IF(r->row == 0, RK_BAD_DATA, "'%s' has no rows", r->files.paths.texts[0]);
        return RK_END;
    }
    RK_TRY(set_text_spans(r));
    RK_TRY(rk_batch_view_window(&r->batch, &r->window, 0, r->window.n_rows));
    *out = (rk_batch_with_texts){&r->batch.batch, r->spans, r->rows};
    return RK_OK;
}
