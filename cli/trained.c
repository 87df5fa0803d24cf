#include "trained.h"

#include <string.h>

#include <reckon/config.h>

#include "command.h"
#include "ranks.h"
#include "terminal.h"

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static rk_status open_at(const char *path, const rk_predictor_options *options, rk_predictor **out) {
    if (!ends_with(path, ".yaml") && !ends_with(path, ".yml")) return rk_predictor_open(path, options, out);
    rk_config *config;
    rk_status status = rk_config_load(path, NULL, 0, &config);
    if (status != RK_OK) return status;
    status = rk_predictor_open(rk_config_output(config), options, out);
    rk_config_free(config);
    return status;
}

int trained_open(const char *path, const char *device, trained *out) {
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    if (rk_comm_world(NULL, &out->comm) != RK_OK) return failed();
    options.device = device;
    options.comm = out->comm;
    out->speaks = rk_comm_rank(out->comm) == 0;
    rk_status status = open_at(path, &options, &out->predictor);
    if (status == RK_OK) return EXIT_OK;
    int code = ranks_refused(out->comm, status);
    rk_comm_free(out->comm);
    return code;
}

int trained_close(trained *model, rk_status status) {
    int code = status == RK_OK ? EXIT_OK : ranks_give_up(model->comm);
    rk_predictor_free(model->predictor);
    rk_comm_free(model->comm);
    return code;
}
