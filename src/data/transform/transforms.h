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
    int64_t cardinality; /* ids are 0 .. cardinality-1 */
    bool weighted;
} rk_data_feature_info;

typedef struct rk_data_schema {
    int32_t n_dense; /* numbers a sample, all dense features side by side */
    int32_t n_features, n_tasks;
    const rk_data_feature_info *features; /* [n_features]: categorical, in the file's order */
    const rk_label_section *tasks;        /* [n_tasks] */
} rk_data_schema;

/* Fit on the training split. `directory`: what relative paths are relative to. `on_stage` (may be NULL) hears
 * what begins. The section must outlive it. */
typedef struct rk_fit_options {
    const char *directory;
    void (*on_stage)(void *user, const char *message);
    void *user;
} rk_fit_options;
rk_status rk_transforms_fit_section(const rk_data_section *section, const rk_yaml *yaml,
                                    const rk_fit_options *options, rk_transforms **out);

/* As files in a checkpoint's directory: transforms.json and vocabulary/<feature>.txt
 * (docs/formats/checkpoint.md); adds the relative names of the files written. */
rk_status rk_transforms_save(const rk_transforms *transforms, const char *directory, rk_text_list *names);
rk_status rk_transforms_load_files(const rk_data_section *section, const char *directory,
                                   rk_transforms **out);
/* What the section belongs to is released with the transforms. */
void rk_transforms_own(rk_transforms *transforms, void *owner, void (*release)(void *owner));

static inline void rk_transforms_auto(rk_transforms **transforms) { /* for RK_AUTO */
    rk_transforms_free(*transforms);
}

const rk_data_schema *rk_transforms_schema(const rk_transforms *transforms);
/* What paths of the section are relative to; it outlives the transforms. */
void rk_transforms_locate(rk_transforms *transforms, const char *directory);
const rk_data_section *rk_transforms_section(const rk_transforms *transforms);

#endif
