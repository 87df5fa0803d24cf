#include "base/thread/parallel_failure.h"

void rk_parallel_failure_record(rk_parallel_failure *f, int64_t task, rk_status status) {
    if (status == RK_OK) return;
    pthread_mutex_lock(&f->mutex);
    if (f->status == RK_OK || task < f->task) {
        f->status = status;
        f->task = task;
        rk_error_copy(f->message, sizeof f->message);
    }
    pthread_mutex_unlock(&f->mutex);
}

rk_status rk_parallel_failure_status(const rk_parallel_failure *f) {
    return f->status == RK_OK ? RK_OK : rk_error(f->status, "%s", f->message);
}
