#include "data/transforms.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "data/transforms_parts.h"

rk_status rk_transforms_new(const rk_data_section *section, rk_transforms **out) {
    rk_transforms *t;
    RK_TRY(rk_alloc(1, sizeof *t, &t));
    t->section = section;
    size_t n = (size_t)section->n_features;
    rk_status status;
    RK_GOTO(rk_alloc(n, sizeof *t->fitted, &t->fitted));
    RK_GOTO(rk_alloc(n, sizeof *t->features, &t->features));
    RK_GOTO(rk_alloc(n, sizeof *t->outputs, &t->outputs));
    RK_GOTO(rk_alloc(n, sizeof *t->feature_names, &t->feature_names));
    RK_GOTO(rk_alloc(n, sizeof *t->weight_names, &t->weight_names));
    RK_GOTO(rk_alloc(2 * n + (size_t)section->n_labels + 2, sizeof *t->names, &t->names));
    for (size_t i = 0; i < n; i++) t->fitted[i].deviation = 1;
    *out = t;
    return RK_OK;
done:
    rk_transforms_free(t);
    return status;
}

void rk_transforms_free(rk_transforms *t) {
    if (!t) return;
    for (int64_t i = 0; t->fitted && i < t->section->n_features; i++) {
        rk_dictionary_release(&t->fitted[i].vocabulary);
        rk_free(t->fitted[i].boundaries);
    }
    rk_free(t->fitted);
    rk_free(t->features);
    rk_free(t->outputs);
    rk_free(t->feature_names);
    rk_free(t->weight_names);
    rk_free(t->names);
    rk_free(t);
}

static int32_t add_name(rk_transforms *t, const char *name) {
    t->names[t->n_names] = name;
    return (int32_t)t->n_names++;
}

static int64_t cardinality_of(const rk_data_feature *f, const rk_fitted *fitted) {
    if (f->hash) return f->hash;
    if (f->identity) return f->identity;
    if (f->n_bucketize) return f->n_bucketize + 1;
    if (f->quantiles) return fitted->n_boundaries + 1;
    int64_t n = f->vocabulary.oov + (int64_t)fitted->vocabulary.n;
    return n > 0 ? n : 1;
}

rk_status rk_transforms_finish(rk_transforms *t) {
    const rk_data_section *s = t->section;
    rk_data_schema *schema = &t->schema;
    *schema = (rk_data_schema){.features = t->features, .tasks = s->labels, .n_tasks = (int32_t)s->n_labels};
    t->n_names = 0;
    for (int64_t i = 0; i < s->n_labels; i++) add_name(t, s->labels[i].column ? s->labels[i].column : s->labels[i].name);
    t->weight_name = s->sample_weight ? add_name(t, s->sample_weight) : -1;
    t->group_name = s->group ? add_name(t, s->group) : -1;
    t->n_labels_names = t->n_names;
    for (int64_t i = 0; i < s->n_features; i++) {
        const rk_data_feature *f = &s->features[i];
        t->feature_names[i] = f->n_cross ? -1 : add_name(t, f->column ? f->column : f->name);
        t->weight_names[i] = f->weights ? add_name(t, f->weights) : -1;
        if (f->dense) {
            t->outputs[i] = schema->n_dense;
            schema->n_dense += (int32_t)f->width;
        } else {
            t->outputs[i] = schema->n_features;
            t->features[schema->n_features++] = (rk_data_feature_info){f->name, cardinality_of(f, &t->fitted[i]), f->weights != NULL};
        }
    }
    return RK_OK;
}

const rk_data_schema *rk_transforms_schema(const rk_transforms *t) {
    return &t->schema;
}

double rk_log1p_signed(double x) {
    return x < 0 ? -log1p(-x) : log1p(x);
}

int rk_fraction_split(const rk_data_section *s, uint64_t seed, int64_t row) {
    if (s->valid.fraction == 0 && s->test.fraction == 0) return 0;
    double u = (double)(rk_hash_i64(row, seed) >> 11) * 0x1p-53;
    return u < s->valid.fraction ? 1 : u < s->valid.fraction + s->test.fraction ? 2 : 0;
}

rk_status rk_for_values(const rk_data_feature *f, rk_values values, rk_take_value take, void *context) {
    char scratch[RK_VALUE_BYTES];
    for (int64_t v = values.begin; v < values.end; v++) {
        rk_span text = rk_value_text(values.column, v, scratch);
        if (!f->separator || values.column->type != RK_COLUMN_TEXT) {
            RK_TRY(take(context, values.column, v, text));
            continue;
        }
        for (const char *at = text.data, *end = at + text.n_bytes; at <= end;) {
            const char *stop = memchr(at, f->separator[0], (size_t)(end - at));
            if (!stop) stop = end;
            rk_span piece = rk_span_trim((rk_span){at, (size_t)(stop - at)});
            if (piece.n_bytes) RK_TRY(take(context, NULL, 0, piece));
            at = stop + 1;
        }
    }
    if (values.begin == values.end && f->default_value)
        return take(context, NULL, 0, (rk_span){f->default_value, strlen(f->default_value)});
    return RK_OK;
}

typedef struct taker {
    const rk_transforms *t;
    const rk_data_feature *f;
    const rk_fitted *fitted;
    rk_window *out;
    int32_t output;
    rk_values weights;
    int64_t n; /* values so far */
} taker;

static const char *column_of(const rk_data_feature *f) {
    return f->column ? f->column : f->name;
}

static rk_status take_number(const taker *k, const rk_column *column, int64_t value, rk_span text, double *out) {
    bool ok = column ? rk_value_number(column, value, out) : rk_parse_f64(text, out);
    RK_FAIL_IF(!ok || !isfinite(*out), RK_BAD_DATA, "column '%s': '%.*s' is not a number", column_of(k->f), (int)(text.n_bytes < 80 ? text.n_bytes : 80), text.data);
    return RK_OK;
}

static rk_status take_dense(void *context, const rk_column *column, int64_t value, rk_span text) {
    taker *k = context;
    double x;
    RK_TRY(take_number(k, column, value, text, &x));
    RK_FAIL_IF(k->n >= k->f->width, RK_BAD_DATA, "column '%s': more than %lld numbers", column_of(k->f), (long long)k->f->width);
    if (k->f->log1p) x = rk_log1p_signed(x);
    if (k->f->normalize) x = (x - k->fitted->mean) / k->fitted->deviation;
    k->out->dense[k->out->n_rows * k->t->schema.n_dense + k->output + k->n++] = (float)x;
    return RK_OK;
}

/* The number of boundaries that are <= x. */
static int64_t bucket_of(const double *boundaries, int64_t n, double x) {
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (boundaries[middle] <= x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The id of one value; -1: it has none and is dropped. */
static rk_status id_of(const taker *k, const rk_column *column, int64_t value, rk_span text, int64_t *out) {
    const rk_data_feature *f = k->f;
    double x;
    if (f->hash) {
        *out = (int64_t)rk_hash_bucket(rk_hash_bytes(text.data, text.n_bytes, (uint64_t)f->hash_seed), (uint64_t)f->hash);
    } else if (f->identity) {
        int64_t id;
        bool whole = column && column->type == RK_COLUMN_I64 ? (id = column->i64[value], true) : rk_parse_i64(text, &id);
        RK_FAIL_IF(!whole, RK_BAD_DATA, "column '%s': '%.*s' is not a whole number", column_of(f), (int)(text.n_bytes < 80 ? text.n_bytes : 80), text.data);
        *out = id - f->identity_offset;
        if (*out < 0 || *out >= f->identity)
            return rk_error_hint(rk_error(RK_BAD_DATA, "column '%s': id %lld is not within 0 to %lld", column_of(f), (long long)*out, (long long)f->identity - 1),
                                 "raise the feature's identity, or hash it");
    } else if (f->n_bucketize || f->quantiles) {
        RK_TRY(take_number(k, column, value, text, &x));
        *out = f->n_bucketize ? bucket_of(f->bucketize, f->n_bucketize, x) : bucket_of(k->fitted->boundaries, k->fitted->n_boundaries, x);
    } else {
        int64_t known = rk_dictionary_find(&k->fitted->vocabulary, text), oov = f->vocabulary.oov;
        *out = known >= 0 ? oov + known : oov ? (int64_t)rk_hash_bucket(rk_hash_bytes(text.data, text.n_bytes, 0), (uint64_t)oov) : -1;
    }
    return RK_OK;
}

static rk_status take_id(void *context, const rk_column *column, int64_t value, rk_span text) {
    taker *k = context;
    int64_t id;
    if (k->f->max_length && k->n >= k->f->max_length) return RK_OK;
    RK_TRY(id_of(k, column, value, text, &id));
    double weight = 1;
    if (k->weights.column) {
        RK_FAIL_IF(k->weights.begin + k->n >= k->weights.end, RK_BAD_DATA, "column '%s': fewer weights than ids", k->f->weights);
        char scratch[RK_VALUE_BYTES];
        rk_span w = rk_value_text(k->weights.column, k->weights.begin + k->n, scratch);
        RK_FAIL_IF(!rk_value_number(k->weights.column, k->weights.begin + k->n, &weight), RK_BAD_DATA, "column '%s': '%.*s' is not a number", k->f->weights, (int)w.n_bytes, w.data);
    } else if (k->f->weights && column && column->weights) {
        weight = (double)column->weights[value]; /* libsvm's id:weight */
    }
    k->n++;
    return id < 0 ? RK_OK : rk_window_add_id(k->out, k->output, id, (float)weight);
}

/* Every combination of the crossed features' ids of this row, hashed. */
static rk_status cross(const rk_transforms *t, const rk_data_feature *f, int32_t output, rk_window *out) {
    enum { MAX_CROSSED = 16, MAX_COMBINATIONS = 4096 };
    const rk_window_ids *parts[MAX_CROSSED];
    int64_t begins[MAX_CROSSED], counts[MAX_CROSSED], total = 1;
    RK_FAIL_IF(f->n_cross > MAX_CROSSED, RK_BAD_DATA, "feature '%s' crosses more than %d features", f->name, MAX_CROSSED);
    for (int64_t c = 0; c < f->n_cross; c++) {
        int32_t i = 0;
        while (strcmp(t->features[i].name, f->cross[c]) != 0) i++;
        parts[c] = &out->features[i];
        begins[c] = parts[c]->offsets[out->n_rows];
        counts[c] = (int64_t)parts[c]->n_ids - begins[c];
        total *= counts[c];
        RK_FAIL_IF(total > MAX_COMBINATIONS, RK_BAD_DATA, "feature '%s': more than %d combinations in one row", f->name, MAX_COMBINATIONS);
    }
    for (int64_t k = 0; k < total; k++) {
        uint64_t hash = (uint64_t)f->hash_seed;
        for (int64_t c = 0, rest = k; c < f->n_cross; rest /= counts[c], c++) hash = rk_hash_combine(hash, (uint64_t)parts[c]->ids[begins[c] + rest % counts[c]]);
        RK_TRY(rk_window_add_id(out, output, (int64_t)rk_hash_bucket(hash, (uint64_t)f->hash), 1));
    }
    return RK_OK;
}

static rk_status take_label(const rk_label_section *label, rk_values values, float *out) {
    const char *column = label->column ? label->column : label->name;
    RK_FAIL_IF(values.begin == values.end, RK_BAD_DATA, "the label '%s' is missing", column);
    char scratch[RK_VALUE_BYTES];
    rk_span text = rk_value_text(values.column, values.begin, scratch);
    if (label->n_positive) {
        *out = 0;
        for (int64_t i = 0; i < label->n_positive; i++)
            if (rk_span_equal(text, label->positive[i])) *out = 1;
        return RK_OK;
    }
    double x;
    RK_FAIL_IF(!rk_value_number(values.column, values.begin, &x) || !isfinite(x), RK_BAD_DATA, "the label '%s' is '%.*s', not a number", column, (int)text.n_bytes, text.data);
    if (!isnan(label->threshold)) x = x >= label->threshold;
    if (label->loss == 0 && (x < 0 || x > 1))
        return rk_error_hint(rk_error(RK_BAD_DATA, "the label '%s' is %g; a cross-entropy needs 0 to 1", column, x), "set the label's loss to mse, or give a threshold");
    *out = (float)x;
    return RK_OK;
}

/* Labels, weight and group of a row. */
static rk_status take_target(const rk_transforms *t, const rk_rows_reader *rows, int64_t row, rk_window *out) {
    for (int32_t i = 0; out->has_labels && i < t->schema.n_tasks; i++)
        RK_TRY(take_label(&t->schema.tasks[i], rk_rows_values(rows, i, row), &out->labels[out->n_rows * t->schema.n_tasks + i]));
    if (out->has_weights) {
        rk_values values = rk_rows_values(rows, t->weight_name, row);
        double weight;
        RK_FAIL_IF(values.begin == values.end || !rk_value_number(values.column, values.begin, &weight) || !(weight >= 0) || !isfinite(weight), RK_BAD_DATA,
                   "column '%s': a sample's weight must be a number of 0 or more", t->section->sample_weight);
        out->sample_weights[out->n_rows] = (float)weight;
    }
    if (out->has_groups) {
        rk_values values = rk_rows_values(rows, t->group_name, row);
        char scratch[RK_VALUE_BYTES];
        rk_span text = values.begin < values.end ? rk_value_text(values.column, values.begin, scratch) : (rk_span){"", 0};
        out->groups[out->n_rows] = (int64_t)(rk_hash_bytes(text.data, text.n_bytes, 0) >> 1);
    }
    return RK_OK;
}

rk_status rk_transforms_row(const rk_transforms *t, const rk_rows_reader *rows, int64_t row, rk_window *out) {
    const rk_data_section *s = t->section;
    RK_TRY(take_target(t, rows, row, out));
    for (int64_t i = 0; i < s->n_features; i++) {
        const rk_data_feature *f = &s->features[i];
        if (f->n_cross) continue;
        taker k = {.t = t, .f = f, .fitted = &t->fitted[i], .out = out, .output = t->outputs[i]};
        if (t->weight_names[i] >= 0) k.weights = rk_rows_values(rows, t->weight_names[i], row);
        if (f->dense) memset(out->dense + out->n_rows * t->schema.n_dense + k.output, 0, (size_t)f->width * sizeof *out->dense);
        RK_TRY(rk_for_values(f, rk_rows_values(rows, t->feature_names[i], row), f->dense ? take_dense : take_id, &k));
    }
    for (int64_t i = 0; i < s->n_features; i++)
        if (s->features[i].n_cross) RK_TRY(cross(t, &s->features[i], t->outputs[i], out));
    return RK_OK;
}
