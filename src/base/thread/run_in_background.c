#include "base/thread/run_in_background.h"

#include <pthread.h>
#include <sys/resource.h>

#include "base/thread/parallel.h"
#include "base/thread/trace.h"

enum { LOWEST = 19 };

typedef struct job {
    rk_status (*work)(void *context);
    void *context;
    rk_status status;
    char reason[4096];
} job;

static void *run_work(void *argument) {
    job *j = argument;
    rk_trace_name_thread("background");
    setpriority(PRIO_PROCESS, 0, LOWEST); /* of this thread alone: Linux has it so */
    rk_parallel_set_serial(true);
    j->status = j->work(j->context);
    if (j->status != RK_OK) rk_error_copy(j->reason, sizeof j->reason);
    return NULL;
}

rk_status rk_run_in_background(rk_status (*work)(void *context), void *context) {
    job j = {.work = work, .context = context};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_work, &j) != 0) return work(context);
    pthread_join(thread, NULL);
    return j.status == RK_OK ? RK_OK : rk_error(j.status, "%s", j.reason);
}
