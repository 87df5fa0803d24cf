/* A piece of rows into a window: labels, features, crosses; a column at a time where that can be. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "data/transform/transforms_apply.h"
#include "data/transform/transforms_internal.h"

void rk_transform_scratch_release(rk_transform_scratch *memory) {
    for (size_t i = 0; i < memory->n_whole; i++) rk_id_list_release(&memory->whole[i]);
    RK_FREE_ALL(memory->places, memory->stops, memory->offsets, memory->whole, memory->n_dropped);
    *memory = (rk_transform_scratch){0};
}

bool rk_transforms_is_label_column(const rk_transforms *t, const char *name) {
    bool found = false;
    for (size_t i = 0; i < t->n_names; i++)
        if (strcmp(name, t->names[i]) == 0) {
            if (i >= t->n_labels_names) return false; /* a feature's too */
            found = true;
        }
    return found;
}

/* A task's label that rows may be without says nothing, unless all are such. */
bool rk_transforms_has_label_columns(const rk_transforms *t, const rk_joined_rows *rows,
                                     const rk_columns *chunk, bool optional) {
    bool misses = false, has_some = chunk->n_rows == 0;
    for (size_t i = 0; i < t->n_labels_names && chunk->n_rows > 0; i++) {
        rk_binding binding = rows->bindings[i];
        const rk_column *column = binding.join < 0
                                      ? &chunk->columns[binding.column]
                                      : &rows->joins[binding.join].columns.columns[binding.column];
        bool is_label = i < (size_t)t->schema.n_tasks,
             has_default = (int32_t)i == t->weight_name && !isnan(t->section->default_sample_weight);
        bool is_needed =
            is_label ? !t->schema.tasks[i].optional
                     : optional && !has_default; /* a weight that must be there is missed by its row */
        if (column->n_values == 0 && is_needed) misses = true;
        if (column->n_values && is_label) has_some = true;
    }
    return !misses && (has_some || !optional);
}

static rk_status read_label(const rk_label_section *label, rk_values values, float *out) {
    const char *column = rk_label_column(label);
    bool absent = values.begin == values.end ||
                  (rk_column_is_float(values.column) && isnan(rk_column_number(values.column, values.begin)));
    if (absent && label->optional) {
        *out = NAN;
        return RK_OK;
    }
    if (values.begin == values.end)
        return rk_error_hint(rk_error(RK_BAD_DATA, "the label '%s' is missing", column),
                             "if rows may lack this label, set its 'optional: true'");
    char scratch[RK_NUMBER_BYTES];
    rk_span text = rk_value_as_text(values.column, values.begin, scratch);
    if (label->n_positive) {
        *out = 0;
        for (int64_t i = 0; i < label->n_positive; i++)
            if (rk_span_equal(text, label->positive[i])) *out = 1;
        return RK_OK;
    }
    double x;
    RK_FAIL_IF(!rk_value_as_number(values.column, values.begin, &x) || !isfinite(x), RK_BAD_DATA,
               "the label '%s' is '%.*s', not a number", column, (int)text.n_bytes, text.data);
    if (!isnan(label->threshold)) x = x >= rk_round_bound_to_column(values.column, label->threshold);
    if (label->loss == 0 && (x < 0 || x > 1))
        return rk_error_hint(
            rk_error(RK_BAD_DATA, "the label '%s' is %g; a cross-entropy needs 0 to 1", column, x),
            "set the label's loss to mse, or give a threshold");
    RK_FAIL_IF(!isfinite((float)x), RK_BAD_DATA, "the label '%s' is %g, which is too large for f32", column,
               x);
    *out = (float)x;
    return RK_OK;
}

static rk_status read_labels(const rk_transforms *t, const rk_piece *piece, rk_window *out) {
    for (int32_t task = 0; task < t->schema.n_tasks; task++) {
        float *labels = out->labels + out->n_rows * t->schema.n_tasks + task;
        bool done = false;
        if (piece->n > 1) RK_TRY(rk_transform_labels_by_column(t, task, piece, out, &done));
        for (int64_t i = 0; !done && i < piece->n; i++)
            RK_TRY(read_label(&t->schema.tasks[task],
                              rk_joined_rows_get_values(piece->rows, piece->chunk, task, piece->first + i),
                              &labels[i * t->schema.n_tasks]));
    }
    return RK_OK;
}

static rk_status read_sample_weight(const rk_data_section *s, rk_values values, float *out) {
    double weight = s->default_sample_weight;
    if (values.begin == values.end && isnan(weight))
        return rk_error_hint(
            rk_error(RK_BAD_DATA, "column '%s': the sample weight is missing", s->sample_weight),
            "to give such rows a weight, set default_sample_weight: 1");
    RK_FAIL_IF(values.begin < values.end && (!rk_value_as_number(values.column, values.begin, &weight) ||
                                             !(weight >= 0) || !isfinite((float)weight)),
               RK_BAD_DATA, "column '%s': a sample weight must be a number of 0 or more", s->sample_weight);
    *out = (float)weight;
    return RK_OK;
}

static rk_status read_sample_weights(const rk_transforms *t, const rk_piece *piece, rk_window *out) {
    for (int64_t i = 0; i < piece->n; i++)
        RK_TRY(read_sample_weight(
            t->section,
            rk_joined_rows_get_values(piece->rows, piece->chunk, t->weight_name, piece->first + i),
            &out->sample_weights[out->n_rows + i]));
    return RK_OK;
}

static void read_groups(const rk_transforms *t, const rk_piece *piece, rk_window *out) {
    for (int64_t i = 0; i < piece->n; i++) {
        rk_values values =
            rk_joined_rows_get_values(piece->rows, piece->chunk, t->group_name, piece->first + i);
        char scratch[RK_NUMBER_BYTES];
        rk_span text = values.begin < values.end ? rk_value_as_text(values.column, values.begin, scratch)
                                                 : (rk_span){"", 0};
        out->groups[out->n_rows + i] = (int64_t)(rk_hash_bytes(text.data, text.n_bytes, 0) >> 1);
    }
}

static rk_status timestamp_error(const rk_data_section *s, rk_values values) {
    char scratch[RK_NUMBER_BYTES];
    if (values.begin == values.end)
        return rk_error_hint(rk_error(RK_BAD_DATA, "column '%s': the timestamp is missing", s->timestamp),
                             "'on_bad_row: skip' leaves such rows out");
    rk_span text = rk_value_as_text(values.column, values.begin, scratch);
    return rk_error_hint(
        rk_error(RK_BAD_DATA, "column '%s': '%.*s' is no timestamp", s->timestamp, (int)text.n_bytes,
                 text.data),
        "a timestamp is a number of seconds since the epoch, as 1700000000 or 1700000000.25, no date and no "
        "milliseconds");
}

/* Days, or what begins at midnight, would be read as seconds. */
static rk_status timestamp_unit_error(const rk_data_section *s) {
    return rk_error_hint(
        rk_error(RK_BAD_DATA, "column '%s': a Parquet date or time is no number of seconds since the epoch",
                 s->timestamp),
        "store timestamps as whole numbers (i64) or as f64");
}

/* Whole numbers of f32 end here, long before what seconds since the epoch are today. */
static bool is_beyond_f32(const rk_column *column, double seconds) {
    return column->type == RK_COLUMN_F32 && fabs(seconds) > 1 << 24;
}

static rk_status read_timestamp(const rk_data_section *s, rk_values values, int64_t *out) {
    double seconds;
    if (values.column->is_time) return timestamp_unit_error(s);
    if (values.begin == values.end || !rk_value_as_number(values.column, values.begin, &seconds) ||
        !rk_timestamp_from_seconds(seconds, out))
        return timestamp_error(s, values);
    if (is_beyond_f32(values.column, seconds))
        return rk_error_hint(
            rk_error(RK_BAD_DATA, "column '%s': f32 has no digits left for the seconds of the timestamp %.0f",
                     s->timestamp, seconds),
            "store timestamps as whole numbers (i64) or as text");
    return RK_OK;
}

static rk_status read_timestamps(const rk_transforms *t, const rk_piece *piece, rk_window *out) {
    for (int64_t i = 0; i < piece->n; i++)
        RK_TRY(read_timestamp(
            t->section,
            rk_joined_rows_get_values(piece->rows, piece->chunk, t->timestamp_name, piece->first + i),
            &out->timestamps[out->n_rows + i]));
    return RK_OK;
}

/* Every combination of the crossed features' ids of this row, hashed. */
static rk_status cross_features_of_row(const rk_transforms *t, int64_t feature, int64_t row, rk_window *out) {
    enum { MAX_CROSSED = 16, MAX_COMBINATIONS = 4096 };
    rk_ids parts[MAX_CROSSED];
    int64_t begins[MAX_CROSSED], counts[MAX_CROSSED], total = 1;
    const rk_data_feature *f = &t->section->features[feature];
    const int32_t *crossed = t->fitted[feature].crossed, output = t->fitted[feature].output;
    RK_FAIL_IF(f->n_cross > MAX_CROSSED, RK_BAD_DATA, "feature '%s' crosses more than %d features", f->name,
               MAX_CROSSED);
    for (int64_t c = 0; c < f->n_cross; c++) {
        int64_t at = t->features[crossed[c]].n_parts ? row - out->n_rows : row;
        parts[c] = rk_id_list_view(&out->features[crossed[c]]);
        begins[c] = rk_ids_begin_of_sample(&parts[c], at);
        counts[c] = rk_ids_begin_of_sample(&parts[c], at + 1) - begins[c];
        total *= counts[c];
        RK_FAIL_IF(total > MAX_COMBINATIONS, RK_BAD_DATA,
                   "feature '%s': more than %d combinations in one row", f->name, MAX_COMBINATIONS);
    }
    for (int64_t k = 0; k < total; k++) {
        uint64_t hash = (uint64_t)f->hash_seed;
        for (int64_t c = 0, rest = k; c < f->n_cross; rest /= counts[c], c++)
            hash = rk_hash_combine(hash, (uint64_t)parts[c].ids[begins[c] + rest % counts[c]]);
        RK_TRY(rk_window_add_id(out, output, rk_feature_hash(f, hash), 1));
    }
    return rk_id_list_end_sample(&out->features[output]);
}

/* What the context's one row gives, in all rows. */
static rk_status repeat_context_ids(const rk_transforms *t, int64_t feature, int64_t n, rk_window *out) {
    const rk_data_feature *f = &t->section->features[feature];
    const int32_t output = t->fitted[feature].output;
    if (!f->dense) return rk_id_list_repeat(&out->features[output], n - 1);
    float *first = out->dense + out->n_rows * t->schema.n_dense + output;
    for (int64_t row = 1; row < n; row++)
        memcpy(first + row * t->schema.n_dense, first, (size_t)f->width * sizeof *first);
    return RK_OK;
}

static rk_status transform_feature(const rk_transforms *t, int64_t feature, const rk_piece *piece,
                                   rk_window *out) {
    bool done = false;
    if (piece->context && piece->context[feature]) {
        rk_piece one = *piece;
        one.first = 0;
        one.n = 1;
        RK_TRY(rk_transform_feature_by_value(t, feature, &one, out));
        return repeat_context_ids(t, feature, piece->n, out);
    }
    if (piece->n > 1) RK_TRY(rk_transform_feature_by_column(t, feature, piece, out, &done));
    return done ? RK_OK : rk_transform_feature_by_value(t, feature, piece, out);
}

static rk_status transform_crossed_feature(const rk_transforms *t, int64_t feature, const rk_piece *piece,
                                           rk_window *out) {
    bool once = piece->context && piece->context[feature];
    for (int64_t row = 0; row < (once ? 1 : piece->n); row++)
        RK_TRY(cross_features_of_row(t, feature, out->n_rows + row, out));
    return once ? repeat_context_ids(t, feature, piece->n, out) : RK_OK;
}

/* The window's lists of composed features change places with the memory's: the piece's whole ids are gathered
 * beside the window, as crosses are made of these. */
static void swap_lists_of_composed_features(const rk_transforms *t, rk_transform_scratch *memory,
                                            rk_window *out) {
    for (int32_t f = 0; f < t->schema.n_features; f++) {
        if (!t->features[f].n_parts) continue;
        rk_id_list list = out->features[f];
        out->features[f] = memory->whole[f];
        memory->whole[f] = list;
    }
}

static bool has_composed_features(const rk_data_schema *schema) {
    for (int32_t f = 0; f < schema->n_features; f++)
        if (schema->features[f].n_parts) return true;
    return false;
}

static rk_status compose_features(const rk_transforms *t, const rk_transform_scratch *memory,
                                  rk_window *out) {
    const rk_data_section *s = t->section;
    for (int64_t i = 0; i < s->n_features; i++) {
        const rk_data_feature *f = &s->features[i];
        const int32_t output = t->fitted[i].output;
        if (rk_feature_n_parts(f))
            RK_TRY(rk_compose_ids(f, rk_fitted_n_ids(f, &t->fitted[i]), &memory->whole[output],
                                  &out->features[output]));
    }
    return RK_OK;
}

static rk_status transform_features(const rk_transforms *t, const rk_piece *piece, rk_window *out) {
    const rk_data_section *s = t->section;
    for (int64_t i = 0; i < s->n_features; i++)
        if (!s->features[i].n_cross) RK_TRY(transform_feature(t, i, piece, out));
    for (int64_t i = 0; i < s->n_features; i++)
        if (s->features[i].n_cross) RK_TRY(transform_crossed_feature(t, i, piece, out));
    return RK_OK;
}

static rk_status transform_and_compose(const rk_transforms *t, const rk_piece *piece, rk_window *out) {
    rk_transform_scratch *memory = piece->memory;
    if (!has_composed_features(&t->schema)) return transform_features(t, piece, out);
    if (!memory->whole) {
        RK_TRY(rk_alloc((size_t)t->schema.n_features, sizeof *memory->whole, &memory->whole));
        memory->n_whole = (size_t)t->schema.n_features;
    }
    for (size_t f = 0; f < memory->n_whole; f++) rk_id_list_truncate(&memory->whole[f], 0);
    swap_lists_of_composed_features(t, memory, out);
    rk_status status = transform_features(t, piece, out);
    swap_lists_of_composed_features(t, memory, out);
    return status == RK_OK ? compose_features(t, memory, out) : status;
}

rk_status rk_transforms_transform_rows(const rk_transforms *t, const rk_piece *piece, rk_window *out) {
    rk_status status;
    RK_GOTO(rk_window_reserve(out, piece->n));
    if (out->has.labels) RK_GOTO(read_labels(t, piece, out));
    if (out->has.weights) RK_GOTO(read_sample_weights(t, piece, out));
    if (out->has.groups) read_groups(t, piece, out);
    if (out->has.timestamps) RK_GOTO(read_timestamps(t, piece, out));
    RK_GOTO(transform_and_compose(t, piece, out));
    out->n_rows += piece->n;
done:
    if (status != RK_OK) rk_window_truncate(out);
    return status;
}
