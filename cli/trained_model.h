/* A trained model that a command asks, over all ranks that a launcher started. */
#ifndef RK_CLI_TRAINED_MODEL_H
#define RK_CLI_TRAINED_MODEL_H

#include <stdbool.h>

#include <reckon/predictor.h>

typedef struct trained {
    rk_predictor *predictor;
    rk_comm *comm;
    bool speaks; /* the first rank */
} trained;

/* Calls take(user, the run's directory or checkpoint): path is that, or the run file whose train.output holds
 * it. */
rk_status call_with_checkpoint_path(const char *path, rk_status (*take)(void *user, const char *path),
                                    void *user);
/* path: as call_with_checkpoint_path; device, rows: as rk_predictor_options. Returns EXIT_OK, or says why
 * not. */
int trained_model_open(const char *path, const char *device, rk_export_rows rows, trained *out);
/* Closes the predictor and opens the same checkpoint again, its tables' rows in another format. */
rk_status trained_model_reopen_with_rows(trained *model, const char *device, rk_export_rows rows);
/* One of OPTION_ROWS_CHOICES; 0 is trained, which NULL is too. */
rk_export_rows row_format_from_name(const char *name);
#define OPTION_ROWS_CHOICES "f32|f16|bf16|int8|int4"
/* The exit status of a command whose last call gave `status`. */
int trained_model_close(trained *model, rk_status status);

#define OPTION_DEVICE                                                                  \
    {                                                                                  \
        "device", 0, OPTION_TEXT, "DEVICE", "cpu|cuda",                                \
            "the device to predict on; by default the one that the run was trained on" \
    }

#endif
