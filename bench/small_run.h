/* A run that is trained for a few steps, where a benchmark needs one that is there, and the command line of
 * such a benchmark. */
#ifndef RK_BENCH_SMALL_RUN_H
#define RK_BENCH_SMALL_RUN_H

#include <reckon/reckon.h>

/* Random rows: columns c0, c1, ... of ids, x0, x1, ... of numbers, and the label y. */
typedef struct small_run {
    int n_rows, n_ids, n_numbers;
    int64_t n_different; /* ids are uniform below it */
    const char *feature; /* what the run file says of each column of ids: "hash: 50000" */
    const char *rest;    /* of the run file: all but `data` */
} small_run;
/* The run is in DIRECTORY/run then. */
rk_status small_run_train(const char *directory, const small_run *run);

/* 26 features of one table with so many rows of `dim`, and a dnn of 128 and 64 units. */
enum { SMALL_RUN_FEATURES = 26 };
rk_status small_run_train_table(const char *directory, int64_t n_rows, int64_t dim);

/* "--name N", N from 1 to `most`; value: the default, then what was read. */
typedef struct small_run_option {
    const char *name;
    int64_t value, most;
} small_run_option;
/* What a benchmark does in a folder of its own, which is removed in the end. */
typedef rk_status small_run_body(const char *directory, const small_run_option *options, const void *context);
/* The exit status of main. Arguments from the second on are options; 2, with the usage, where they are not.
 */
int small_run_main(int n_arguments, char **arguments, small_run_option *options, int n_options,
                   const char *usage, small_run_body *body, const void *context);

#endif
