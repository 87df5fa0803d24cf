/* Inside the transforms: what fitting, saving and applying share. */
#ifndef RK_DATA_TRANSFORM_TRANSFORMS_INTERNAL_H
#define RK_DATA_TRANSFORM_TRANSFORMS_INTERNAL_H

#include "base/hash.h"
#include "data/transform/joined_rows.h"
#include "data/transform/shuffle_window.h"

/* Where one feature's values come from and go to, and what a pass over the training data found. */
typedef struct rk_fitted {
    int32_t name, weight_name; /* numbers of the columns' names, or -1: a cross has no column */
    int32_t output;            /* its number among the categorical ones, or its first dense column */
    int32_t *crossed;          /* [n_cross] numbers of the categorical features that a cross is made of */
    rk_vocabulary vocabulary;
    double *boundaries; /* [n_boundaries] of quantiles */
    int64_t n_boundaries;
    double mean, deviation;
} rk_fitted;

/* Memory that transforming uses again and again. */
typedef struct rk_transform_scratch {
    rk_text_place *places; /* [capacity] */
    uint32_t *stops;       /* [capacity + RK_CSV_INDEX_ROOM] */
    size_t capacity;
    int64_t *offsets; /* [offsets_capacity] */
    size_t offsets_capacity;
    rk_id_list *whole; /* [n_whole = n_features of the schema] a piece's ids before they are composed */
    size_t n_whole;
    int64_t *n_dropped; /* [n_features of the schema] values that a vocabulary has not; NULL: not counted */
} rk_transform_scratch;
void rk_transform_scratch_release(rk_transform_scratch *memory);

struct rk_transforms {
    const rk_data_section *section;
    const char *directory; /* that its paths are relative to */
    void *owner;           /* of the section, where the transforms own it, */
    void (*release_owner)(void *owner);
    rk_fitted *fitted; /* [section->n_features] */
    rk_data_feature_info *features;
    rk_data_schema schema;
    /* The columns read, by number: optional ones first (labels, sample weight), then each feature's column
     * and weights. */
    const char **names; /* [n_names], pointing into the section */
    size_t n_names, n_labels_names;
    int32_t weight_name, group_name; /* or -1 */
    int32_t timestamp_name;          /* n_names, as it is read behind those, of training data; or -1 */
    int32_t *crossed;                /* of all crosses, one behind the other */
};

/* Ids of a feature's values, before they are composed; 0: they are keys. */
int64_t rk_fitted_n_ids(const rk_data_feature *f, const rk_fitted *fitted);
/* Everything that follows from the section and what was fitted: cardinalities, columns, the schema. */
rk_status rk_transforms_derive_schema(rk_transforms *transforms);
rk_status rk_transforms_new(const rk_data_section *section, rk_transforms **out);

void rk_fitted_reset(rk_fitted *fitted); /* as before it was fitted */
/* Whether a feature is fitted to the training data, and the pass over it that fits all that are. */
bool rk_feature_is_fitted(const rk_data_feature *feature);
rk_status rk_transforms_fit_by_pass(rk_transforms *transforms, const rk_fit_options *options);

/* Rows of a chunk that are transformed together, after those that the window holds. */
typedef struct rk_piece {
    const rk_joined_rows *rows;
    const rk_columns *chunk;
    int64_t first, n;
    rk_transform_scratch *memory;
    const bool *context; /* [section->n_features]: those whose columns have one row, for all rows; or NULL */
} rk_piece;

/* The piece's rows into the window: all of them, or none (RK_BAD_DATA, which names column and value if the
 * piece is of one row). */
rk_status rk_transforms_transform_rows(const rk_transforms *transforms, const rk_piece *piece,
                                       rk_window *out);

/* Whether a chunk has the labels that must be there. optional: it may be without any. */
bool rk_transforms_has_label_columns(const rk_transforms *transforms, const rk_joined_rows *rows,
                                     const rk_columns *chunk, bool optional);

/* One feature's values into the window, one by one. */
rk_status rk_transform_feature_by_value(const rk_transforms *transforms, int64_t feature,
                                        const rk_piece *piece, rk_window *out);
/* The same a column at a time, for the kinds and columns that allow it. *done = false: they do not, and
 * nothing was done. RK_BAD_DATA says no more. */
rk_status rk_transform_feature_by_column(const rk_transforms *transforms, int64_t feature,
                                         const rk_piece *piece, rk_window *out, bool *done);
/* Whether, of several rows, the feature's column may stay packed. */
bool rk_transform_accepts_packed(const rk_transforms *transforms, int64_t feature);
rk_status rk_transform_labels_by_column(const rk_transforms *transforms, int32_t task, const rk_piece *piece,
                                        rk_window *out, bool *done);

/* Where a number of the column is cut off: the 0.7 of a run file is not the 0.7 of an f32, which is what the
 * column's writer meant. */
static inline double rk_round_bound_to_column(const rk_column *column, double bound) {
    return column && column->type == RK_COLUMN_F32 ? (double)(float)bound : bound;
}

/* The number of boundaries that are <= x, of that column. */
static inline int64_t rk_find_bucket(const double *boundaries, int64_t n, const rk_column *column, double x) {
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (rk_round_bound_to_column(column, boundaries[middle]) <= x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of a feature with `hash`: the id that the hash is reduced to, or the hash itself where functions of the
 * feature's own are to make ids of it. */
static inline int64_t rk_feature_hash(const rk_data_feature *f, uint64_t hash) {
    return (int64_t)(f->hash_functions ? hash : rk_hash_bucket(hash, (uint64_t)f->hash));
}

/* seeds: [hash_functions], made of the feature's name. */
void rk_hash_function_seeds(const rk_data_feature *f, uint64_t *seeds);
/* Composed features (rk_feature_n_parts): rows that their ids may be, of a value's whole id below n. */
int64_t rk_count_composed_rows(const rk_data_feature *f, int64_t n);
/* The id of remainder 0, behind those of the quotients of whole ids below n. */
int64_t rk_first_remainder_id(const rk_data_feature *f, int64_t n);
/* The whole id that a value's ids of quotient_remainder were made of; n: as above. */
int64_t rk_quotient_remainder_id(const rk_data_feature *f, int64_t n, const int64_t *ids);
/* The samples of `whole` behind those of the list, each id as its parts. RK_BAD_DATA: a sample of several
 * values whose rows are not pooled. */
rk_status rk_compose_ids(const rk_data_feature *f, int64_t n, const rk_id_list *whole, rk_id_list *out);

/* Of a feature with `key`: the bits of a whole number, signed or not, or else the text's hash. */
int64_t rk_key_of_text(rk_span text);

static inline int64_t rk_find_feature_bucket(const rk_data_feature *f, const rk_fitted *fitted,
                                             const rk_column *column, double x) {
    return f->n_bucketize ? rk_find_bucket(f->bucketize, f->n_bucketize, column, x)
                          : rk_find_bucket(fitted->boundaries, fitted->n_boundaries, column, x);
}

/* The values of a feature in one row: calls `take` for each value of a column, or, column NULL, for each
 * piece of a text cut by the separator. */
typedef rk_status (*rk_value_callback)(void *context, const rk_column *column, int64_t value, rk_span text);
rk_status rk_for_each_value(const rk_data_feature *feature, rk_values values, rk_value_callback take,
                            void *context);

double rk_log1p_signed(double x);

/* Which of train's rows belong to a split that is a fraction of it: 0 train, 1 valid, 2 test. */
int rk_split_of_row(const rk_data_section *section, uint64_t seed, int64_t row);

#endif
