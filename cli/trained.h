/* Where a trained model is: a checkpoint, a run's directory, or the run file whose train.output holds it. */
#ifndef RK_CLI_TRAINED_H
#define RK_CLI_TRAINED_H

#include <reckon/predictor.h>

rk_status trained_open(const char *path, rk_predictor **out);

#endif
