#include "data/file_output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "data/transform/joined_rows.h"
#include "format/text/csv.h"
#include "format/rkb/rkb.h"
#include "format/byte_stream.h"
#include "format/protobuf/tfrecord.h"

/* Rows of an rkb file's block: few enough that a block's columns, once unpacked, stay in a processor's cache.
 * Of many columns or values a block has fewer, so that it keeps far from the format's limits; it is looked at
 * after every few rows. */
enum { RKB_BLOCK_ROWS = 4096, RKB_BLOCK_BYTES = 1 << 28, RKB_RUN_ROWS = 64 };

struct rk_file_output {
    rk_data_format format;
    const rk_column_type *types;
    rk_byte_sink *sink; /* of text formats and tfrecord */
    rk_rkb_writer *rkb;
    rk_columns typed; /* rows with their numbers parsed; of rkb, those of the block to come */
    bool has_header, has_warned;
    unsigned char *joined; /* of csv: [n_columns] bits of how_joined */
    rk_buffer text;
    rk_example_writer example;
};

/* A whole number may be an id, so it is held exactly or not at all. */
static bool is_exact_in_f32(double x) {
    const double past_ids = 0x1p63;
    double held = (double)(float)x;
    if (floor(x) == x && fabs(x) < past_ids) return held == x;
    return isfinite(held) && fabs(held - x) <= 1e-6 * fabs(x);
}

static bool spans_equal(rk_span a, rk_span b) {
    return a.n_bytes == b.n_bytes && memcmp(a.data, b.data, a.n_bytes) == 0;
}

unsigned rk_find_lossless_types(rk_span text, bool is_number) {
    char scratch[RK_NUMBER_BYTES];
    int64_t whole;
    double x;
    unsigned types = 1u << RK_COLUMN_TEXT;
    if (rk_parse_i64(text, &whole) && spans_equal(text, rk_format_i64(whole, scratch)))
        types |= 1u << RK_COLUMN_I64;
    if (rk_parse_f64(text, &x) && is_exact_in_f32(x) &&
        (is_number || spans_equal(text, rk_format_f32((float)x, scratch))))
        types |= 1u << RK_COLUMN_F32;
    return types;
}

rk_status rk_file_output_open(const char *path, rk_data_format format, const rk_column_type *types, int level,
                              rk_file_output **out) {
    rk_file_output *o;
    RK_TRY(rk_alloc(1, sizeof *o, &o));
    o->format = format;
    o->types = types;
    const int zstd_level = level < 0 ? 0 : level ? level : 3;
    rk_status status = format == RK_DATA_RKB ? rk_rkb_writer_open(path, zstd_level, &o->rkb)
                                             : rk_byte_sink_open(path, &o->sink);
    if (status == RK_OK)
        *out = o;
    else
        rk_file_output_free(o);
    return status;
}

void rk_file_output_free(rk_file_output *o) {
    if (!o) return;
    rk_byte_sink_free(o->sink);
    rk_rkb_writer_free(o->rkb);
    rk_columns_release(&o->typed);
    rk_buffer_release(&o->text);
    rk_free(o->joined);
    rk_example_writer_release(&o->example);
    rk_free(o);
}

rk_status rk_file_output_commit(rk_file_output *o) {
    if (o->rkb && o->typed.n_rows) RK_TRY(rk_rkb_writer_add(o->rkb, &o->typed));
    return o->rkb ? rk_rkb_writer_commit(o->rkb) : rk_byte_sink_commit(o->sink);
}

static rk_status append_typed_value(rk_column *to, const rk_column *from, int64_t value) {
    int64_t whole = 0;
    double x = 0;
    const bool is_whole = to->type == RK_COLUMN_I64;
    char scratch[RK_NUMBER_BYTES];
    if (to->type == RK_COLUMN_TEXT) return rk_column_add_text(to, rk_value_as_text(from, value, scratch));
    if (is_whole && from->type == RK_COLUMN_I64) return rk_column_add_i64(to, from->i64[value]);
    RK_FAIL_IF(is_whole ? !rk_parse_i64(rk_value_as_text(from, value, scratch), &whole)
                        : !rk_value_as_number(from, value, &x),
               RK_INTERNAL, "column '%s' changed between the two passes over the input", from->name);
    return is_whole ? rk_column_add_i64(to, whole) : rk_column_add_f32(to, (float)x);
}

/* Appends rows first .. first+n-1 to o->typed, with text columns turned into what they hold. */
static rk_status append_typed_rows(rk_file_output *o, const rk_columns *rows, int64_t first, int64_t n) {
    for (int64_t row = first; row < first + n; row++) {
        for (int32_t c = 0; c < rows->n_columns; c++) {
            const rk_column *from = &rows->columns[c];
            for (int64_t v = from->offsets[row]; v < from->offsets[row + 1]; v++) {
                RK_TRY(append_typed_value(&o->typed.columns[c], from, v));
                if (from->weights) RK_TRY(rk_column_add_weight(&o->typed.columns[c], from->weights[v]));
            }
        }
        RK_TRY(rk_columns_end_row(&o->typed));
    }
    return RK_OK;
}

static rk_status init_typed_columns(rk_file_output *o, const rk_columns *rows) {
    if (o->typed.columns) return RK_OK;
    RK_TRY(rk_columns_init_like(&o->typed, rows));
    for (int32_t c = 0; o->types && c < rows->n_columns; c++) o->typed.columns[c].type = o->types[c];
    return RK_OK;
}

/* Whole blocks are written, the rest waits. */
static rk_status write_rkb_rows(rk_file_output *o, const rk_columns *rows) {
    for (int64_t first = 0, n; first < rows->n_rows; first += n) {
        n = RKB_RUN_ROWS - o->typed.n_rows % RKB_RUN_ROWS;
        n = n < rows->n_rows - first ? n : rows->n_rows - first;
        RK_TRY(append_typed_rows(o, rows, first, n));
        if (o->typed.n_rows < RKB_BLOCK_ROWS && rk_columns_bytes(&o->typed) < RKB_BLOCK_BYTES) continue;
        RK_TRY(rk_rkb_writer_add(o->rkb, &o->typed));
        rk_columns_clear(&o->typed);
    }
    return RK_OK;
}

/* What a csv's column was given: several values in one field, and a value that would not come back from among
 * several. */
enum how_joined { HAS_SEVERAL = 1, HAS_UNFIT = 2 };

static bool has_joining_character(rk_span text) {
    return memchr(text.data, '|', text.n_bytes) || rk_span_trim(text).n_bytes < text.n_bytes;
}

/* The values of one row, with '|' between them. */
static rk_status join_values(rk_file_output *o, const rk_columns *rows, int32_t c, int64_t row,
                             rk_buffer *field) {
    const rk_column *column = &rows->columns[c];
    char scratch[RK_NUMBER_BYTES];
    rk_buffer_clear(field);
    for (int64_t begin = column->offsets[row], v = begin; v < column->offsets[row + 1]; v++) {
        rk_span text = rk_value_as_text(column, v, scratch);
        o->joined[c] |=
            (unsigned char)((v > begin ? HAS_SEVERAL : 0) | (has_joining_character(text) ? HAS_UNFIT : 0));
        if (o->joined[c] == (HAS_SEVERAL | HAS_UNFIT))
            return rk_error_hint(rk_error(RK_BAD_DATA,
                                          "column '%s': several values of a row are written with '|' between "
                                          "them, but a value has a '|' or a trailing space itself",
                                          column->name),
                                 "write rkb or tfrecord");
        if (v > begin) rk_buffer_append_u8(field, '|');
        rk_buffer_append(field, text.data, text.n_bytes);
    }
    return field->status;
}

static void write_csv_header(rk_file_output *o, const rk_csv_dialect *dialect, const rk_columns *rows) {
    for (int32_t c = 0; c < rows->n_columns; c++)
        rk_csv_write_field(dialect, (rk_span){rows->columns[c].name, strlen(rows->columns[c].name)}, c == 0,
                           &o->text);
    rk_buffer_append_u8(&o->text, '\n');
    o->has_header = true;
}

/* Fields of a row; several values of one column stand with '|' between them. A line without anything would be
 * no row: it has quotes. */
static rk_status write_csv_rows(rk_file_output *o, const rk_columns *rows) {
    rk_csv_dialect dialect = {.separator = o->format == RK_DATA_TSV ? '\t' : ',', .quote = '"'};
    RK_AUTO(rk_buffer_release) rk_buffer field = {0};
    if (!o->joined) RK_TRY(rk_alloc((size_t)rows->n_columns, sizeof *o->joined, &o->joined));
    if (!o->has_header) write_csv_header(o, &dialect, rows);
    for (int64_t row = 0; row < rows->n_rows; row++) {
        for (int32_t c = 0; c < rows->n_columns; c++) {
            RK_TRY(join_values(o, rows, c, row, &field));
            rk_csv_write_field(&dialect, (rk_span){field.data ? field.data : "", field.n_bytes}, c == 0,
                               &o->text);
        }
        if (rows->n_columns == 1 && field.n_bytes == 0) rk_buffer_append_text(&o->text, "\"\"");
        rk_buffer_append_u8(&o->text, '\n');
    }
    return RK_OK;
}

/* label[,label] [qid:group] id:weight ...: the columns `label`, `ids` and perhaps `qid`. */
static rk_status check_libsvm_columns(const rk_columns *rows, int32_t label, int32_t ids, int32_t group) {
    if (label < 0 || ids < 0 || rows->columns[ids].type != RK_COLUMN_I64)
        return rk_error_hint(
            rk_error(
                RK_CONFIG,
                "libsvm needs a column 'label' and a column 'ids' of whole numbers; the input has no '%s'",
                label < 0 ? "label" : "ids"),
            "write csv, tfrecord or rkb");
    RK_FAIL_IF(group >= 0 && rows->columns[group].type != RK_COLUMN_I64, RK_CONFIG,
               "libsvm: the column 'qid' must hold whole numbers");
    return RK_OK;
}

static void format_f32(float x, rk_buffer *out) {
    char scratch[RK_NUMBER_BYTES];
    rk_span text = rk_format_f32(x, scratch);
    rk_buffer_append(out, text.data, text.n_bytes);
}

static rk_status write_libsvm_rows(rk_file_output *o, const rk_columns *rows) {
    int32_t label = rk_columns_find(rows, "label"), ids = rk_columns_find(rows, "ids"),
            group = rk_columns_find(rows, "qid");
    RK_TRY(check_libsvm_columns(rows, label, ids, group));
    const rk_column *id = &rows->columns[ids], *y = &rows->columns[label],
                    *g = group < 0 ? NULL : &rows->columns[group];
    for (int64_t row = 0; row < rows->n_rows; row++) {
        RK_FAIL_IF(y->offsets[row] == y->offsets[row + 1], RK_BAD_DATA, "row %lld has no label",
                   (long long)row + 1);
        for (int64_t v = y->offsets[row]; v < y->offsets[row + 1]; v++) {
            double value = 0;
            RK_FAIL_IF(!rk_value_as_number(y, v, &value) || !isfinite((float)value), RK_BAD_DATA,
                       "row %lld: the label is not a number", (long long)row + 1);
            if (v > y->offsets[row]) rk_buffer_append_u8(&o->text, ',');
            format_f32((float)value, &o->text);
        }
        if (g && g->offsets[row] < g->offsets[row + 1])
            rk_buffer_printf(&o->text, " qid:%" PRId64, g->i64[g->offsets[row]]);
        for (int64_t v = id->offsets[row]; v < id->offsets[row + 1]; v++) {
            rk_buffer_printf(&o->text, " %" PRId64 ":", id->i64[v]);
            format_f32(id->weights ? id->weights[v] : 1, &o->text);
        }
        rk_buffer_append_u8(&o->text, '\n');
    }
    return RK_OK;
}

static rk_status write_tfrecord_examples(rk_file_output *o, const rk_columns *rows) {
    RK_AUTO(rk_buffer_release) rk_buffer example = {0};
    for (int64_t row = 0; row < rows->n_rows; row++) {
        for (int32_t c = 0; c < rows->n_columns; c++) {
            const rk_column *column = &rows->columns[c];
            int64_t begin = column->offsets[row];
            size_t n = (size_t)(column->offsets[row + 1] - begin);
            if (column->type == RK_COLUMN_I64)
                rk_example_add_i64(&o->example, column->name, n ? column->i64 + begin : NULL, n);
            if (column->type == RK_COLUMN_F32)
                rk_example_add_f32(&o->example, column->name, n ? column->f32 + begin : NULL, n);
            if (column->type != RK_COLUMN_TEXT) continue;
            RK_AUTOFREE rk_span *texts = NULL;
            RK_TRY(rk_alloc(n, sizeof *texts, &texts));
            for (size_t v = 0; v < n; v++) texts[v] = rk_column_text(column, begin + (int64_t)v);
            rk_example_add_bytes(&o->example, column->name, texts, n);
        }
        rk_buffer_clear(&example);
        RK_TRY(rk_example_finish(&o->example, &example));
        rk_tfrecord_write(example.data ? example.data : "", example.n_bytes, &o->text);
    }
    return RK_OK;
}

static bool is_libsvm_column(const char *name) {
    return strcmp(name, "label") == 0 || strcmp(name, "ids") == 0 || strcmp(name, "qid") == 0;
}

/* Values beside ids have no place in csv and in an example, and other columns none in libsvm. */
static void warn_of_dropped_columns(rk_file_output *o, const rk_columns *rows) {
    bool is_libsvm = o->format == RK_DATA_LIBSVM;
    for (int32_t c = 0; c < rows->n_columns && !o->has_warned; c++) {
        const rk_column *column = &rows->columns[c];
        o->has_warned = is_libsvm ? !is_libsvm_column(column->name) : column->weights != NULL;
        if (o->has_warned && is_libsvm)
            rk_log(RK_LOG_WARNING,
                   "libsvm cannot hold the column '%s' and any others beside label, qid and ids: it is "
                   "dropped\nhint: csv, rkb and tfrecord can hold it",
                   column->name);
        if (o->has_warned && !is_libsvm)
            rk_log(RK_LOG_WARNING,
                   "the weights of the ids of '%s' are dropped\nhint: rkb and libsvm can hold them",
                   column->name);
    }
}

rk_status rk_file_output_add_rows(rk_file_output *o, const rk_columns *rows) {
    if (o->rkb || o->types) RK_TRY(init_typed_columns(o, rows));
    if (o->rkb) return write_rkb_rows(o, rows);
    if (o->types) {
        rk_columns_clear(&o->typed);
        RK_TRY(append_typed_rows(o, rows, 0, rows->n_rows));
        rows = &o->typed;
    }
    warn_of_dropped_columns(o, rows);
    rk_buffer_clear(&o->text);
    if (o->format == RK_DATA_TFRECORD)
        RK_TRY(write_tfrecord_examples(o, rows));
    else
        RK_TRY(o->format == RK_DATA_LIBSVM ? write_libsvm_rows(o, rows) : write_csv_rows(o, rows));
    RK_TRY(o->text.status);
    return o->text.n_bytes ? rk_byte_sink_write(o->sink, o->text.data, o->text.n_bytes) : RK_OK;
}
