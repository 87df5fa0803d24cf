/* Behind <reckon/transforms.h>: what a batch in a workspace was made from. */
#ifndef RK_DATA_TRANSFORM_TRANSFORMS_APPLY_H
#define RK_DATA_TRANSFORM_TRANSFORMS_APPLY_H

#include <reckon/transforms.h>

#include "batch/context_columns.h"

/* A struct array of the Arrow C data interface. */
typedef struct rk_arrow_rows {
    const struct ArrowSchema *schema;
    const struct ArrowArray *array;
    const char *may_miss; /* a column that may be missing as those of labels may; NULL: none */
} rk_arrow_rows;

/* As rk_transforms_apply of `rows` with the columns that only the context has beside them; its one row stands
 * beside each, and is transformed once. context: NULL: nothing. */
rk_status rk_transforms_apply_with_context(const rk_transforms *transforms, const rk_arrow_rows *context,
                                           const rk_arrow_rows *rows, rk_transform_workspace *workspace,
                                           const rk_batch **out);

/* What of the last batch the context has given; NULL: it had none. Valid until the next. */
const rk_context_columns *rk_transform_workspace_context(const rk_transform_workspace *workspace);

/* [n_features] of the schema: values of the last batch that the feature's vocabulary has not; the context's
 * count once. */
const int64_t *rk_transform_workspace_unknown(const rk_transform_workspace *workspace);

/* Whether a column of the name may be missing: it is a label, a sample's weight or a group. */
bool rk_transforms_is_label_column(const rk_transforms *transforms, const char *name);

#endif
