/* From one file format to another, row by row: a source reads, a writer of the wanted format writes. */
#include "data/convert.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "data/file_output.h"
#include "data/source/source.h"

enum { PROGRESS_ROWS = 65536 };

/* Of the types that hold all of a column's values: whole numbers, else numbers, else text. */
static rk_column_type narrowest(unsigned types) {
    return types & 1u << RK_COLUMN_I64   ? RK_COLUMN_I64
           : types & 1u << RK_COLUMN_F32 ? RK_COLUMN_F32
                                         : RK_COLUMN_TEXT;
}

static bool is_named(const char *name, const char *column) {
    return name && strcmp(name, column) == 0;
}

/* Whether the run file makes a number of the column and nothing else, so that its spelling says nothing. A
 * boundary or a threshold may stand between a number and what f32 makes of it. */
static bool is_number(const rk_data_section *s, const char *column) {
    bool number = is_named(s->sample_weight, column);
    if (is_named(s->group, column)) return false;
    for (int64_t i = 0; i < s->n_joins; i++)
        if (is_named(s->joins[i].key, column)) return false;
    for (int64_t i = 0; i < s->n_labels; i++) {
        const rk_label_section *label = &s->labels[i];
        if (!is_named(rk_label_column(label), column)) continue;
        if (label->n_positive || !isnan(label->threshold)) return false;
        number = true;
    }
    for (int64_t i = 0; i < s->n_features; i++) {
        const rk_data_feature *f = &s->features[i];
        bool is_its = f->match ? fnmatch(f->match, column, 0) == 0
                               : !f->n_cross && is_named(rk_feature_column(f), column);
        if (is_its && !f->dense) return false;
        number |= is_its || is_named(f->weights, column);
    }
    return number;
}

typedef struct found_column {
    unsigned types; /* that hold all of its values */
    bool is_number;
} found_column;

static rk_status begin_columns(const rk_data_section *section, const rk_columns *columns,
                               found_column **out) {
    RK_TRY(rk_alloc((size_t)columns->n_columns, sizeof **out, out));
    for (int32_t c = 0; c < columns->n_columns; c++)
        (*out)[c] = (found_column){~0u, is_number(section, columns->columns[c].name)};
    return RK_OK;
}

/* The types that a csv's columns turn out to have, found by a pass; *out stays NULL if there are no rows. */
static rk_status find_types(const rk_source_options *options, rk_column_type **out) {
    RK_AUTO(rk_source_auto_free) rk_source *source = NULL;
    RK_AUTOFREE found_column *held = NULL;
    int32_t n_columns = 0;
    RK_TRY(rk_source_open(options, &source));
    for (const rk_chunk *chunk;;) {
        RK_TRY(rk_source_read(source, &chunk));
        if (chunk->columns.n_rows == 0) break;
        n_columns = chunk->columns.n_columns;
        if (!held) RK_TRY(begin_columns(options->section, &chunk->columns, &held));
        for (int32_t c = 0; c < n_columns; c++)
            for (int64_t v = 0;
                 v < chunk->columns.columns[c].n_values && narrowest(held[c].types) != RK_COLUMN_TEXT; v++)
                held[c].types &=
                    rk_types_of(rk_column_text(&chunk->columns.columns[c], v), held[c].is_number);
    }
    if (!held) return RK_OK;
    RK_TRY(rk_alloc((size_t)n_columns, sizeof **out, out));
    for (int32_t c = 0; c < n_columns; c++) (*out)[c] = narrowest(held[c].types);
    return RK_OK;
}

static rk_status copy_rows(rk_source *source, rk_file_output *output, const rk_convert_options *o,
                           int64_t *n_rows) {
    const rk_chunk *chunk;
    *n_rows = 0;
    for (int64_t shown = 0;;) {
        RK_TRY(rk_source_read(source, &chunk));
        bool at_end = chunk->columns.n_rows == 0;
        if (!at_end) RK_TRY(rk_file_output_add(output, &chunk->columns));
        *n_rows += chunk->columns.n_rows;
        bool show = o->on_progress && (*n_rows >= shown + PROGRESS_ROWS || (at_end && *n_rows > shown));
        RK_FAIL_IF(show && o->on_progress(o->user, *n_rows, rk_source_progress(source)), RK_INTERRUPTED,
                   "stopped on request; nothing was written");
        if (show) shown = *n_rows;
        if (at_end) return RK_OK;
    }
}

static rk_status format_named(const char *name, const rk_data_section *section, const char *path,
                              rk_data_format *out) {
    static const char *const names[] = {"csv", "tsv", "libsvm", "tfrecord", "rkb"};
    if (!name) return rk_source_format(section, path, out);
    for (int i = 0; i < 5; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (rk_data_format)(RK_DATA_CSV + i);
            return RK_OK;
        }
    return rk_error(RK_INVALID_ARGUMENT, "there is no format '%s'", name);
}

rk_status rk_data_convert(const char *input, const char *output, const rk_convert_options *o,
                          const rk_data_section *section, int64_t *n_rows, int64_t *n_skipped) {
    rk_data_section manner = section ? *section : (rk_data_section){.trim = true};
    rk_data_format from, to;
    RK_TRY(format_named(o->from, section, input, &from));
    RK_TRY(format_named(o->to, NULL, output, &to));
    manner.format = (int)from;
    if (o->skip_bad_rows) manner.on_bad_row = 1;
    rk_source_options options = {.section = &manner, .paths = &input, .n_paths = 1};
    bool is_text = from == RK_DATA_CSV || from == RK_DATA_TSV,
         typed = to == RK_DATA_RKB || to == RK_DATA_TFRECORD || to == RK_DATA_LIBSVM;
    RK_AUTOFREE rk_column_type *types = NULL;
    RK_AUTO(rk_source_auto_free) rk_source *source = NULL;
    rk_file_output *out;
    int64_t n = 0;
    if (is_text && typed && rk_file_is_stream(input))
        return rk_error_hint(
            rk_error(RK_UNSUPPORTED,
                     "'%s' is a pipe or a device; text is read twice, first to find the columns' types",
                     input),
            "write it to a file first");
    if (is_text && typed) RK_TRY(find_types(&options, &types));
    RK_TRY(rk_source_open(&options, &source));
    RK_TRY(rk_file_output_open(output, to, types, o->compression_level, &out));
    rk_status status = copy_rows(source, out, o, &n);
    if (status == RK_OK) status = rk_file_output_commit(out);
    rk_file_output_free(out);
    RK_TRY(status);
    *n_rows = n;
    *n_skipped = rk_source_n_skipped(source);
    return RK_OK;
}
