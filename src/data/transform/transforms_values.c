/* A feature's values one by one: any kind, and what is wrong with a value that is. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "data/transform/transforms_internal.h"

rk_status rk_for_each_value(const rk_data_feature *f, rk_values values, rk_value_callback take,
                            void *context) {
    for (int64_t v = values.begin; v < values.end; v++) {
        if (!f->separator || values.column->type != RK_COLUMN_TEXT) {
            RK_TRY(take(context, values.column, v, (rk_span){0}));
            continue;
        }
        rk_span text = rk_column_text(values.column, v);
        for (const char *at = text.data, *end = at + text.n_bytes; at <= end;) {
            const char *stop = memchr(at, f->separator[0], (size_t)(end - at));
            if (!stop) stop = end;
            rk_span piece = rk_span_trim((rk_span){at, (size_t)(stop - at)});
            if (piece.n_bytes) RK_TRY(take(context, NULL, 0, piece));
            at = stop + 1;
        }
    }
    for (int64_t i = 0; values.begin == values.end && f->default_value && i < f->width;
         i++) /* width is 1 but for dense features */
        RK_TRY(take(context, NULL, 0, (rk_span){f->default_value, strlen(f->default_value)}));
    return RK_OK;
}

typedef struct value_reader {
    const rk_transforms *t;
    const rk_data_feature *f;
    const rk_fitted *fitted;
    rk_window *out;
    int32_t output;
    int64_t row; /* of the window */
    rk_values weights;
    rk_span weights_left; /* of a text whose pieces are weights */
    int64_t n;            /* values so far */
    int64_t n_dropped;    /* of those */
} value_reader;

static rk_status parse_number_of_value(const value_reader *k, const rk_column *column, int64_t value,
                                       rk_span text, double *out) {
    bool ok = column ? rk_value_as_number(column, value, out) : rk_parse_f64(text, out);
    if (ok && isfinite(*out)) return RK_OK;
    char scratch[RK_NUMBER_BYTES];
    if (column) text = rk_value_as_text(column, value, scratch);
    return rk_error(RK_BAD_DATA, "column '%s': '%.*s' is not a number", rk_feature_column(k->f),
                    rk_span_printed_bytes(text), text.data);
}

static rk_status write_dense_value(void *context, const rk_column *column, int64_t value, rk_span text) {
    value_reader *k = context;
    double x;
    RK_TRY(parse_number_of_value(k, column, value, text, &x));
    RK_FAIL_IF(k->n >= k->f->width, RK_BAD_DATA, "column '%s': more than %lld numbers",
               rk_feature_column(k->f), (long long)k->f->width);
    if (k->f->log1p) x = rk_log1p_signed(x);
    RK_FAIL_IF(!isfinite((float)x), RK_BAD_DATA, "column '%s': %g is too large for f32",
               rk_feature_column(k->f), x);
    if (k->f->normalize) x = (x - k->fitted->mean) / k->fitted->deviation;
    RK_FAIL_IF(!isfinite((float)x), RK_BAD_DATA, "column '%s': %g is too large for f32",
               rk_feature_column(k->f), x);
    k->out->dense[k->row * k->t->schema.n_dense + k->output + k->n++] = (float)x;
    return RK_OK;
}

/* "7.0", as programs write whole numbers of a column of floats: without its end. */
static rk_span trim_zero_fraction(rk_span text) {
    size_t n = text.n_bytes;
    while (n && text.data[n - 1] == '0') n--;
    bool ends = n > 1 && n < text.n_bytes && text.data[n - 1] == '.' && text.data[n - 2] >= '0' &&
                text.data[n - 2] <= '9';
    return ends ? (rk_span){text.data, n - 1} : text;
}

/* A whole number beyond those of 63 bits. */
static bool parse_u64(rk_span text, uint64_t *out) {
    uint64_t bits = 0;
    bool is_number = text.n_bytes > 0;
    for (size_t i = 0; i < text.n_bytes && is_number; i++)
        is_number = text.data[i] >= '0' && text.data[i] <= '9' &&
                    !__builtin_mul_overflow(bits, (uint64_t)10, &bits) &&
                    !__builtin_add_overflow(bits, (uint64_t)(text.data[i] - '0'), &bits);
    *out = bits;
    return is_number;
}

int64_t rk_key_of_text(rk_span text) {
    int64_t number;
    uint64_t bits;
    if (rk_parse_i64(text, &number)) return number;
    rk_span whole = trim_zero_fraction(rk_span_trim(text));
    if (rk_parse_i64(whole, &number)) return number;
    return (int64_t)(parse_u64(whole, &bits) ? bits : rk_hash_bytes(text.data, text.n_bytes, 0));
}

/* The id of one value; -1: it has none and is dropped, unless any 64 bits are one. */
static rk_status id_of_value(const value_reader *k, const rk_column *column, int64_t value, rk_span text,
                             int64_t *out) {
    const rk_data_feature *f = k->f;
    double x;
    char scratch[RK_NUMBER_BYTES];
    if (column) text = rk_value_as_text(column, value, scratch);
    if (f->hash) {
        *out = rk_feature_hash(f, rk_hash_bytes(text.data, text.n_bytes, (uint64_t)f->hash_seed));
    } else if (f->identity) {
        int64_t id;
        bool whole = column && column->type == RK_COLUMN_I64 ? (id = column->i64[value], true)
                                                             : rk_parse_i64(text, &id);
        RK_FAIL_IF(!whole, RK_BAD_DATA, "column '%s': '%.*s' is not a whole number", rk_feature_column(f),
                   rk_span_printed_bytes(text), text.data);
        if (__builtin_sub_overflow(id, f->identity_offset, out)) *out = id < 0 ? INT64_MIN : INT64_MAX;
        if (*out < 0 || *out >= f->identity)
            return rk_error_hint(
                rk_error(RK_BAD_DATA, "column '%s': id %lld is not within 0 to %lld", rk_feature_column(f),
                         (long long)*out, (long long)f->identity - 1),
                "set the feature's %s, or use 'hash'",
                *out < 0 ? "'identity_offset' to its least value" : "'identity' to a larger number");
    } else if (f->key) {
        *out = rk_key_of_text(text);
    } else if (f->n_bucketize || f->quantiles) {
        RK_TRY(parse_number_of_value(k, column, value, text, &x));
        *out = rk_find_feature_bucket(f, k->fitted, column, x);
    } else {
        int64_t known = rk_vocabulary_find(&k->fitted->vocabulary, text), oov = f->vocabulary.oov;
        *out = known >= 0 ? oov + known
               : oov      ? (int64_t)rk_hash_bucket(rk_hash_bytes(text.data, text.n_bytes, 0), (uint64_t)oov)
                          : -1;
    }
    return RK_OK;
}

rk_fitted_feature rk_transforms_get_fitted_feature(const rk_transforms *t, int64_t feature) {
    const rk_data_feature *f = &t->section->features[feature];
    const rk_fitted *fitted = &t->fitted[feature];
    return (rk_fitted_feature){.feature = f,
                               .boundaries = f->n_bucketize ? f->bucketize : fitted->boundaries,
                               .n_boundaries = f->n_bucketize ? f->n_bucketize : fitted->n_boundaries,
                               .mean = fitted->mean,
                               .deviation = fitted->deviation};
}

int64_t rk_transforms_find_feature(const rk_transforms *t, const char *name) {
    int64_t i = t->section->n_features - 1;
    while (i >= 0 && strcmp(t->section->features[i].name, name) != 0) i--;
    return i;
}

bool rk_transforms_id_of_value(const rk_transforms *t, int64_t feature, rk_span value, int64_t *id) {
    const rk_data_feature *f = &t->section->features[feature];
    const value_reader k = {.t = t, .f = f, .fitted = &t->fitted[feature]};
    if (id_of_value(&k, NULL, 0, value, id) != RK_OK || (*id < 0 && !f->key)) return false;
    return !f->vocabulary.line || *id >= f->vocabulary.oov;
}

bool rk_transforms_value_of_id(const rk_transforms *t, int64_t feature, int64_t id, char *scratch,
                               rk_span *out) {
    const rk_data_feature *f = &t->section->features[feature];
    if (f->identity) {
        *out = rk_format_i64(id + f->identity_offset, scratch);
        return true;
    }
    if (!f->vocabulary.line || id < f->vocabulary.oov) return false;
    *out = rk_vocabulary_text(&t->fitted[feature].vocabulary, (size_t)(id - f->vocabulary.oov));
    return true;
}

static bool are_weights_split(const value_reader *k) {
    return k->f->separator && k->weights.column && k->weights.column->type == RK_COLUMN_TEXT;
}

/* The next piece of the weights' texts, which are cut as those of the ids are. */
static bool split_next_weight(value_reader *k, rk_span *out) {
    for (;;) {
        while (k->weights_left.n_bytes) {
            rk_span left = k->weights_left;
            const char *stop = memchr(left.data, k->f->separator[0], left.n_bytes);
            size_t n = stop ? (size_t)(stop - left.data) : left.n_bytes;
            *out = rk_span_trim((rk_span){left.data, n});
            n += stop != NULL;
            k->weights_left = (rk_span){left.data + n, left.n_bytes - n};
            if (out->n_bytes) return true;
        }
        if (k->weights.begin == k->weights.end) return false;
        k->weights_left = rk_column_text(k->weights.column, k->weights.begin++);
    }
}

/* The number that belongs to the next id. */
static rk_status read_weight(value_reader *k, double *out) {
    rk_span text;
    char scratch[RK_NUMBER_BYTES];
    bool splits = are_weights_split(k),
         found = splits ? split_next_weight(k, &text) : k->weights.begin < k->weights.end;
    RK_FAIL_IF(!found, RK_BAD_DATA, "column '%s': fewer weights than ids", k->f->weights);
    if (!splits) text = rk_value_as_text(k->weights.column, k->weights.begin, scratch);
    bool ok =
        splits ? rk_parse_f64(text, out) : rk_value_as_number(k->weights.column, k->weights.begin++, out);
    RK_FAIL_IF(!ok || !isfinite((float)*out), RK_BAD_DATA, "column '%s': '%.*s' is not a number",
               k->f->weights, rk_span_printed_bytes(text), text.data);
    return RK_OK;
}

/* Ids beyond max_length leave their weights behind. */
static rk_status check_no_weight_left(value_reader *k) {
    rk_span text;
    if (!k->weights.column || (k->f->max_length && k->n >= k->f->max_length)) return RK_OK;
    RK_FAIL_IF(are_weights_split(k) ? split_next_weight(k, &text) : k->weights.begin < k->weights.end,
               RK_BAD_DATA, "column '%s': more weights than ids", k->f->weights);
    return RK_OK;
}

static rk_status append_id_of_value(void *context, const rk_column *column, int64_t value, rk_span text) {
    value_reader *k = context;
    int64_t id;
    if (k->f->max_length && k->n >= k->f->max_length) return RK_OK;
    RK_TRY(id_of_value(k, column, value, text, &id));
    double weight = 1;
    if (k->weights.column) {
        RK_TRY(read_weight(k, &weight));
    } else if (k->f->weights && column && column->weights) {
        weight = (double)column->weights[value]; /* libsvm's id:weight */
        RK_FAIL_IF(!isfinite(weight), RK_BAD_DATA, "column '%s': a weight is %g, not a number",
                   rk_feature_column(k->f), weight);
    }
    k->n++;
    if (id >= 0 || k->f->key || k->f->hash_functions)
        return rk_window_add_id(k->out, k->output, id, (float)weight);
    k->n_dropped++;
    return RK_OK;
}

/* The numbers of the weights' column; none where that is the ids' own, whose weights stand beside them
 * (libsvm's id:weight). */
static rk_values find_weights(const rk_transforms *t, int64_t feature, const rk_piece *piece, int64_t row,
                              rk_values ids) {
    if (t->fitted[feature].weight_name < 0) return (rk_values){0};
    rk_values weights =
        rk_joined_rows_get_values(piece->rows, piece->chunk, t->fitted[feature].weight_name, row);
    bool is_own = weights.column && weights.column == ids.column && weights.column->type == RK_COLUMN_I64;
    return is_own ? (rk_values){0} : weights;
}

rk_status rk_transform_feature_by_value(const rk_transforms *t, int64_t feature, const rk_piece *piece,
                                        rk_window *out) {
    const rk_data_feature *f = &t->section->features[feature];
    for (int64_t i = 0; i < piece->n; i++) {
        value_reader k = {.t = t,
                          .f = f,
                          .fitted = &t->fitted[feature],
                          .out = out,
                          .output = t->fitted[feature].output,
                          .row = out->n_rows + i};
        rk_values values =
            rk_joined_rows_get_values(piece->rows, piece->chunk, t->fitted[feature].name, piece->first + i);
        if (f->dense) {
            memset(out->dense + k.row * t->schema.n_dense + k.output, 0,
                   (size_t)f->width * sizeof *out->dense);
            RK_TRY(rk_for_each_value(f, values, write_dense_value, &k));
            RK_FAIL_IF(k.n && k.n < f->width, RK_BAD_DATA,
                       "column '%s': %lld numbers, but the feature's 'width' is %lld", rk_feature_column(f),
                       (long long)k.n, (long long)f->width);
            continue;
        }
        k.weights = find_weights(t, feature, piece, piece->first + i, values);
        RK_TRY(rk_for_each_value(f, values, append_id_of_value, &k));
        RK_TRY(check_no_weight_left(&k));
        if (piece->memory->n_dropped) piece->memory->n_dropped[k.output] += k.n_dropped;
        RK_TRY(rk_id_list_end_sample(&out->features[k.output]));
    }
    return RK_OK;
}
