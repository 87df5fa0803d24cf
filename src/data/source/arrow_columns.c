#include "data/source/arrow_columns.h"

#include <stdlib.h>
#include <string.h>

#include "base/float16.h"
#include "base/memory.h"

/* How an array's values stand in memory. */
typedef enum layout {
    NOT_TAKEN,
    NOTHING,
    BITS,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    TEXT32,
    TEXT64,
    TEXT_VIEW,
    LIST32,
    LIST64,
    LIST_VIEW32,
    LIST_VIEW64,
    LIST_FIXED
} layout;

static layout layout_of_format(const char *format) {
    static const struct {
        char format[4];
        layout layout;
    } known[] = {{"n", NOTHING},    {"b", BITS},          {"c", I8},           {"C", U8},
                 {"s", I16},        {"S", U16},           {"i", I32},          {"I", U32},
                 {"l", I64},        {"L", U64},           {"e", F16},          {"f", F32},
                 {"g", F64},        {"u", TEXT32},        {"z", TEXT32},       {"U", TEXT64},
                 {"Z", TEXT64},     {"+l", LIST32},       {"+L", LIST64},      {"vu", TEXT_VIEW},
                 {"vz", TEXT_VIEW}, {"+vl", LIST_VIEW32}, {"+vL", LIST_VIEW64}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(format, known[i].format) == 0) return known[i].layout;
    return strncmp(format, "+w:", 3) == 0 ? LIST_FIXED : NOT_TAKEN;
}

static bool is_text_layout(layout l) {
    return l >= TEXT32 && l <= TEXT_VIEW;
}
static bool is_list_layout(layout l) {
    return l >= LIST32;
}
/* Its offsets need not ascend, and nulls may have any. */
static bool is_list_view(layout l) {
    return l == LIST_VIEW32 || l == LIST_VIEW64;
}

/* An array that was checked; values are counted from its offset on. */
typedef struct values {
    const char *column; /* name, for messages */
    layout layout;
    const uint8_t *valid; /* bits, or NULL: all are */
    const void *data;     /* of numbers; offsets of texts and lists; views of texts */
    const char *text;
    const void *sizes;         /* of list views */
    const void **texts;        /* [n_texts] of text views */
    const int64_t *text_bytes; /* [n_texts] */
    int64_t n_texts;
    int64_t offset, length;
    int64_t each; /* of LIST_FIXED */
} values;

static rk_status damaged_array_error(const char *column, const char *what) {
    return rk_error_hint(rk_error(RK_INVALID_ARGUMENT, "column '%s': %s", column, what),
                         "it is no array as the Arrow C data interface has them");
}

static rk_status unsupported_type_error(const char *column, const char *format) {
    return rk_error_hint(
        rk_error(RK_BAD_DATA, "column '%s': the Arrow type '%s' is not supported", column, format),
        "cast it to integers, floats, bool, utf8, or a list of those");
}

static rk_status check_lengths(const char *column, const struct ArrowArray *a) {
    if (!a->release) return damaged_array_error(column, "the array was released");
    if (a->length < 0 || a->offset < 0 || a->length > INT64_MAX / 16 - a->offset)
        return damaged_array_error(column, "a negative or impossible length or offset");
    return RK_OK;
}

static rk_status open_array_values(const char *column, const struct ArrowSchema *s,
                                   const struct ArrowArray *a, values *out) {
    if (!s || !a || !s->format) return damaged_array_error(column, "a struct or a format is missing");
    RK_TRY(check_lengths(column, a));
    layout l = layout_of_format(s->format);
    if (l == NOT_TAKEN) return unsupported_type_error(column, s->format);
    int64_t n_buffers = l == NOTHING ? 0 : l == LIST_FIXED ? 1 : is_text_layout(l) || is_list_view(l) ? 3 : 2;
    if (a->n_buffers < n_buffers || (n_buffers && !a->buffers))
        return damaged_array_error(column, "too few buffers");
    *out = (values){.column = column, .layout = l, .offset = a->offset, .length = a->length};
    if (n_buffers > 0 && a->null_count != 0) out->valid = a->buffers[0];
    if (n_buffers > 1) out->data = a->buffers[1];
    if (l == TEXT_VIEW) {
        out->n_texts = a->n_buffers - 3;
        out->texts = a->buffers + 2;
        out->text_bytes = a->buffers[a->n_buffers - 1];
    } else if (n_buffers > 2) {
        *(is_text_layout(l) ? (const void **)&out->text : &out->sizes) = a->buffers[2];
    }
    if (a->length > 0 && n_buffers > 1 && !out->data)
        return damaged_array_error(column, "a buffer is missing");
    if (a->length > 0 && is_list_view(l) && !out->sizes)
        return damaged_array_error(column, "a buffer is missing");
    if (out->n_texts > 0 && !out->text_bytes) return damaged_array_error(column, "a buffer is missing");
    if (l != LIST_FIXED) return RK_OK;
    char *end;
    out->each = strtoll(s->format + 3, &end, 10);
    if (out->each < 0 || *end || end == s->format + 3)
        return damaged_array_error(column, "a fixed-size list without a size");
    if (out->each && a->offset + a->length > INT64_MAX / out->each)
        return damaged_array_error(column, "a negative or impossible length or offset");
    return RK_OK;
}

static inline bool is_value_valid(const values *a, int64_t i) {
    int64_t bit = a->offset + i;
    return !a->valid || a->valid[bit / 8] >> (bit % 8) & 1;
}

static inline int64_t list_offset_at(const values *a, int64_t i) {
    int64_t at = a->offset + i;
    return a->layout == TEXT32 || a->layout == LIST32 || a->layout == LIST_VIEW32
               ? ((const int32_t *)a->data)[at]
               : ((const int64_t *)a->data)[at];
}

static rk_status find_list_view(const values *a, int64_t i, int64_t *begin, int64_t *end) {
    int64_t at = a->offset + i, n;
    *begin = *end = 0;
    if (!is_value_valid(a, i)) return RK_OK;
    n = a->layout == LIST_VIEW32 ? ((const int32_t *)a->sizes)[at] : ((const int64_t *)a->sizes)[at];
    int64_t first = list_offset_at(a, i);
    if (first < 0 || n < 0 || n > INT64_MAX - first)
        return damaged_array_error(a->column, "a list view that cannot be");
    *begin = first;
    *end = first + n;
    return RK_OK;
}

static rk_status find_list_range(const values *a, int64_t i, int64_t *begin, int64_t *end) {
    if (is_list_view(a->layout)) return find_list_view(a, i, begin, end);
    if (a->layout == LIST_FIXED) {
        *begin = (a->offset + i) * a->each;
        *end = *begin + a->each;
        return RK_OK;
    }
    *begin = list_offset_at(a, i);
    *end = list_offset_at(a, i + 1);
    if (*begin < 0 || *end < *begin) return damaged_array_error(a->column, "its offsets do not ascend");
    return RK_OK;
}

/* The bits of a U64. */
static inline int64_t integer_at(const void *data, layout l, int64_t at) {
    switch (l) {
        case BITS:
            return ((const uint8_t *)data)[at / 8] >> (at % 8) & 1;
        case I8:
            return ((const int8_t *)data)[at];
        case U8:
            return ((const uint8_t *)data)[at];
        case I16:
            return ((const int16_t *)data)[at];
        case U16:
            return ((const uint16_t *)data)[at];
        case I32:
            return ((const int32_t *)data)[at];
        case U32:
            return ((const uint32_t *)data)[at];
        default:
            return ((const int64_t *)data)[at];
    }
}

/* any_bits: a U64 may have 64. */
static inline rk_status read_integer(const values *a, int64_t i, bool any_bits, int64_t *out) {
    *out = integer_at(a->data, a->layout, a->offset + i);
    if (a->layout != U64 || *out >= 0 || any_bits) return RK_OK;
    return rk_error_hint(rk_error(RK_BAD_DATA, "column '%s': %llu is more than a 64-bit integer with a sign",
                                  a->column, (unsigned long long)*out),
                         "a column that only features with 'key' read may have it");
}

/* A child while it becomes a column: its rows, the leaf whose values they are ranges of, and what the leaf's
 * indices stand for where it is a dictionary's. */
typedef struct column_reader {
    values rows, leaf, dictionary;
    bool has_dictionary, is_of_keys;
    const rk_arrow_manner *manner;
    int64_t first_text; /* of find_stored_values(), where places of texts begin */
    rk_column *out;
} column_reader;

static bool is_missing(const column_reader *t, rk_span text) {
    return rk_span_is_one_of(text, t->manner->section->missing, t->manner->section->n_missing);
}

static const values *find_stored_values(const column_reader *t) {
    return t->has_dictionary ? &t->dictionary : &t->leaf;
}

static rk_status open_column_reader(const char *column, const struct ArrowSchema *s,
                                    const struct ArrowArray *a, column_reader *t) {
    RK_TRY(open_array_values(column, s, a, &t->rows));
    t->leaf = t->rows;
    if (is_list_layout(t->rows.layout)) {
        if (s->n_children != 1 || a->n_children != 1 || !s->children || !a->children)
            return damaged_array_error(column, "a list without its values");
        s = s->children[0];
        a = a->children[0];
        RK_TRY(open_array_values(column, s, a, &t->leaf));
        RK_FAIL_IF(is_list_layout(t->leaf.layout), RK_BAD_DATA, "column '%s': lists of lists are not taken",
                   column);
    }
    t->has_dictionary = s->dictionary != NULL;
    if (!t->has_dictionary) return RK_OK;
    if (t->leaf.layout < I8 || t->leaf.layout > U64)
        return damaged_array_error(column, "indices of a dictionary that are no integers");
    RK_TRY(open_array_values(column, s->dictionary, a->dictionary, &t->dictionary));
    if (s->dictionary->dictionary || is_list_layout(t->dictionary.layout))
        return rk_error(RK_BAD_DATA, "column '%s': a dictionary of dictionaries or lists is not taken",
                        column);
    return RK_OK;
}

/* Places are of 32 bits, from the rows' first text on. */
static rk_status append_text(column_reader *t, const values *a, int64_t i) {
    int64_t begin, end, base = list_offset_at(a, t->first_text);
    RK_TRY(find_list_range(a, i, &begin, &end));
    if (end == begin) return RK_OK;
    if (base < 0 || begin < base) return damaged_array_error(a->column, "its offsets do not ascend");
    if (!a->text) return damaged_array_error(a->column, "a buffer is missing");
    RK_FAIL_IF(end - base > UINT32_MAX, RK_UNSUPPORTED, "column '%s': more than 4 GiB of text at once",
               a->column);
    rk_span text = {a->text + begin, (size_t)(end - begin)};
    if (is_missing(t, text)) return RK_OK;
    t->out->places[t->out->n_values++] = (rk_text_place){(uint32_t)(begin - base), (uint32_t)(end - begin)};
    return RK_OK;
}

/* Texts of views stand in many places, and are copied. */
static rk_status append_text_view(column_reader *t, const values *a, int64_t i) {
    enum { VIEW_BYTES = 16, INLINE_BYTES = 12 };
    const char *view = (const char *)a->data + (size_t)(a->offset + i) * VIEW_BYTES;
    int32_t n, number, offset;
    memcpy(&n, view, sizeof n);
    memcpy(&number, view + 8, sizeof number);
    memcpy(&offset, view + 12, sizeof offset);
    rk_span text = {view + 4, (size_t)n};
    if (n < 0) return damaged_array_error(a->column, "a text of a negative length");
    if (n > INLINE_BYTES) {
        if (number < 0 || number >= a->n_texts || offset < 0 || !a->texts[number] ||
            (int64_t)offset + n > a->text_bytes[number])
            return damaged_array_error(a->column, "a text beyond its buffer");
        text.data = (const char *)a->texts[number] + offset;
    }
    if (n == 0 || is_missing(t, text)) return RK_OK;
    return rk_column_add_text(t->out, text);
}

static rk_status append_value(column_reader *t, int64_t i) {
    const values *a = &t->leaf;
    rk_column *out = t->out;
    if (!is_value_valid(a, i)) return RK_OK;
    if (t->has_dictionary) {
        int64_t index;
        RK_TRY(read_integer(a, i, false, &index));
        a = &t->dictionary;
        if (index < 0 || index >= a->length)
            return damaged_array_error(a->column, "an index that its dictionary has not");
        if (!is_value_valid(a, i = index)) return RK_OK;
    }
    switch (a->layout) {
        case NOTHING:
            return RK_OK;
        case TEXT32:
        case TEXT64:
            return append_text(t, a, i);
        case TEXT_VIEW:
            return append_text_view(t, a, i);
        case F16:
            out->f32[out->n_values++] = rk_f16_to_f32(((const uint16_t *)a->data)[a->offset + i]);
            break;
        case F32:
            out->f32[out->n_values++] = ((const float *)a->data)[a->offset + i];
            break;
        case F64:
            out->f64[out->n_values++] = ((const double *)a->data)[a->offset + i];
            break;
        default:
            RK_TRY(read_integer(a, i, t->is_of_keys, &out->i64[out->n_values]));
            out->n_values++;
    }
    return RK_OK;
}

static rk_status append_values_of_row(column_reader *t, int64_t row) {
    int64_t begin = row, end = row + 1;
    if (is_list_layout(t->rows.layout)) {
        if (t->rows.layout != LIST_FIXED || is_value_valid(&t->rows, row))
            RK_TRY(find_list_range(&t->rows, row, &begin, &end));
        if (!is_value_valid(&t->rows, row)) return RK_OK;
        if (end > t->leaf.length)
            return damaged_array_error(t->rows.column, "a list that is longer than its values");
    }
    for (int64_t v = begin; v < end; v++) RK_TRY(append_value(t, v));
    return RK_OK;
}

static rk_column_type column_type_of_layout(layout words) {
    return is_text_layout(words) || words == NOTHING ? RK_COLUMN_TEXT
           : words == F16 || words == F32            ? RK_COLUMN_F32
           : words == F64                            ? RK_COLUMN_F64
                                                     : RK_COLUMN_I64;
}

rk_status rk_arrow_column_type(const struct ArrowSchema *s, rk_column_type *out) {
    const char *column = s->name;
    if (s->format && is_list_layout(layout_of_format(s->format)))
        s = s->n_children == 1 && s->children ? s->children[0] : NULL;
    if (s && s->dictionary) s = s->dictionary;
    if (!s || !s->format) return damaged_array_error(column, "a struct or a format is missing");
    layout l = layout_of_format(s->format);
    if (l == NOT_TAKEN || is_list_layout(l)) return unsupported_type_error(column, s->format);
    *out = column_type_of_layout(l);
    return RK_OK;
}

/* Every list is looked at before a value is taken: offsets that rise and fall again would have more values
 * written than the last one says. */
static rk_status count_values(const column_reader *t, int64_t first, int64_t n, int64_t *out) {
    int64_t n_values = is_list_layout(t->rows.layout) ? 0 : n;
    for (int64_t i = first; i < first + n && is_list_layout(t->rows.layout); i++) {
        int64_t begin, end;
        RK_TRY(find_list_range(&t->rows, i, &begin, &end));
        if (end > t->leaf.length) return damaged_array_error(t->rows.column, "offsets beyond its values");
        if (end - begin > INT64_MAX / 16 - n_values)
            return damaged_array_error(t->rows.column, "more values than can be");
        n_values += end - begin;
    }
    *out = n_values;
    return RK_OK;
}

rk_status rk_arrow_check_schema(const struct ArrowSchema *s) {
    RK_FAIL_IF(!s || !s->format || !s->release, RK_INVALID_ARGUMENT,
               "the columns need a schema that was not released");
    RK_FAIL_IF(strcmp(s->format, "+s") != 0, RK_INVALID_ARGUMENT,
               "columns come as one struct ('+s') with a child each, not as '%s'", s->format);
    if (s->n_children < 0 || (s->n_children && !s->children))
        return damaged_array_error("struct", "a child or its name is missing");
    for (int64_t c = 0; c < s->n_children; c++)
        if (!s->children[c] || !s->children[c]->name)
            return damaged_array_error("struct", "a child or its name is missing");
    return RK_OK;
}

rk_status rk_arrow_check_array(const struct ArrowSchema *s, const struct ArrowArray *a) {
    RK_TRY(rk_arrow_check_schema(s));
    RK_FAIL_IF(!a, RK_INVALID_ARGUMENT, "the columns need an array");
    RK_TRY(check_lengths("struct", a));
    if (s->n_children != a->n_children || (s->n_children && !a->children))
        return damaged_array_error("struct", "schema and array have not the same children");
    const values rows = {.valid = a->null_count != 0 && a->n_buffers > 0 && a->buffers ? a->buffers[0] : NULL,
                         .offset = a->offset};
    for (int64_t i = 0; rows.valid && i < a->length; i++)
        RK_FAIL_IF(!is_value_valid(&rows, i), RK_BAD_DATA, "row %lld is null as a whole", (long long)i);
    for (int64_t c = 0; c < s->n_children; c++) {
        if (!a->children[c]) return damaged_array_error("struct", "a child is missing");
        RK_TRY(check_lengths(s->children[c]->name, a->children[c]));
        if (a->children[c]->length < a->offset + a->length)
            return damaged_array_error(s->children[c]->name, "fewer rows than the struct");
    }
    return RK_OK;
}

static size_t value_bytes_of_layout(layout l) {
    return l == I64 || l == F64 ? 8 : l == F32 ? 4 : 0;
}

/* Numbers as a column has them, as many in each row and none of them null: where they stand. NULL: they are
 * to be copied. */
static const void *find_borrowable_values(const column_reader *t, int64_t first, int64_t n) {
    const values *leaf = &t->leaf;
    const size_t bytes = t->is_of_keys ? sizeof(int64_t) : value_bytes_of_layout(leaf->layout);
    const bool is_fixed = t->rows.layout == LIST_FIXED;
    if (!bytes || !leaf->data || t->has_dictionary || leaf->valid ||
        (is_fixed ? t->rows.valid != NULL : is_list_layout(t->rows.layout)))
        return NULL;
    if (is_fixed) first = (t->rows.offset + first) * t->rows.each;
    const char *at = n ? (const char *)leaf->data + (size_t)(leaf->offset + first) * bytes : NULL;
    return (uintptr_t)at % bytes ? NULL : at;
}

/* The first of the values of the rows. */
static rk_status find_first_value(const column_reader *t, int64_t first, int64_t n, int64_t *out) {
    int64_t end;
    const bool is_anywhere = t->has_dictionary || is_list_view(t->rows.layout);
    *out = is_anywhere ? 0 : first;
    return n && !is_anywhere && is_list_layout(t->rows.layout) ? find_list_range(&t->rows, first, out, &end)
                                                               : RK_OK;
}

static rk_status append_values_of_rows(column_reader *t, int64_t first, int64_t n) {
    rk_column *out = t->out;
    int64_t n_values;
    RK_TRY(count_values(t, first, n, &n_values));
    const values *words = find_stored_values(t);
    rk_column_set_type(out, column_type_of_layout(words->layout));
    t->is_of_keys = t->manner->any_bits && words->layout == U64 &&
                    rk_data_section_reads_keys_alone(t->manner->section, words->column);
    out->is_unsigned = t->is_of_keys;
    const void *borrowed = find_borrowable_values(t, first, n);
    if (borrowed)
        return rk_column_borrow_values(out, borrowed, n, t->rows.layout == LIST_FIXED ? t->rows.each : 1);
    RK_TRY(rk_column_reserve(out, n, n_values, 0));
    out->per_row = -1;
    out->n_text_bytes = 0;
    RK_TRY(find_first_value(t, first, n, &t->first_text));
    out->text = words->text && words->length > t->first_text && list_offset_at(words, t->first_text) >= 0
                    ? words->text + list_offset_at(words, t->first_text)
                    : "";
    out->offsets[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        rk_status status = append_values_of_row(t, first + i);
        if (status == RK_BAD_DATA) /* of a value; others are of the array */
            return rk_error_context(status, "row %lld", (long long)(t->manner->first_row + i));
        RK_TRY(status);
        out->offsets[i + 1] = out->n_values;
    }
    return RK_OK;
}

rk_status rk_arrow_read_column(const struct ArrowSchema *s, const struct ArrowArray *a, int64_t child,
                               const rk_arrow_manner *manner, rk_column *out) {
    column_reader t = {.manner = manner, .out = out};
    RK_TRY(open_column_reader(s->children[child]->name, s->children[child], a->children[child], &t));
    return append_values_of_rows(&t, a->offset, a->length);
}
