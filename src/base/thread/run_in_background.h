/* Work that gives way to all other threads. */
#ifndef RK_BASE_BACKGROUND_H
#define RK_BASE_BACKGROUND_H

#include "base/error.h"

/* Runs work(context) on a thread of the lowest priority and waits for it; its failure is the caller's. The
 * thread shares no pool, whose threads have a priority of their own. */
rk_status rk_run_in_background(rk_status (*work)(void *context), void *context);

#endif
