#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/text/text.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static rk_log_callback log_callback;
static void *log_user;
static rk_log_level least = RK_LOG_ERROR;
static _Thread_local uint64_t n_warnings;

void rk_log_set(rk_log_callback callback, void *user, rk_log_level level) {
    pthread_mutex_lock(&mutex);
    log_callback = callback;
    log_user = user;
    least = level;
    pthread_mutex_unlock(&mutex);
}

uint64_t rk_log_n_warnings(void) {
    return n_warnings;
}

void rk_log(rk_log_level level, const char *format, ...) {
    char message[2048];
    n_warnings += level == RK_LOG_WARNING;
    va_list list;
    va_start(list, format);
    rk_vsnprintf(message, sizeof message, format, list);
    va_end(list);
    pthread_mutex_lock(&mutex);
    if (log_callback && level >= least) log_callback(log_user, level, message);
    pthread_mutex_unlock(&mutex);
}
