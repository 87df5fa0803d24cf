/* The loads of tables, counted over some batches of the training data. */
#include <reckon/dataset.h>

#include "base/memory.h"
#include "train/plan/plan_internal.h"

/* Batches are whole but the first, which stands for data that has no more than one. */
static rk_status count_sampled_batches(rk_plan *plan, rk_dataset *dataset, int64_t n_rows) {
    const rk_batch *batch;
    rk_status status = RK_OK;
    for (bool first = true;
         status == RK_OK && (n_rows == 0 || rk_lookup_counter_n_samples(plan->count) < n_rows);
         first = false) {
        status = rk_dataset_next(dataset, &batch);
        if (status == RK_OK && (first || batch->n == plan->request.batch_size))
            status = rk_lookup_counter_add_batch(plan->count, batch);
    }
    if (status != RK_OK && status != RK_END) return status;
    plan->sampled_rows = rk_lookup_counter_n_samples(plan->count);
    RK_FAIL_IF(plan->sampled_rows == 0, RK_BAD_DATA, "the training data has no rows");
    if (status == RK_END)
        plan->train_rows = rk_dataset_n_rows(dataset); /* before, its thread may be anywhere */
    return RK_OK;
}

rk_status rk_plan_sample(rk_plan *plan, int64_t n_rows) {
    RK_AUTO(rk_dataset_auto_free) rk_dataset *dataset = NULL;
    RK_TRY(rk_lookup_counter_create(&plan->tables, plan->request.roles.n_trainers, &plan->count));
    RK_TRY(rk_config_open_data(plan->config, plan->transforms, "train", &dataset));
    RK_TRY(count_sampled_batches(plan, dataset, n_rows));
    rk_lookup_counter_compute_statistics(plan->count, plan->loads);
    return RK_OK;
}
