/* A step that failed: what its forward pass changed goes back, and it is skipped where the run file says so.
 */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "model/model_internal.h"

void rk_model_save_statistics(rk_model *model) {
    for (size_t i = 0; i < model->n_statistics; i++)
        memcpy(model->statistics[i].kept, model->statistics[i].live, model->statistics[i].n_bytes);
}

rk_status rk_model_restore_statistics(rk_model *model, rk_status status) {
    for (size_t i = 0; i < model->n_statistics; i++)
        memcpy(model->statistics[i].live, model->statistics[i].kept, model->statistics[i].n_bytes);
    return status;
}

int64_t rk_model_launched_step(const rk_model *model) {
    return model->step + model->queue.n_launched - model->queue.n_finished;
}

rk_status rk_model_name_step(int64_t step, rk_status status) {
    return status == RK_NOT_FINITE ? rk_error_context(status, "step %lld", (long long)step + 1) : status;
}

rk_status rk_model_skip_non_finite_step(rk_model *model, rk_status status, double *loss) {
    if (status != RK_NOT_FINITE || !model->skip_not_finite) return status;
    model->n_not_finite++;
    if ((model->n_not_finite & (model->n_not_finite - 1)) == 0) /* the 1st, 2nd, 4th, ... */
        rk_log(RK_LOG_WARNING, "a training step was skipped (%lld so far): %s",
               (long long)model->n_not_finite, rk_last_error());
    *loss = NAN;
    return RK_OK;
}
