/* A run that is trained for a few steps, where a benchmark needs one that is there. */
#ifndef RK_BENCH_SMALL_RUN_H
#define RK_BENCH_SMALL_RUN_H

#include <reckon/reckon.h>

/* text: a run file, whose paths are relative to the directory. The run is in DIRECTORY/run then. */
rk_status small_run_train(const char *directory, const char *text);

#endif
