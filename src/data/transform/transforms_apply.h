/* Behind <reckon/transforms.h>: what a batch in a workspace was made from. */
#ifndef RK_DATA_TRANSFORM_TRANSFORMS_APPLY_H
#define RK_DATA_TRANSFORM_TRANSFORMS_APPLY_H

#include <reckon/transforms.h>

/* [n_features] of the schema: values of the last batch that the feature's vocabulary has not. */
const int64_t *rk_transform_workspace_unknown(const rk_transform_workspace *workspace);

#endif
