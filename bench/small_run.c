#include "small_run.h"

#include <stdio.h>

rk_status small_run_train(const char *directory, const char *text) {
    char output[320];
    const char *overrides[] = {output};
    rk_config *config;
    rk_trainer *trainer;
    snprintf(output, sizeof output, "train.output=%s/run", directory);
    rk_status status = rk_config_parse(text, "run.yaml", directory, overrides, 1, &config);
    if (status != RK_OK) return status;
    status = rk_trainer_create(config, NULL, &trainer);
    if (status == RK_OK) {
        status = rk_trainer_run(trainer);
        rk_trainer_free(trainer);
    }
    rk_config_free(config);
    return status;
}
