#include "trained.h"

#include <string.h>

#include <reckon/config.h>

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

rk_status trained_open(const char *path, const char *device, rk_predictor **out) {
    if (!ends_with(path, ".yaml") && !ends_with(path, ".yml")) return rk_predictor_open(path, device, out);
    rk_config *config;
    rk_status status = rk_config_load(path, NULL, 0, &config);
    if (status != RK_OK) return status;
    status = rk_predictor_open(rk_config_output(config), device, out);
    rk_config_free(config);
    return status;
}
