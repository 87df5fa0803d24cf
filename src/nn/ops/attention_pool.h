/* What attention_pool tells those who make its weights. */
#ifndef RK_NN_OPS_ATTENTION_POOL_H
#define RK_NN_OPS_ATTENTION_POOL_H

#include "nn/graph/op.h"

/* Rows of a sample that an attention_pool takes, 0 to all of them: it does not read the weights of others. */
int32_t rk_attention_pool_length(const rk_run *run, const rk_node *pool, int64_t sample);

#endif
