#ifndef RK_BASE_LOG_H
#define RK_BASE_LOG_H

#include <stdint.h>

#include <reckon/status.h>

/* Send one message to the callback of rk_log_set. Thread-safe. */
void rk_log(rk_log_level level, const char *format, ...) RK_PRINTF(2, 3);
/* Warnings of the calling thread so far, also those that nobody was told. */
uint64_t rk_log_n_warnings(void);

#endif
