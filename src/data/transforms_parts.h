/* Inside the transforms: what fitting, saving and applying share. */
#ifndef RK_DATA_TRANSFORMS_PARTS_H
#define RK_DATA_TRANSFORMS_PARTS_H

#include "data/rows.h"
#include "data/window.h"

/* What a pass over the training data found for one feature. */
typedef struct rk_fitted {
    rk_dictionary vocabulary;
    double *boundaries;  /* [n_boundaries] of quantiles */
    int64_t n_boundaries;
    double mean, deviation;
} rk_fitted;

struct rk_transforms {
    const rk_data_section *section;
    rk_fitted *fitted;        /* [section->n_features] */
    rk_data_feature_info *features;
    int32_t *outputs;         /* [section->n_features] the feature's number among the categorical ones, or its first dense column */
    rk_data_schema schema;
    /* The columns read, by number: optional ones first (labels, sample weight), then each feature's column and weights. */
    const char **names;       /* [n_names], pointing into the section */
    size_t n_names, n_labels_names;
    int32_t *feature_names;   /* [section->n_features] number of the column's name; -1 for crosses */
    int32_t *weight_names;    /* [section->n_features] or -1 */
    int32_t weight_name, group_name; /* or -1 */
};

/* Everything that follows from the section and what was fitted: cardinalities, columns, the schema. */
rk_status rk_transforms_finish(rk_transforms *transforms);
rk_status rk_transforms_new(const rk_data_section *section, rk_transforms **out);

/* Row `row` of the reader's chunk into the window (begun by the caller). RK_BAD_DATA names column and value. */
rk_status rk_transforms_row(const rk_transforms *transforms, const rk_rows_reader *rows, int64_t row, rk_window *out);

/* The pieces of a feature's text values, cut by its separator: calls `take` for each. */
typedef rk_status (*rk_take_value)(void *context, const rk_column *column, int64_t value, rk_span text);
rk_status rk_for_values(const rk_data_feature *feature, rk_values values, rk_take_value take, void *context);

double rk_log1p_signed(double x);

/* Which of train's rows belong to a split that is a fraction of it: 0 train, 1 valid, 2 test. */
int rk_fraction_split(const rk_data_section *section, uint64_t seed, int64_t row);

#endif
