/* The schema: its leaves as columns. */
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "format/parquet/parquet_internal.h"

enum { REQUIRED, OPTIONAL, REPEATED };
enum { MOST_DEPTH = 64, MOST_SCALE = 1000 };

/* Of LogicalType and ConvertedType. */
enum {
    LOGICAL_MAP = 2,
    LOGICAL_LIST = 3,
    LOGICAL_DECIMAL = 5,
    LOGICAL_DATE = 6,
    LOGICAL_TIMESTAMP = 8,
    LOGICAL_NULL = 11,
    LOGICAL_HALF = 15
};
enum {
    CONVERTED_MAP = 1,
    CONVERTED_MAP_KEY_VALUE = 2,
    CONVERTED_LIST = 3,
    CONVERTED_DECIMAL = 5,
    CONVERTED_DATE = 6,
    CONVERTED_TIMESTAMP_MICROS = 10
};

typedef struct walker {
    rk_parquet *file;
    const rk_parquet_element *elements;
    int64_t n, next;
    rk_buffer name; /* of the path so far */
} walker;

typedef struct levels {
    int32_t definition, repetition, depth;
} levels;

static bool is_list_element(const rk_parquet_element *e) {
    return e->logical == LOGICAL_LIST || e->converted == CONVERTED_LIST;
}
static bool is_map_element(const rk_parquet_element *e) {
    return e->logical == LOGICAL_MAP || e->converted == CONVERTED_MAP ||
           e->converted == CONVERTED_MAP_KEY_VALUE;
}
static bool is_decimal_element(const rk_parquet_element *e) {
    return e->logical == LOGICAL_DECIMAL || e->converted == CONVERTED_DECIMAL;
}

static bool is_time_element(const rk_parquet_element *e) {
    return (e->logical >= LOGICAL_DATE && e->logical <= LOGICAL_TIMESTAMP) ||
           (e->converted >= CONVERTED_DATE && e->converted <= CONVERTED_TIMESTAMP_MICROS) ||
           e->physical == RK_PARQUET_INT96;
}

static rk_status set_leaf_type(const walker *w, const rk_parquet_element *e, rk_parquet_leaf *leaf) {
    static const rk_column_type types[RK_PARQUET_N_PHYSICAL] = {RK_COLUMN_I64,  RK_COLUMN_I64, RK_COLUMN_I64,
                                                                RK_COLUMN_I64,  RK_COLUMN_F32, RK_COLUMN_F64,
                                                                RK_COLUMN_TEXT, RK_COLUMN_TEXT};
    if (e->physical < 0 || e->physical >= RK_PARQUET_N_PHYSICAL)
        return rk_parquet_bad_footer_error(w->file, "a column of no known type");
    leaf->physical = (rk_parquet_physical)e->physical;
    leaf->column.type = types[e->physical];
    const bool is_fixed = leaf->physical == RK_PARQUET_FIXED, is_bytes = leaf->column.type == RK_COLUMN_TEXT;
    const bool is_whole = leaf->physical == RK_PARQUET_INT32 || leaf->physical == RK_PARQUET_INT64;
    if (is_fixed && (e->n_bytes < 0 || e->n_bytes > RK_PARQUET_MAX_PAGE_BYTES))
        return rk_parquet_bad_footer_error(w->file, "a value of a length that cannot be");
    leaf->n_bytes = is_fixed ? (int32_t)e->n_bytes : 0;
    if (leaf->physical == RK_PARQUET_INT96) leaf->meaning = RK_PARQUET_TIMESTAMP;
    leaf->is_time = is_time_element(e);
    if (is_whole && e->is_unsigned) leaf->meaning = RK_PARQUET_UNSIGNED;
    if (is_fixed && e->logical == LOGICAL_HALF && leaf->n_bytes == 2) {
        leaf->meaning = RK_PARQUET_HALF;
        leaf->column.type = RK_COLUMN_F32;
    }
    if (e->logical == LOGICAL_NULL) {
        leaf->meaning = RK_PARQUET_NOTHING;
        leaf->column.type = RK_COLUMN_TEXT;
    }
    if (is_decimal_element(e) && (is_bytes || is_whole)) {
        if (e->scale < 0 || e->scale > MOST_SCALE)
            return rk_parquet_bad_footer_error(w->file, "a decimal of a scale that cannot be");
        leaf->meaning = RK_PARQUET_DECIMAL;
        leaf->scale = (int32_t)e->scale;
        leaf->column.type = RK_COLUMN_TEXT;
    }
    return RK_OK;
}

static rk_status add_leaf(walker *w, const rk_parquet_element *e, levels at) {
    rk_parquet *file = w->file;
    rk_parquet_leaf leaf = {.max_level = at.definition, .max_repetition = at.repetition};
    RK_TRY(w->name.status);
    RK_TRY(set_leaf_type(w, e, &leaf));
    if (at.repetition > 1) leaf.column.refused = "lists of lists are not supported";
    RK_TRY(rk_reserve_one_more(&file->leaves, (size_t)file->n_leaves, &file->leaves_capacity,
                               sizeof *file->leaves));
    RK_TRY(rk_strdup(w->name.data ? w->name.data : "", &leaf.column.name));
    file->leaves[file->n_leaves++] = leaf;
    return RK_OK;
}

/* Whether a list's repeated group is itself the element, as some writers have it: a struct, or one of the
 * names that the format lists. */
static bool is_repeated_group_the_element(const rk_parquet_element *list,
                                          const rk_parquet_element *repeated) {
    static const char tuple[] = "_tuple";
    const size_t n = list->name.n_bytes;
    return repeated->n_children != 1 || rk_span_equal(repeated->name, "array") ||
           (repeated->name.n_bytes == n + strlen(tuple) &&
            memcmp(repeated->name.data, list->name.data, n) == 0 &&
            memcmp(repeated->name.data + n, tuple, strlen(tuple)) == 0);
}

static rk_status walk_schema_element(walker *w, levels at, bool is_named);

/* The children of a group that was just taken; those of a list and a map, which stand in a repeated group of
 * its own, as if they stood in the list itself. */
static rk_status walk_schema_children(walker *w, const rk_parquet_element *e, levels at) {
    const rk_parquet_element *first = w->next < w->n ? &w->elements[w->next] : NULL;
    const bool wraps = (is_list_element(e) || is_map_element(e)) && e->n_children == 1 && first &&
                       first->repetition == REPEATED;
    if (!wraps || first->n_children <= 0) {
        for (int64_t i = 0; i < e->n_children; i++) RK_TRY(walk_schema_element(w, at, !wraps));
        return RK_OK;
    }
    const bool hides_element = is_list_element(e) && !is_repeated_group_the_element(e, first);
    w->next++;
    at = (levels){at.definition + 1, at.repetition + 1, at.depth + 1};
    for (int64_t i = 0; i < first->n_children; i++) RK_TRY(walk_schema_element(w, at, !hides_element));
    return RK_OK;
}

/* The next element and all below it. */
static rk_status walk_schema_element(walker *w, levels at, bool is_named) {
    if (w->next >= w->n) return rk_parquet_bad_footer_error(w->file, "a schema without some elements");
    if (at.depth >= MOST_DEPTH) return rk_parquet_bad_footer_error(w->file, "a schema nested too deeply");
    const rk_parquet_element *e = &w->elements[w->next++];
    const size_t n_before = w->name.n_bytes;
    if (e->repetition < REQUIRED || e->repetition > REPEATED || e->n_children < 0 || e->n_children > w->n ||
        (e->name.n_bytes && memchr(e->name.data, 0, e->name.n_bytes)))
        return rk_parquet_bad_footer_error(w->file, "a schema that cannot be");
    at.depth++;
    at.definition += e->repetition != REQUIRED;
    at.repetition += e->repetition == REPEATED;
    if (is_named) {
        if (n_before) rk_buffer_append_u8(&w->name, '.');
        rk_buffer_append(&w->name, e->name.data, e->name.n_bytes);
    }
    RK_TRY(e->n_children ? walk_schema_children(w, e, at) : e->physical < 0 ? RK_OK : add_leaf(w, e, at));
    w->name.n_bytes = n_before;
    if (w->name.data) w->name.data[n_before] = 0;
    return RK_OK;
}

rk_status rk_parquet_read_schema(rk_parquet *file, const rk_parquet_element *elements, int64_t n) {
    walker w = {.file = file, .elements = elements, .n = n, .next = 1};
    rk_status status = RK_OK;
    for (int64_t i = 0; i < elements[0].n_children && status == RK_OK; i++)
        status = walk_schema_element(&w, (levels){0}, true);
    rk_buffer_release(&w.name);
    RK_TRY(status);
    if (w.next != n) return rk_parquet_bad_footer_error(file, "a schema with elements to spare");
    RK_FAIL_IF(file->n_leaves == 0, RK_BAD_DATA, "'%s' has no columns", file->path);
    return RK_OK;
}
