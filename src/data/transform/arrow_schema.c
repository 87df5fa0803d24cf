/* The columns that transforms read, told by a schema of the Arrow C data interface. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/transform/transforms_apply.h"
#include "data/transform/transforms_internal.h"

static void release_arrow_schema(struct ArrowSchema *schema) {
    for (int64_t c = 0; schema->children && c < schema->n_children; c++) {
        if (!schema->children[c]) continue;
        if (schema->children[c]->release) schema->children[c]->release(schema->children[c]);
        rk_free(schema->children[c]);
    }
    RK_FREE_ALL(schema->children, (char *)(size_t)schema->name);
    rk_free(schema->private_data); /* the format */
    schema->release = NULL;
}

static rk_status init_arrow_schema(struct ArrowSchema *out, const char *format, const char *name,
                                   int64_t n_children) {
    char *own_format = NULL, *own_name = NULL;
    *out = (struct ArrowSchema){.flags = ARROW_FLAG_NULLABLE, .release = release_arrow_schema};
    RK_TRY(rk_strdup(format, &own_format));
    out->format = out->private_data = own_format;
    RK_TRY(rk_strdup(name, &own_name));
    out->name = own_name;
    RK_TRY(rk_alloc((size_t)n_children, sizeof *out->children, &out->children));
    out->n_children = n_children;
    for (int64_t c = 0; c < n_children; c++) RK_TRY(rk_alloc(1, sizeof *out->children[c], &out->children[c]));
    return RK_OK;
}

/* A type that holds the column's values, of those that are taken. */
static const char *arrow_format_of(const rk_transforms *t, const char *name, int64_t *width) {
    const rk_data_section *s = t->section;
    *width = 1;
    for (int64_t i = 0; i < s->n_features; i++) {
        const rk_data_feature *f = &s->features[i];
        if (f->weights && strcmp(name, f->weights) == 0) return "f";
        if (f->n_cross || strcmp(name, rk_feature_column(f)) != 0) continue;
        *width = f->dense ? f->width : 1;
        return f->dense ? "f" : f->identity ? "l" : f->n_bucketize || f->quantiles ? "g" : "u";
    }
    for (int64_t i = 0; i < s->n_labels; i++)
        if (strcmp(name, rk_label_column(&s->labels[i])) == 0) return s->labels[i].n_positive ? "u" : "f";
    return s->sample_weight && strcmp(name, s->sample_weight) == 0 ? "f" : "u"; /* a group, or a join's key */
}

static rk_status init_schema_of_column(const rk_transforms *t, const char *name, struct ArrowSchema *out) {
    int64_t width;
    char list[32];
    const char *format = arrow_format_of(t, name, &width);
    if (width == 1) return init_arrow_schema(out, format, name, 0);
    snprintf(list, sizeof list, "+w:%lld", (long long)width);
    RK_TRY(init_arrow_schema(out, list, name, 1));
    return init_arrow_schema(out->children[0], format, "item", 0);
}

static rk_status init_schema_of_columns(const rk_transforms *t, const char *const *names, size_t n,
                                        struct ArrowSchema *out) {
    int64_t at = 0;
    RK_TRY(init_arrow_schema(out, "+s", "", (int64_t)n));
    out->flags = 0;
    for (int labels = 0; labels < 2; labels++)
        for (size_t i = 0; i < n; i++)
            if (rk_transforms_is_label_column(t, names[i]) == (labels == 1))
                RK_TRY(init_schema_of_column(t, names[i], out->children[at++]));
    return RK_OK;
}

rk_status rk_transforms_input_schema(const rk_transforms *t, struct ArrowSchema *out) {
    RK_AUTO(rk_joined_rows_release) rk_joined_rows rows = {0};
    RK_AUTOFREE const char **names = NULL;
    struct ArrowSchema made = {.release = release_arrow_schema};
    size_t n;
    RK_TRY(rk_alloc(t->n_names + (size_t)t->section->n_joins, sizeof *names, &names));
    rk_status status =
        rk_joined_rows_open_joins(t->section, t->directory, t->names, t->n_names, &rows, names, &n);
    if (status == RK_OK) status = init_schema_of_columns(t, names, n, &made);
    if (status == RK_OK)
        *out = made;
    else
        release_arrow_schema(&made);
    return status;
}
