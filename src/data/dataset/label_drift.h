/* Whether the labels of windows vary as those of shuffled rows would. */
#ifndef RK_DATA_DATASET_LABEL_DRIFT_H
#define RK_DATA_DATASET_LABEL_DRIFT_H

#include "data/transform/shuffle_window.h"

enum { RK_DRIFT_TASKS = 8 };

typedef struct rk_label_sums {
    double n, sum, squares, least, most;
} rk_label_sums;

/* Labels so far, of the first tasks. */
typedef struct rk_label_drift {
    rk_label_sums tasks[RK_DRIFT_TASKS];
    bool has_warned;
} rk_label_drift;

/* Warns, once, where the mean of the window's labels is far from that of those before it. */
void rk_label_drift_check_window(rk_label_drift *drift, const rk_window *window, const char *path);

#endif
