/* Columns in memory through the transforms: <reckon/transforms.h>. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "data/source/arrow_columns.h"
#include "data/transform/transforms_apply.h"
#include "data/transform/transforms_internal.h"

struct rk_transform_workspace {
    const rk_transforms *transforms;
    rk_joined_rows rows; /* joined files and bindings; no source */
    const char **wanted; /* [n_wanted] names of columns */
    size_t n_wanted;
    int64_t *children;      /* [n_wanted] of the struct, as they were found last */
    bool *is_context;       /* [n_wanted] columns that the context has given */
    bool *is_single;        /* [n_wanted] of these, those of its features alone: one row, for all */
    bool *of_context;       /* [section->n_features] whose columns are such */
    bool *features, *dense; /* the same of the batch: [n_features], [n_dense] */
    rk_context_columns context;
    bool has_context;
    rk_columns columns; /* [n_wanted] */
    rk_transform_scratch memory;
    rk_window window;
    rk_batch_memory batch;
    int64_t *n_unknown; /* [n_features] of the batch */
};

rk_status rk_transform_workspace_create(const rk_transforms *t, rk_transform_workspace **out) {
    rk_transform_workspace *w;
    RK_TRY(rk_alloc(1, sizeof *w, &w));
    w->transforms = t;
    size_t n_features = (size_t)t->schema.n_features, n_dense = (size_t)t->schema.n_dense;
    rk_status status;
    RK_GOTO(rk_alloc(t->n_names + (size_t)t->section->n_joins, sizeof *w->wanted, &w->wanted));
    RK_GOTO(rk_joined_rows_open_joins(t->section, t->directory, t->names, t->n_names, &w->rows, w->wanted,
                                      &w->n_wanted));
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY(w->n_wanted, w->children), RK_ARRAY(w->n_wanted, w->is_context),
                         RK_ARRAY(w->n_wanted, w->is_single),
                         RK_ARRAY((size_t)t->section->n_features, w->of_context),
                         RK_ARRAY(n_features, w->features), RK_ARRAY(n_dense, w->dense)));
    w->context = (rk_context_columns){w->features, w->dense};
    RK_GOTO(rk_columns_init(&w->columns, (int32_t)w->n_wanted, w->wanted, NULL)); /* types: each batch's */
    RK_GOTO(rk_window_init(&w->window, &t->schema, (rk_window_columns){0}));
    RK_GOTO(rk_batch_memory_init(&w->batch, &w->window));
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY(n_features, w->n_unknown), RK_ARRAY(n_features, w->memory.n_dropped)));
    *out = w;
    w = NULL;
done:
    rk_transform_workspace_free(w);
    return status;
}

void rk_transform_workspace_free(rk_transform_workspace *w) {
    if (!w) return;
    rk_joined_rows_release(&w->rows);
    rk_columns_release(&w->columns);
    rk_transform_scratch_release(&w->memory);
    if (w->batch.rows.schema) rk_batch_memory_release(&w->batch);
    if (w->window.schema) rk_window_release(&w->window);
    RK_FREE_ALL(w->wanted, w->children, w->is_context, w->is_single, w->of_context, w->features, w->dense,
                w->n_unknown, w);
}

static rk_status missing_column_error(const rk_arrow_rows *rows, const rk_arrow_rows *context,
                                      const char *name) {
    RK_AUTOFREE const char **names = NULL;
    const struct ArrowSchema *schemas[] = {rows->schema, context ? context->schema : NULL};
    size_t n = 0;
    int64_t n_names = schemas[0]->n_children + (context ? schemas[1]->n_children : 0);
    RK_TRY(rk_alloc((size_t)n_names, sizeof *names, &names));
    for (int i = 0; i < 2; i++)
        for (int64_t c = 0; schemas[i] && c < schemas[i]->n_children; c++)
            names[n++] = schemas[i]->children[c]->name;
    const char *nearest = rk_nearest_name(name, names, n);
    rk_status status = rk_error(RK_BAD_DATA, "there is no column '%s'", name);
    return nearest ? rk_error_hint(status, "is '%s' meant?", nearest) : status;
}

/* The child of the name; -1: there is none. Mostly it is where it was in the batch before. */
static int64_t find_arrow_child(const struct ArrowSchema *schema, const char *name, int64_t before) {
    if (before < schema->n_children && strcmp(schema->children[before]->name, name) == 0) return before;
    for (int64_t c = 0; c < schema->n_children; c++)
        if (strcmp(schema->children[c]->name, name) == 0) return c;
    return -1;
}

static rk_status read_column(const rk_transform_workspace *w, const rk_arrow_rows *rows, int64_t child,
                             rk_column *column) {
    return rk_arrow_read_column(rows->schema, rows->array, child,
                                &(rk_arrow_manner){w->transforms->section, 0, true}, column);
}

/* The column of the rows that a name's values come from: its own, or the key of the file that has them. */
static int32_t source_column_of(const rk_transform_workspace *w, int32_t name) {
    rk_binding binding = w->rows.bindings[name];
    return binding.join < 0 ? binding.column : w->rows.joins[binding.join].key_column;
}

static bool is_column_of_single_row(const rk_transform_workspace *w, int32_t name) {
    return name < 0 || w->is_single[source_column_of(w, name)];
}

static bool is_feature_of_context(const rk_transform_workspace *w, int64_t feature) {
    const rk_fitted *fitted = &w->transforms->fitted[feature];
    bool all = true;
    int64_t n_cross = w->transforms->section->features[feature].n_cross;
    for (int64_t c = 0; c < n_cross; c++) all &= w->features[fitted->crossed[c]];
    return n_cross
               ? all
               : is_column_of_single_row(w, fitted->name) && is_column_of_single_row(w, fitted->weight_name);
}

/* Features that the context decides. */
static void find_features_of_context(rk_transform_workspace *w) {
    const rk_data_section *s = w->transforms->section;
    for (int crosses = 0; crosses < 2; crosses++)
        for (int64_t f = 0; f < s->n_features; f++) {
            const rk_data_feature *feature = &s->features[f];
            int32_t output = w->transforms->fitted[f].output;
            if ((feature->n_cross > 0) != crosses) continue;
            w->of_context[f] = is_feature_of_context(w, f);
            if (!feature->dense) w->features[output] = w->of_context[f];
            for (int64_t c = 0; feature->dense && c < feature->width; c++)
                w->dense[output + c] = w->of_context[f];
        }
}

/* A column that labels or other features read too is theirs, row by row. False: there was none. */
static bool mark_column_as_rowwise(rk_transform_workspace *w, int32_t name) {
    if (name < 0 || !w->is_single[source_column_of(w, name)]) return false;
    w->is_single[source_column_of(w, name)] = false;
    return true;
}

static rk_status read_columns_of_context(rk_transform_workspace *w, int64_t n) {
    const rk_transforms *t = w->transforms;
    memcpy(w->is_single, w->is_context, w->n_wanted * sizeof *w->is_single);
    for (size_t name = 0; name < t->n_labels_names; name++) mark_column_as_rowwise(w, (int32_t)name);
    for (bool changed = true; changed;) {
        changed = false;
        find_features_of_context(w);
        for (int64_t f = 0; f < t->section->n_features; f++) {
            if (w->of_context[f] || t->section->features[f].n_cross) continue;
            changed |= mark_column_as_rowwise(w, t->fitted[f].name);
            changed |= mark_column_as_rowwise(w, t->fitted[f].weight_name);
        }
    }
    for (size_t i = 0; i < w->n_wanted; i++)
        if (w->is_context[i] && !w->is_single[i]) RK_TRY(rk_column_repeat_row(&w->columns.columns[i], n));
    return RK_OK;
}

static rk_status read_columns(rk_transform_workspace *w, const rk_arrow_rows *rows,
                              const rk_arrow_rows *context) {
    int64_t n = rows->array->length;
    for (size_t i = 0; i < w->n_wanted; i++) {
        const char *name = w->wanted[i];
        rk_column *column = &w->columns.columns[i];
        const rk_arrow_rows *from = rows;
        int64_t child = find_arrow_child(from->schema, name, w->children[i]);
        if (child < 0 && context) {
            from = context;
            child = find_arrow_child(from->schema, name, w->children[i]);
        }
        w->is_context[i] = child >= 0 && from == context;
        if (child < 0) {
            bool may_miss = rows->may_miss && strcmp(rows->may_miss, name) == 0;
            if (!may_miss && !rk_transforms_is_label_column(w->transforms, name))
                return missing_column_error(rows, context, name);
            rk_column_set_type(column, RK_COLUMN_TEXT);
            RK_TRY(rk_column_set_empty_rows(column, n));
            continue;
        }
        w->children[i] = child;
        RK_TRY(read_column(w, from, child, column));
    }
    w->columns.n_rows = n;
    w->has_context = context != NULL;
    return context ? read_columns_of_context(w, n) : RK_OK;
}

/* All rows, or as many as there are before a bad one, which its halves find and which says what it is. */
static rk_status transform_rows_before_bad_one(rk_transform_workspace *w, int64_t first, int64_t n) {
    const rk_piece piece = {&w->rows, &w->columns, first,
                            n,        &w->memory,  w->has_context ? w->of_context : NULL};
    rk_status status = rk_transforms_transform_rows(w->transforms, &piece, &w->window);
    if (status == RK_BAD_DATA && n == 1) return rk_error_context(status, "row %lld", (long long)first);
    if (status != RK_BAD_DATA) return status;
    RK_TRY(transform_rows_before_bad_one(w, first, n / 2));
    return transform_rows_before_bad_one(w, first + n / 2, n - n / 2);
}

/* Of n ids of a feature with a vocabulary, those of values that it has not. */
static int64_t count_unknown_ids(const rk_data_feature *f, const rk_fitted *fitted, const int64_t *ids,
                                 size_t n) {
    const int64_t oov = f->vocabulary.oov, n_whole = rk_fitted_n_ids(f, fitted);
    int64_t n_unknown = 0;
    if (f->quotient_remainder)
        for (size_t k = 0; k < n; k += 2) n_unknown += rk_quotient_remainder_id(f, n_whole, ids + k) < oov;
    else
        for (size_t k = 0; k < n; k++) n_unknown += ids[k] < oov;
    return n_unknown;
}

/* Values that no vocabulary has: in buckets of their own, or dropped. */
static void count_unknown_values(rk_transform_workspace *w) {
    const rk_transforms *t = w->transforms;
    for (int64_t i = 0; i < t->section->n_features; i++) {
        const rk_data_feature *f = &t->section->features[i];
        if (f->dense) continue;
        const int32_t output = t->fitted[i].output;
        const rk_id_list *ids = &w->window.features[output];
        w->n_unknown[output] = w->memory.n_dropped[output];
        size_t n = w->has_context && w->of_context[i] && ids->n ? ids->n_ids / (size_t)ids->n : ids->n_ids;
        if (f->vocabulary.line) w->n_unknown[output] += count_unknown_ids(f, &t->fitted[i], ids->ids, n);
    }
}

rk_status rk_transforms_apply_with_context(const rk_transforms *t, const rk_arrow_rows *context,
                                           const rk_arrow_rows *rows, rk_transform_workspace *w,
                                           const rk_batch **out) {
    RK_FAIL_IF(w->transforms != t, RK_INVALID_ARGUMENT, "the workspace was created for other transforms");
    RK_TRY(rk_arrow_check_array(rows->schema, rows->array));
    if (context) {
        RK_TRY(rk_arrow_check_array(context->schema, context->array));
        RK_FAIL_IF(context->array->length != 1, RK_INVALID_ARGUMENT, "the context must have 1 row, not %lld",
                   (long long)context->array->length);
    }
    int64_t n = rows->array->length;
    RK_TRY(read_columns(w, rows, context));
    rk_window_clear(&w->window);
    bool labelled = rk_transforms_has_label_columns(t, &w->rows, &w->columns, true);
    w->window.has.labels = labelled;
    w->window.has.weights = labelled && t->weight_name >= 0;
    w->window.has.groups = labelled && t->group_name >= 0;
    memset(w->memory.n_dropped, 0, (size_t)t->schema.n_features * sizeof *w->memory.n_dropped);
    if (n) RK_TRY(transform_rows_before_bad_one(w, 0, n));
    RK_TRY(rk_batch_view_window(&w->batch, &w->window, 0, n));
    count_unknown_values(w);
    *out = &w->batch.batch;
    return RK_OK;
}

rk_status rk_transforms_apply(const rk_transforms *t, const struct ArrowSchema *schema,
                              const struct ArrowArray *array, rk_transform_workspace *w,
                              const rk_batch **out) {
    const rk_arrow_rows rows = {schema, array, NULL};
    return rk_transforms_apply_with_context(t, NULL, &rows, w, out);
}

const rk_context_columns *rk_transform_workspace_context(const rk_transform_workspace *w) {
    return w->has_context ? &w->context : NULL;
}

const int64_t *rk_transform_workspace_unknown(const rk_transform_workspace *w) {
    return w->n_unknown;
}
