/* What tables are asked for, counted exactly over batches. */
#ifndef RK_EMBEDDING_PLANNER_LOOKUP_COUNTER_H
#define RK_EMBEDDING_PLANNER_LOOKUP_COUNTER_H

#include <reckon/batch.h>

#include "embedding/config/embedding_config.h"
#include "embedding/planner/table_statistics.h"

typedef struct rk_load_count rk_load_count;

/* Each batch is shared by n_trainers, samples beside each other. The plan stays. Free with rk_load_count_free. */
rk_status rk_load_count_create(const rk_embedding_plan *plan, int32_t n_trainers, rk_load_count **out);
/* A batch of the data that the plan's sources are of. */
rk_status rk_load_count_add(rk_load_count *count, const rk_batch *batch);
int64_t rk_load_count_samples(const rk_load_count *count); /* so far */
/* loads [n_tables], measured; their hot rows, 64 or fewer of each, are the count's. After one batch or more. */
void rk_load_count_conclude(rk_load_count *count, rk_table_load *loads);
void rk_load_count_free(rk_load_count *count); /* NULL is fine */

#endif
