/* Patterns of columns, `match: "cat_*"`, become features. */
#include <fnmatch.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text/name_map.h"
#include "base/text/text.h"
#include "data/transform/joined_rows.h"

typedef struct expander {
    const rk_data_section *section;
    const rk_yaml *yaml;
    const rk_columns *columns; /* of the training data, and of the files joined to it */
    size_t n_columns;
    const char **names;    /* [n_columns] */
    rk_name_map taken;     /* columns that are something already */
    rk_data_feature *made; /* [n_made] */
    size_t n_made, capacity;
} expander;

static rk_status mark_column_used(expander *e, const char *column) {
    return !column || rk_name_map_find(&e->taken, column) >= 0 ? RK_OK
                                                               : rk_name_map_add(&e->taken, column, 0);
}

/* What a pattern leaves alone: what has an entry of its own, and what is not to be seen by the model. */
static rk_status mark_listed_columns_used(expander *e) {
    const rk_data_section *s = e->section;
    for (int64_t i = 0; i < s->n_labels; i++) RK_TRY(mark_column_used(e, rk_label_column(&s->labels[i])));
    RK_TRY(mark_column_used(e, s->sample_weight));
    RK_TRY(mark_column_used(e, s->group));
    RK_TRY(mark_column_used(e, s->timestamp));
    for (int64_t i = 0; i < s->n_features; i++) {
        RK_TRY(mark_column_used(e, s->features[i].name));
        RK_TRY(mark_column_used(e, s->features[i].column));
        RK_TRY(mark_column_used(e, s->features[i].weights));
    }
    return RK_OK;
}

static rk_status copy_optional_text(const char *text, char **out) {
    *out = NULL;
    return text ? rk_strdup(text, out) : RK_OK;
}

/* The pattern's keys for one column. */
static rk_status copy_feature(const rk_data_feature *pattern, const char *name, rk_data_feature *out) {
    *out = *pattern;
    out->name = out->match = out->column = out->weights = out->separator = out->default_value =
        out->vocabulary.path = NULL;
    out->bucketize = NULL;
    out->n_bucketize = 0;
    out->cross = NULL;
    RK_TRY(rk_strdup(name, &out->name));
    RK_TRY(copy_optional_text(pattern->weights, &out->weights));
    RK_TRY(copy_optional_text(pattern->separator, &out->separator));
    RK_TRY(copy_optional_text(pattern->default_value, &out->default_value));
    RK_TRY(copy_optional_text(pattern->vocabulary.path, &out->vocabulary.path));
    if (!pattern->n_bucketize) return RK_OK;
    RK_TRY(rk_alloc((size_t)pattern->n_bucketize, sizeof *out->bucketize, &out->bucketize));
    memcpy(out->bucketize, pattern->bucketize, (size_t)pattern->n_bucketize * sizeof *out->bucketize);
    out->n_bucketize = pattern->n_bucketize;
    return RK_OK;
}

static rk_status append_feature(expander *e, rk_data_feature **out) {
    RK_TRY(rk_reserve_one_more(&e->made, e->n_made, &e->capacity, sizeof *e->made));
    *out = &e->made[e->n_made++];
    **out = (rk_data_feature){0};
    return RK_OK;
}

static rk_status no_match_error(const expander *e, const rk_data_feature *pattern) {
    const char *nearest = rk_nearest_name(pattern->match, e->names, e->n_columns);
    rk_status status = rk_error(RK_CONFIG, "%s: key 'match': no column matches '%s'",
                                rk_yaml_location_of(e->yaml, pattern->line).text, pattern->match);
    if (nearest) return rk_error_hint(status, "the nearest column is '%s'", nearest);
    return e->n_columns ? rk_error_hint(status, "the first of %zu columns is '%s'", e->n_columns, e->names[0])
                        : status;
}

/* A pattern makes no feature of a column that one of another name is made from, or whose name a feature of
 * another column has. */
static void warn_of_skipped_column(const rk_data_section *s, const rk_data_feature *pattern,
                                   const char *column) {
    const rk_data_feature *other = NULL;
    for (int64_t i = 0; i < s->n_features; i++) {
        const rk_data_feature *f = &s->features[i];
        bool has_name = f->name && strcmp(f->name, column) == 0,
             has_column = f->column && strcmp(f->column, column) == 0;
        if (has_name && (has_column || (!f->column && !f->n_cross))) return; /* an entry of its own */
        if (has_name || has_column) other = f;
    }
    if (other)
        rk_log(RK_LOG_WARNING,
               "match: '%s' skips the column '%s', because of the feature '%s'\nhint: to make "
               "it a feature too, add an entry: {name: ..., column: %s, ...}",
               pattern->match, column, other->name, column);
}

static rk_status expand_pattern(expander *e, const rk_data_feature *pattern) {
    bool any = false;
    for (size_t c = 0; c < e->n_columns; c++) {
        if (fnmatch(pattern->match, e->names[c], 0) != 0) continue;
        any = true;
        if (rk_name_map_find(&e->taken, e->names[c]) >= 0) {
            warn_of_skipped_column(e->section, pattern, e->names[c]);
            continue;
        }
        RK_TRY(mark_column_used(e, e->names[c]));
        rk_data_feature *feature;
        RK_TRY(append_feature(e, &feature));
        RK_TRY(copy_feature(pattern, e->names[c], feature));
    }
    return any ? RK_OK : no_match_error(e, pattern);
}

/* The columns' names: of the first rows of the training data, then of what is joined. */
static rk_status list_columns(expander *e, const rk_joined_rows *rows, const rk_columns *own) {
    size_t n = (size_t)own->n_columns;
    for (size_t j = 0; j < rows->n_joins; j++) n += (size_t)rows->joins[j].columns.n_columns;
    RK_TRY(rk_alloc(n, sizeof *e->names, &e->names));
    for (int32_t c = 0; c < own->n_columns; c++) e->names[e->n_columns++] = own->columns[c].name;
    for (size_t j = 0; j < rows->n_joins; j++)
        for (int32_t c = 0; c < rows->joins[j].columns.n_columns; c++)
            e->names[e->n_columns++] = rows->joins[j].columns.columns[c].name;
    return RK_OK;
}

static rk_status expand_patterns(expander *e, rk_joined_rows *rows) {
    const rk_data_section *s = e->section;
    const rk_chunk *chunk;
    RK_TRY(rk_source_read_chunk(rows->source, &chunk));
    RK_TRY(list_columns(e, rows, &chunk->columns));
    RK_TRY(mark_listed_columns_used(e));
    for (int64_t i = 0; i < s->n_features; i++) {
        if (s->features[i].match) {
            RK_TRY(expand_pattern(e, &s->features[i]));
            continue;
        }
        rk_data_feature *feature;
        RK_TRY(append_feature(e, &feature));
    }
    return RK_OK;
}

/* The made features take the place of the section's, whose own entries move over. */
static void replace_features(expander *e, rk_data_section *s, const rk_schema *schema) {
    size_t at = 0;
    for (int64_t i = 0; i < s->n_features; i++) {
        rk_data_feature *from = &s->features[i];
        if (!from->match) {
            while (e->made[at].name) at++;
            e->made[at++] = *from;
        } else {
            rk_schema_release(schema, from);
        }
    }
    rk_free(s->features);
    s->features = e->made;
    s->n_features = (int64_t)e->n_made;
    e->made = NULL;
    e->n_made = 0;
}

rk_status rk_data_section_expand(rk_data_section *s, const rk_yaml *yaml, const char *directory) {
    expander e = {.section = s, .yaml = yaml};
    RK_AUTO(rk_joined_rows_release) rk_joined_rows rows = {0};
    const rk_data_section manner = rk_data_section_of_split(s, &s->train);
    rk_status status;
    RK_GOTO(
        rk_joined_rows_open_all_columns(&manner, directory, s->train.path, (size_t)s->train.n_path, &rows));
    RK_GOTO(expand_patterns(&e, &rows));
    replace_features(&e, s, &rk_data_feature_schema);
done:
    for (size_t i = 0; i < e.n_made; i++) rk_schema_release(&rk_data_feature_schema, &e.made[i]);
    RK_FREE_ALL(e.made, e.names);
    rk_name_map_release(&e.taken);
    return status == RK_OK ? rk_data_section_check(s, yaml) : status;
}
