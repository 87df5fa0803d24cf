/* What a batch needs from its lookup to the update of its rows. */
#ifndef RK_EMBEDDING_LOCAL_BATCH_CONTEXT_H
#define RK_EMBEDDING_LOCAL_BATCH_CONTEXT_H

#include "embedding/dynamic/unique_keys.h"
#include "embedding/local/feature_bags.h"
#include "embedding/local/row_uses.h"

struct rk_batch_context {
    rk_feature_bags *uses; /* [n_features] */
    rk_row_uses *plans;    /* [n_tables], of those that take updates */
    rk_update *updates;    /* [n_tables], once launched */
    rk_key_uses *keys;     /* [n_features], in the order of by_table: what dynamic tables get */
    rk_unique_keys
        *batch_keys;      /* [n_tables]: the different keys of dynamic tables whose rows are elsewhere */
    size_t *piece_begins; /* [n_tables+1]: table t has pieces piece_begins[t] .. piece_begins[t+1]-1 */
    size_t *task_begins;  /* [max(n_tables, n_features)+1]: how a loop over features or tables is cut
                             (base/thread/partition.h) */
    bool is_deduped;      /* ids are ready, plans made: lookups may be done, and an update launched */
    bool is_launched;     /* gradients are there: pieces may be updated */
};

#endif
