#include "trained_model.h"

#include <stdlib.h>
#include <string.h>

#include <reckon/config.h>

#include "command.h"
#include "rank_failure.h"
#include "terminal.h"

static bool has_suffix(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

rk_status call_with_checkpoint_path(const char *path, rk_status (*take)(void *user, const char *path),
                                    void *user) {
    if (!has_suffix(path, ".yaml") && !has_suffix(path, ".yml")) return take(user, path);
    rk_config *config;
    rk_status status = rk_config_load(path, NULL, 0, &config);
    if (status != RK_OK) return status;
    status = take(user, rk_config_output(config));
    rk_config_free(config);
    return status;
}

typedef struct opening {
    rk_predictor_options options;
    rk_predictor **out;
} opening;

static rk_status open_predictor_at(void *user, const char *path) {
    const opening *o = user;
    return rk_predictor_open(path, &o->options, o->out);
}

int trained_model_open(const char *path, const char *device, rk_export_rows rows, trained *out) {
    opening o = {RK_PREDICTOR_OPTIONS_INIT, &out->predictor};
    if (rk_comm_world(NULL, &out->comm) != RK_OK) return report_last_error();
    o.options.device = device;
    o.options.comm = out->comm;
    o.options.rows = rows;
    out->speaks = rk_comm_rank(out->comm) == 0;
    rk_status status = call_with_checkpoint_path(path, open_predictor_at, &o);
    if (status == RK_OK) return EXIT_OK;
    int code = report_refused_ranks(out->comm, status);
    rk_comm_free(out->comm);
    return code;
}

/* The names stand in the enumeration's order. */
rk_export_rows row_format_from_name(const char *name) {
    static const char *const names[] = {"trained", "f32", "f16", "bf16", "int8", "int4"};
    int rows = 0;
    while (name && strcmp(names[rows], name) != 0) rows++;
    return (rk_export_rows)rows;
}

rk_status trained_model_reopen_with_rows(trained *model, const char *device, rk_export_rows rows) {
    rk_predictor_options options = RK_PREDICTOR_OPTIONS_INIT;
    options.device = device;
    options.comm = model->comm;
    options.rows = rows;
    char *path = strdup(rk_predictor_path(model->predictor));
    rk_predictor_free(model->predictor);
    model->predictor = NULL;
    rk_status status = path ? rk_predictor_open(path, &options, &model->predictor) : RK_NO_MEMORY;
    free(path);
    return status;
}

int trained_model_close(trained *model, rk_status status) {
    int code = status == RK_OK ? EXIT_OK : abort_all_ranks(model->comm);
    rk_predictor_free(model->predictor);
    rk_comm_free(model->comm);
    return code;
}
