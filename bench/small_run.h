/* A run that is trained for a few steps, where a benchmark needs one that is there. */
#ifndef RK_BENCH_SMALL_RUN_H
#define RK_BENCH_SMALL_RUN_H

#include <reckon/reckon.h>

/* text: a run file, whose paths are relative to the directory. The run is in DIRECTORY/run then. */
rk_status small_run_train(const char *directory, const char *text);

/* 26 features of one table with so many rows of `dim`, and a dnn of 128 and 64 units. */
enum { SMALL_RUN_FEATURES = 26 };
rk_status small_run_train_table(const char *directory, int64_t n_rows, int64_t dim);

#endif
