/* From raw columns to what a model takes: dense numbers and ids. Fitted by a pass over the training data
 * (vocabularies, quantiles, means). */
#ifndef RK_DATA_TRANSFORM_TRANSFORMS_H
#define RK_DATA_TRANSFORM_TRANSFORMS_H

#include <reckon/transforms.h>

#include "base/text/text_list.h"
#include "data/data_config.h"

/* What the transforms yield. */
typedef struct rk_data_feature_info {
    const char *name;
    int64_t cardinality; /* ids are 0 .. cardinality-1; 0: they are keys, any 64 bits */
    bool weighted;
    int32_t n_parts; /* ids that each value was made into; 0: it has its own */
    int compose;     /* rk_compose, of these */
} rk_data_feature_info;

typedef struct rk_data_schema {
    int32_t n_dense; /* numbers a sample, all dense features side by side */
    int32_t n_features, n_tasks;
    const rk_data_feature_info *features; /* [n_features]: categorical, in the file's order */
    const rk_label_section *tasks;        /* [n_tasks] */
} rk_data_schema;

/* Fit on the training split. `directory`: what relative paths are relative to. `on_stage` (may be NULL) hears
 * what begins. `fit`: where what needs a pass over the rows is fitted; NULL: by the pass
 * (rk_transforms_fit_by_pass). The section must outlive it. */
typedef struct rk_fit_options {
    const char *directory;
    void (*on_stage)(void *user, const char *message);
    void *user;
    rk_status (*fit)(rk_transforms *transforms, const struct rk_fit_options *options);
} rk_fit_options;
rk_status rk_transforms_fit_section(const rk_data_section *section, const rk_yaml *yaml,
                                    const rk_fit_options *options, rk_transforms **out);

/* As files in a checkpoint's directory: transforms.json and vocabulary/<feature>.txt
 * (docs/formats/checkpoint.md); adds the relative names of the files written. */
rk_status rk_transforms_save(const rk_transforms *transforms, const char *directory, rk_text_list *names);
rk_status rk_transforms_load_files(const rk_data_section *section, const char *directory,
                                   rk_transforms **out);
/* What the section belongs to is released with the transforms. */
void rk_transforms_set_owner(rk_transforms *transforms, void *owner, void (*release)(void *owner));

/* What a feature of the section was fitted to; the transforms'. */
typedef struct rk_fitted_feature {
    const rk_data_feature *feature;
    const double *boundaries; /* [n_boundaries] of buckets: id = number of boundaries <= value */
    int64_t n_boundaries;
    double mean, deviation; /* of `normalize` */
} rk_fitted_feature;
rk_fitted_feature rk_transforms_get_fitted_feature(const rk_transforms *transforms, int64_t feature);

static inline void rk_transforms_auto_free(rk_transforms **transforms) { /* for RK_AUTO */
    rk_transforms_free(*transforms);
}

int64_t rk_transforms_find_feature(const rk_transforms *transforms,
                                   const char *name); /* of the section; -1 */
/* A categorical feature's values by their ids; feature: its number in the section, of no cross. */
/* The id of a value as a file has it, or its key; false: it has none, or one of those that all unknown values
 * share. */
bool rk_transforms_id_of_value(const rk_transforms *transforms, int64_t feature, rk_span value, int64_t *id);
/* The value of an id, which may stand in scratch [RK_I64_BYTES]; false: nothing says which it is, as of one
 * that is hashed. */
bool rk_transforms_value_of_id(const rk_transforms *transforms, int64_t feature, int64_t id, char *scratch,
                               rk_span *out);

const rk_data_schema *rk_transforms_schema(const rk_transforms *transforms);
/* What paths of the section are relative to; it outlives the transforms. */
void rk_transforms_set_directory(rk_transforms *transforms, const char *directory);
const rk_data_section *rk_transforms_section(const rk_transforms *transforms);

#endif
