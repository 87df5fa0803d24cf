/* The loads of tables, counted exactly over batches. */
#ifndef RK_EMBEDDING_PLANNER_LOOKUP_COUNTER_H
#define RK_EMBEDDING_PLANNER_LOOKUP_COUNTER_H

#include <reckon/batch.h>

#include "embedding/config/embedding_config.h"
#include "embedding/planner/table_statistics.h"

typedef struct rk_lookup_counter rk_lookup_counter;

/* Each batch is shared by n_trainers, samples beside each other. The collection's config stays. Free with
 * rk_lookup_counter_free. */
rk_status rk_lookup_counter_create(const rk_collection_config *collection, int32_t n_trainers,
                                   rk_lookup_counter **out);
/* A batch of the data that the config's sources are of. */
rk_status rk_lookup_counter_add_batch(rk_lookup_counter *count, const rk_batch *batch);
int64_t rk_lookup_counter_n_samples(const rk_lookup_counter *count); /* so far */
/* loads [n_tables], measured; their hot rows, 64 or fewer of each, are the count's. After one batch or
 * more. */
void rk_lookup_counter_compute_statistics(rk_lookup_counter *count, rk_table_statistics *loads);
void rk_lookup_counter_free(rk_lookup_counter *count); /* NULL is fine */

#endif
