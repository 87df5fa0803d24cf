/* From one file format to another, row by row: a source reads, a writer of the wanted format writes. */
#include "data/convert.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "data/file_output.h"
#include "data/source/source.h"
#include "data/transform/joined_rows.h"

enum { PROGRESS_ROWS = 65536 };

/* Of the types that hold all of a column's values: whole numbers, else numbers, else text. */
static rk_column_type narrowest_type(unsigned types) {
    return types & 1u << RK_COLUMN_I64   ? RK_COLUMN_I64
           : types & 1u << RK_COLUMN_F32 ? RK_COLUMN_F32
                                         : RK_COLUMN_TEXT;
}

static bool is_column_name(const char *name, const char *column) {
    return name && strcmp(name, column) == 0;
}

/* Whether the run file makes a number of the column and nothing else, so that its spelling says nothing. A
 * boundary or a threshold may stand between a number and what f32 makes of it. */
static bool is_dense_only(const rk_data_section *s, const char *column) {
    bool number = is_column_name(s->sample_weight, column);
    if (is_column_name(s->group, column) || is_column_name(s->timestamp, column)) return false;
    for (int64_t i = 0; i < s->n_joins; i++)
        if (is_column_name(s->joins[i].key, column)) return false;
    for (int64_t i = 0; i < s->n_labels; i++) {
        const rk_label_section *label = &s->labels[i];
        if (!is_column_name(rk_label_column(label), column)) continue;
        if (label->n_positive || !isnan(label->threshold)) return false;
        number = true;
    }
    for (int64_t i = 0; i < s->n_features; i++) {
        const rk_data_feature *f = &s->features[i];
        bool is_its = f->match ? fnmatch(f->match, column, 0) == 0
                               : !f->n_cross && is_column_name(rk_feature_column(f), column);
        if (is_its && !f->dense) return false;
        number |= is_its || is_column_name(f->weights, column);
    }
    return number;
}

typedef struct found_column {
    unsigned types; /* that hold all of its values, where it is open */
    rk_column_type type;
    bool is_open, is_number;
} found_column;

/* Whether the values say which type of an rkb file holds them: of text, and of f64, which no file has. */
static bool is_type_undecided(const rk_column *column, bool is_text) {
    return is_text || column->type == RK_COLUMN_F64;
}

static rk_status init_found_columns(const rk_data_section *section, bool is_text, const rk_columns *columns,
                                    found_column **out) {
    RK_TRY(rk_alloc((size_t)columns->n_columns, sizeof **out, out));
    for (int32_t c = 0; c < columns->n_columns; c++) {
        const rk_column *column = &columns->columns[c];
        (*out)[c] = (found_column){~0u, column->type, is_type_undecided(column, is_text),
                                   is_dense_only(section, column->name)};
    }
    return RK_OK;
}

static void exclude_lossy_types(const rk_column *column, found_column *held) {
    char scratch[RK_NUMBER_BYTES];
    for (int64_t v = 0; v < column->n_values && narrowest_type(held->types) != RK_COLUMN_TEXT; v++)
        held->types &= rk_find_lossless_types(rk_value_as_text(column, v, scratch), held->is_number);
}

/* The types that columns turn out to have, found by a pass where any of them is open; *out stays NULL if
 * there are no rows. */
static rk_status find_column_types(const rk_source_options *options, bool is_text, rk_column_type **out) {
    RK_AUTO(rk_source_auto_free) rk_source *source = NULL;
    RK_AUTOFREE found_column *held = NULL;
    int32_t n_columns = 0;
    RK_TRY(rk_source_open(options, &source));
    for (const rk_chunk *chunk;;) {
        RK_TRY(rk_source_read_chunk(source, &chunk));
        if (chunk->columns.n_rows == 0) break;
        n_columns = chunk->columns.n_columns;
        if (!held) RK_TRY(init_found_columns(options->section, is_text, &chunk->columns, &held));
        bool any = false;
        for (int32_t c = 0; c < n_columns; c++) {
            any |= held[c].is_open;
            if (held[c].is_open) exclude_lossy_types(&chunk->columns.columns[c], &held[c]);
        }
        if (!any) break;
    }
    if (!held) return RK_OK;
    RK_TRY(rk_alloc((size_t)n_columns, sizeof **out, out));
    for (int32_t c = 0; c < n_columns; c++)
        (*out)[c] = held[c].is_open ? narrowest_type(held[c].types) : held[c].type;
    return RK_OK;
}

static rk_status copy_rows(rk_source *source, rk_file_output *output, const rk_convert_options *o,
                           int64_t *n_rows) {
    const rk_chunk *chunk;
    *n_rows = 0;
    for (int64_t shown = 0;;) {
        RK_TRY(rk_source_read_chunk(source, &chunk));
        bool at_end = chunk->columns.n_rows == 0;
        if (!at_end) RK_TRY(rk_file_output_add_rows(output, &chunk->columns));
        *n_rows += chunk->columns.n_rows;
        bool show = o->on_progress && (*n_rows >= shown + PROGRESS_ROWS || (at_end && *n_rows > shown));
        RK_FAIL_IF(show && o->on_progress(o->user, *n_rows, rk_source_progress(source)), RK_INTERRUPTED,
                   "stopped on request; nothing was written");
        if (show) shown = *n_rows;
        if (at_end) return RK_OK;
    }
}

static rk_status choose_format(const char *name, const rk_data_section *section, const char *path,
                               rk_data_format *out) {
    static const struct {
        const char *name;
        rk_data_format format;
    } formats[] = {{"csv", RK_DATA_CSV},           {"tsv", RK_DATA_TSV}, {"libsvm", RK_DATA_LIBSVM},
                   {"tfrecord", RK_DATA_TFRECORD}, {"rkb", RK_DATA_RKB}, {"parquet", RK_DATA_PARQUET}};
    if (!name) return rk_source_format(section, path, out);
    int64_t i = RK_POSITION_BY(name, name, formats, sizeof formats / sizeof formats[0]);
    RK_FAIL_IF(i < 0, RK_INVALID_ARGUMENT, "there is no format '%s'", name);
    *out = formats[i].format;
    return RK_OK;
}

rk_status rk_data_convert(const char *input, const char *output, const rk_convert_options *o,
                          const rk_data_section *section, int64_t *n_rows, int64_t *n_skipped) {
    rk_data_section manner = section ? *section : (rk_data_section){.trim = true};
    RK_AUTO(rk_text_list_release) rk_text_list paths = {0};
    rk_data_format from, to;
    RK_TRY(rk_expand_paths("", (char *const *)&input, 1, &paths));
    RK_TRY(choose_format(o->from, section, paths.texts[0], &from));
    RK_TRY(choose_format(o->to, NULL, output, &to));
    if (to == RK_DATA_PARQUET)
        return rk_error_hint(rk_error(RK_UNSUPPORTED, "Parquet files are read, but not written"),
                             "write rkb");
    manner.format = (int)from;
    if (o->skip_bad_rows) manner.on_bad_row = 1;
    rk_source_options options = {
        .section = &manner, .paths = (const char *const *)paths.texts, .n_paths = paths.n};
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
    if ((is_text || from == RK_DATA_PARQUET) && typed) RK_TRY(find_column_types(&options, is_text, &types));
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
