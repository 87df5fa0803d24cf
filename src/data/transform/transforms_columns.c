/* Features a column at a time: one loop over all values of a chunk for a kind and a type. What is left to
 * rk_transform_feature_by_value: joins, weights, max_length, default values where one is missing, and numbers
 * whose text would be needed. A bad value is only noticed here; rk_transform_feature_by_value says which. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "data/transform/transforms_internal.h"
#include "format/text/csv_index.h"

#define BAD_VALUE rk_error(RK_BAD_DATA, "a bad value")

/* The values of one feature in the piece's rows. */
typedef struct run {
    const rk_column *column;
    const int64_t *offsets; /* [n+1], of the piece's first row on */
    int64_t n, per_row;     /* rows; values of each, or -1: they differ */
    int64_t begin, n_values;
} run;

/* false: the name's values are not those of a column. */
static bool find_column_run(const rk_piece *piece, int32_t name, run *out) {
    rk_binding binding = piece->rows->bindings[name];
    if (binding.join >= 0 || binding.column < 0) return false;
    const rk_column *column = &piece->chunk->columns[binding.column];
    const int64_t *offsets = column->offsets + piece->first;
    *out = (run){column,     offsets,
                 piece->n,   rk_column_values_per_row(column, piece->first, piece->n),
                 offsets[0], offsets[piece->n] - offsets[0]};
    return true;
}

static bool has_row_without_value(const run *r) {
    bool missing = r->per_row == 0;
    for (int64_t i = 0; r->per_row < 0 && i < r->n; i++) missing |= r->offsets[i] == r->offsets[i + 1];
    return missing;
}

/* The value as a number; false: it is not one, or not finite. */
static inline bool parse_number_at(const rk_column *column, int64_t value, double *out) {
    if (column->type == RK_COLUMN_TEXT)
        return rk_parse_f64(rk_column_text(column, value), out) && isfinite(*out);
    *out = rk_column_number(column, value);
    return isfinite(*out);
}

/* Row i has no value, or a NaN that says so. */
static bool is_row_absent(const run *r, int64_t i) {
    return r->offsets[i] == r->offsets[i + 1] ||
           (rk_column_is_float(r->column) && isnan(rk_column_number(r->column, r->offsets[i])));
}

rk_status rk_transform_labels_by_column(const rk_transforms *t, int32_t task, const rk_piece *piece,
                                        rk_window *out, bool *done) {
    const rk_label_section *label = &t->schema.tasks[task];
    run r;
    *done = false;
    if (label->n_positive || !find_column_run(piece, task, &r)) return RK_OK;
    const double threshold = rk_round_bound_to_column(r.column, label->threshold);
    bool ok = label->optional || !has_row_without_value(&r), is_share = label->loss == 0,
         cuts = !isnan(threshold);
    float *to = out->labels + out->n_rows * t->schema.n_tasks + task;
    for (int64_t i = 0; ok && i < r.n; i++) {
        double x = 0;
        if (label->optional && is_row_absent(&r, i)) {
            to[i * t->schema.n_tasks] = NAN;
            continue;
        }
        ok = parse_number_at(r.column, r.offsets[i], &x);
        if (cuts) x = x >= threshold;
        ok = ok && isfinite((float)x) && (!is_share || (x >= 0 && x <= 1));
        to[i * t->schema.n_tasks] = (float)x;
    }
    *done = true;
    return ok ? RK_OK : BAD_VALUE;
}

/* One number in every row, as it is. */
static rk_status copy_dense_checked(const float *from, int64_t n, float *to, int64_t stride) {
    float sum = 0; /* stays 0 while all are finite */
    for (int64_t i = 0; i < n; i++) {
        sum += from[i] * 0;
        to[i * stride] = from[i];
    }
    return sum == 0 ? RK_OK : BAD_VALUE;
}

static rk_status transform_dense(const rk_transforms *t, int64_t feature, const run *r, rk_window *out) {
    const rk_data_feature *f = &t->section->features[feature];
    const rk_fitted *fitted = &t->fitted[feature];
    int64_t stride = t->schema.n_dense;
    float *to = out->dense + out->n_rows * stride + t->fitted[feature].output;
    bool ok = true, plain = r->column->type == RK_COLUMN_F32 && !f->log1p && !f->normalize;
    if (plain && r->per_row == 1 && f->width == 1)
        return copy_dense_checked(r->column->f32 + r->begin, r->n, to, stride);
    for (int64_t i = 0; ok && i < r->n; i++, to += stride) {
        int64_t n = r->offsets[i + 1] - r->offsets[i];
        for (int64_t j = n; j < f->width; j++) to[j] = 0;
        ok = n == 0 || n == f->width;
        for (int64_t j = 0; ok && j < n; j++) {
            double x;
            ok = parse_number_at(r->column, r->offsets[i] + j, &x);
            if (!ok) break;
            if (f->log1p) x = rk_log1p_signed(x);
            ok = isfinite((float)x);
            if (f->normalize) x = (x - fitted->mean) / fitted->deviation;
            to[j] = (float)x;
            ok = ok && isfinite(to[j]);
        }
    }
    return ok ? RK_OK : BAD_VALUE;
}

static inline int64_t hash_text_to_id(const rk_data_feature *f, rk_span text) {
    return rk_feature_hash(f, rk_hash_bytes(text.data, text.n_bytes, (uint64_t)f->hash_seed));
}

static inline int64_t vocabulary_id_of_text(const rk_data_feature *f, const rk_fitted *fitted, rk_span text) {
    int64_t known = rk_vocabulary_find(&fitted->vocabulary, text), oov = f->vocabulary.oov;
    return known >= 0 ? oov + known
                      : (int64_t)rk_hash_bucket(rk_hash_bytes(text.data, text.n_bytes, 0), (uint64_t)oov);
}

static bool ids_of_texts(const rk_data_feature *f, const rk_fitted *fitted, const char *text,
                         const rk_text_place *places, int64_t n, int64_t *out) {
    bool ok = true;
    if (f->hash) {
        for (int64_t i = 0; i < n; i++)
            out[i] = hash_text_to_id(f, (rk_span){text + places[i].begin, places[i].n_bytes});
    } else if (f->identity) {
        for (int64_t i = 0; i < n && ok; i++) {
            int64_t id = 0;
            ok = rk_parse_i64_within(text, places[i].begin, places[i].n_bytes, &id);
            out[i] = (int64_t)((uint64_t)id - (uint64_t)f->identity_offset);
            ok = ok && (uint64_t)out[i] < (uint64_t)f->identity;
        }
    } else if (f->key) {
        for (int64_t i = 0; i < n; i++)
            out[i] = rk_key_of_text((rk_span){text + places[i].begin, places[i].n_bytes});
    } else if (f->n_bucketize || f->quantiles) {
        for (int64_t i = 0; i < n && ok; i++) {
            double x = 0;
            ok = rk_parse_f64((rk_span){text + places[i].begin, places[i].n_bytes}, &x) && isfinite(x);
            if (ok) out[i] = rk_find_feature_bucket(f, fitted, NULL, x);
        }
    } else {
        for (int64_t i = 0; i < n; i++)
            out[i] = vocabulary_id_of_text(f, fitted, (rk_span){text + places[i].begin, places[i].n_bytes});
    }
    return ok;
}

static bool ids_of_i64(const rk_data_feature *f, const rk_fitted *fitted, const int64_t *from, int64_t n,
                       int64_t *out) {
    uint64_t outside = 0, offset = (uint64_t)f->identity_offset, last = (uint64_t)f->identity - 1;
    char room[RK_I64_BYTES];
    if (f->hash) {
        for (int64_t i = 0; i < n; i++)
            out[i] = rk_feature_hash(f, rk_hash_i64(from[i], (uint64_t)f->hash_seed));
    } else if (f->identity) {
        for (int64_t i = 0; i < n; i++) { /* the difference's sign says that an id is beyond the last, so that
                                             the loop has no branch */
            uint64_t id = (uint64_t)from[i] - offset;
            outside |= id | (last - id);
            out[i] = (int64_t)id;
        }
    } else if (f->key) {
        memcpy(out, from, (size_t)n * sizeof *out);
    } else if (f->n_bucketize || f->quantiles) {
        for (int64_t i = 0; i < n; i++) out[i] = rk_find_feature_bucket(f, fitted, NULL, (double)from[i]);
    } else {
        for (int64_t i = 0; i < n; i++)
            out[i] = vocabulary_id_of_text(f, fitted, rk_format_i64(from[i], room));
    }
    return outside >> 63 == 0;
}

/* What ids_of_i64 does for identity. All ids are good where the least and the greatest are. */
static bool ids_of_packed(const rk_data_feature *f, const rk_packed_ints *packed, int64_t n, int64_t *out) {
    rk_packed_ints moved = *packed;
    moved.base -= (uint64_t)f->identity_offset;
    rk_packed_range range = rk_unpack_bits(&moved, n, out);
    return n == 0 || (moved.base + range.least < (uint64_t)f->identity &&
                      moved.base + range.greatest < (uint64_t)f->identity);
}

/* Only for boundaries: other kinds need the number's text. */
static bool ids_of_floats(const rk_data_feature *f, const rk_fitted *fitted, const run *r, int64_t *out) {
    bool ok = true;
    for (int64_t i = 0; i < r->n_values && ok; i++) {
        double x = rk_column_number(r->column, r->begin + i);
        ok = isfinite(x);
        if (ok) out[i] = rk_find_feature_bucket(f, fitted, r->column, x);
    }
    return ok;
}

/* The pieces of texts cut by the feature's separator, with their number in each row as offsets, in the
 * memory. */
static rk_status split_texts(char separator, const run *r, rk_transform_scratch *memory) {
    size_t n = 0;
    RK_TRY(
        rk_reserve(&memory->offsets, &memory->offsets_capacity, (size_t)r->n + 1, sizeof *memory->offsets));
    for (int64_t i = 0; i < r->n; i++) {
        memory->offsets[i] = (int64_t)n;
        for (int64_t v = r->offsets[i]; v < r->offsets[i + 1]; v++) {
            rk_span text = rk_column_text(r->column, v);
            if (n + text.n_bytes + 1 > memory->capacity) {
                size_t capacity = (n + text.n_bytes + 1) * 2;
                RK_TRY(rk_realloc(capacity, sizeof *memory->places, &memory->places));
                RK_TRY(rk_realloc(capacity + RK_CSV_INDEX_ROOM, sizeof *memory->stops, &memory->stops));
                memory->capacity = capacity;
            }
            uint32_t place = r->column->places[v].begin;
            size_t n_stops =
                       rk_csv_find_separators(text.data, text.n_bytes, separator, separator, memory->stops),
                   begin = 0;
            for (size_t k = 0; k <= n_stops; k++) {
                size_t stop = k < n_stops ? memory->stops[k] : text.n_bytes;
                if (k < n_stops && text.data[stop] != separator) continue; /* the index finds line ends too */
                rk_span piece = {text.data + begin, stop - begin};
                if (piece.n_bytes && (piece.data[0] <= ' ' || piece.data[piece.n_bytes - 1] <= ' '))
                    piece = rk_span_trim(piece);
                memory->places[n] =
                    (rk_text_place){place + (uint32_t)(piece.data - text.data), (uint32_t)piece.n_bytes};
                n += piece.n_bytes > 0;
                begin = stop + 1;
            }
        }
    }
    memory->offsets[r->n] = (int64_t)n;
    return RK_OK;
}

static bool ids_of_column_run(const rk_data_feature *f, const rk_fitted *fitted, const run *r,
                              const rk_text_place *places, int64_t *to) {
    const rk_column *column = r->column;
    return column->packed.data             ? ids_of_packed(f, &column->packed, r->n_values, to)
           : column->type == RK_COLUMN_I64 ? ids_of_i64(f, fitted, column->i64 + r->begin, r->n_values, to)
           : rk_column_is_float(column)    ? ids_of_floats(f, fitted, r, to)
                                           : ids_of_texts(f, fitted, column->text, places, r->n_values, to);
}

static rk_status transform_ids(const rk_transforms *t, int64_t feature, const run *r,
                               const rk_text_place *places, rk_window *out) {
    int32_t output = t->fitted[feature].output;
    rk_id_list *ids = &out->features[output];
    const rk_data_feature *f = &t->section->features[feature];
    RK_TRY(rk_window_reserve_ids(out, output, (size_t)r->n_values));
    if (r->n_values && !ids_of_column_run(f, &t->fitted[feature], r, places, ids->ids + ids->n_ids))
        return BAD_VALUE;
    ids->n_ids += (size_t)r->n_values;
    return r->per_row >= 0 ? rk_id_list_end_uniform_samples(ids, r->n, r->per_row)
                           : rk_id_list_end_ragged_samples(ids, r->n, r->offsets);
}

/* The pieces of the texts as the feature's values. */
static rk_status transform_split_texts(const rk_transforms *t, int64_t feature, const run *r,
                                       rk_transform_scratch *memory, rk_window *out) {
    RK_TRY(split_texts(t->section->features[feature].separator[0], r, memory));
    const rk_column pieces = {.offsets = memory->offsets, .per_row = -1};
    const run split = {r->column, memory->offsets,      r->n, rk_column_values_per_row(&pieces, 0, r->n),
                       0,         memory->offsets[r->n]};
    return transform_ids(t, feature, &split, memory->places, out);
}

bool rk_transform_accepts_packed(const rk_transforms *t, int64_t feature) {
    const rk_data_feature *f = &t->section->features[feature];
    return f->identity && !f->hash && !f->dense && !f->n_cross && !f->weights && !f->max_length &&
           !f->default_value && !f->vocabulary.line;
}

rk_status rk_transform_feature_by_column(const rk_transforms *t, int64_t feature, const rk_piece *piece,
                                         rk_window *out, bool *done) {
    const rk_data_feature *f = &t->section->features[feature];
    run r;
    *done = false;
    if (f->weights || f->max_length || !find_column_run(piece, t->fitted[feature].name, &r)) return RK_OK;
    bool splits = f->separator && r.column->type == RK_COLUMN_TEXT,
         drops = f->vocabulary.line && f->vocabulary.oov == 0;
    if ((f->dense && splits) || drops || (f->default_value && has_row_without_value(&r))) return RK_OK;
    if (rk_column_is_float(r.column) && !f->dense && !f->n_bucketize && !f->quantiles) return RK_OK;
    *done = true;
    if (f->dense) return transform_dense(t, feature, &r, out);
    if (splits) return transform_split_texts(t, feature, &r, piece->memory, out);
    return transform_ids(t, feature, &r,
                         r.n_values && r.column->type == RK_COLUMN_TEXT ? r.column->places + r.begin : NULL,
                         out);
}
