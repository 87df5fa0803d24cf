/* Where a trained model is: a checkpoint, a run's directory, or the run file whose train.output holds it; device: as rk_predictor_open. */
#ifndef RK_CLI_TRAINED_H
#define RK_CLI_TRAINED_H

#include <reckon/predictor.h>

rk_status trained_open(const char *path, const char *device, rk_predictor **out);

#define OPTION_DEVICE {"device", 0, OPTION_TEXT, "DEVICE", "cpu|cuda", "what predicts; by default what the run was trained on"}

#endif
