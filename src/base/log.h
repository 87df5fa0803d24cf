#ifndef RK_BASE_LOG_H
#define RK_BASE_LOG_H

#include <reckon/status.h>

/* Send one message to the callback of rk_log_set. Thread-safe. */
void rk_log(rk_log_level level, const char *format, ...) RK_PRINTF(2, 3);

#endif
