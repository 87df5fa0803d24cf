#include "train/config/train_config.h"

#include <math.h>

static const char *const dtypes[] = {"f32", "bf16"};
static const char *const not_finite[] = {"fail", "skip"};
static const char *const keep_best[] = {"auto", "true", "false"};

static const rk_field evaluate_fields[] = {
    RK_FIELD_I64(rk_evaluate_section, every_epochs, 1, 0, 1e9,
                 "evaluate after so many epochs; 0 = not by epochs"),
    RK_FIELD_I64(rk_evaluate_section, every_steps, 0, 0, 1e15,
                 "evaluate after so many steps; 0 = not by steps"),
    RK_FIELD_I64(rk_evaluate_section, batch_size, 0, 0, 1e9, "rows at a time; 0 = train.batch_size"),
};
static const rk_schema evaluate_schema = RK_SCHEMA("evaluate", rk_evaluate_section, evaluate_fields);

static const rk_field stopping_fields[] = {
    RK_FIELD_TEXT(rk_stopping_section, metric, false, NULL, "by default auc, or rmse for a regression"),
    RK_FIELD_I64(rk_stopping_section, patience, 3, 0, 1e9,
                 "stop after so many evaluations in a row without improvement; 0 as 1"),
    RK_FIELD_F64(rk_stopping_section, min_delta, 0, 0, INFINITY,
                 "an improvement of no more than this does not reset patience"),
};
static const rk_schema stopping_schema =
    RK_SECTION_SCHEMA("early_stopping", rk_stopping_section, stopping_fields, "metric");

static const rk_field plateau_fields[] = {
    RK_FIELD_TEXT(rk_plateau_section, metric, false, NULL, "by default early stopping's"),
    RK_FIELD_I64(rk_plateau_section, patience, 1, 0, 1e9, "evaluations without improvement before a drop"),
    RK_FIELD_F64(rk_plateau_section, factor, 0.1, 0, 1,
                 "the learning rates are multiplied by this at each drop"),
    RK_FIELD_F64(rk_plateau_section, min_factor, 1e-6, 0, 1,
                 "the least factor that all drops together may reach"),
};
static const rk_schema plateau_schema =
    RK_SECTION_SCHEMA("plateau", rk_plateau_section, plateau_fields, "metric");

static const rk_field checkpoint_fields[] = {
    RK_FIELD_I64(rk_checkpoint_section, every_epochs, 1, 0, 1e9,
                 "save after so many epochs; 0 = not by epochs"),
    RK_FIELD_I64(rk_checkpoint_section, every_steps, 0, 0, 1e15,
                 "save after so many steps; 0 = not by steps"),
    RK_FIELD_I64(rk_checkpoint_section, keep, 3, 1, 1e9,
                 "number of newest checkpoints to keep, beside the best one"),
};
static const rk_schema checkpoint_schema = RK_SCHEMA("checkpoint", rk_checkpoint_section, checkpoint_fields);

static const rk_field fields[] = {
    RK_FIELD_I64(rk_train_section, batch_size, 4096, 1, 1e9, "rows (samples) a step"),
    RK_FIELD_I64(rk_train_section, epochs, 0, 0, 1e9,
                 "passes over the training data; 1 if neither epochs nor steps is given"),
    RK_FIELD_I64(rk_train_section, steps, 0, 0, 1e15, "total steps; 0 = as epochs say"),
    RK_FIELD_I64(rk_train_section, seed, 1, 0, 1e15, "seed of initial values, shuffling and dropout"),
    RK_FIELD_ENUM(rk_train_section, dtype, 0, dtypes,
                  "dtype of the dense matrix products; weights and sums stay f32"),
    RK_FIELD_I64(rk_train_section, staleness, 0, 0, 64,
                 "by how many batches rows may be stale; 0: synchronous. In one process at most one "
                 "(docs/training.md)"),
    RK_FIELD_I64(rk_train_section, threads, 0, 0, 1024,
                 "0 = RK_THREADS or all processors; never changes the result"),
    RK_FIELD_TEXT(
        rk_train_section, output, false, NULL,
        "directory of the run, relative to where the program runs; by default runs/<name of the run file>"),
    RK_FIELD_STRUCT(
        rk_train_section, optimizer, &rk_optimizer_schema,
        "optimizer of the dense part, and of the rows without embedding.optimizer; adam by default"),
    RK_FIELD_F64(rk_train_section, max_gradient_norm, 0, 0, INFINITY,
                 "clips the norm of all dense gradients; 0 = off"),
    RK_FIELD_F64(rk_train_section, l2, 0, 0, INFINITY, "adds l2 * w to the gradients of dense weights"),
    RK_FIELD_ENUM(rk_train_section, on_not_finite, 0, not_finite,
                  "what happens when a loss or gradient is not finite"),
    RK_FIELD_I64(rk_train_section, log_every, 0, 0, 1e15,
                 "steps between progress lines; 0 = about once a second"),
    RK_FIELD_ARRAY(TEXTS, rk_train_section, metrics, n_metrics, 0, 0,
                   "metrics to compute; by default all that apply"),
    RK_FIELD_STRUCT(rk_train_section, evaluate, &evaluate_schema, "on the validation data"),
    RK_FIELD_STRUCT(rk_train_section, early_stopping, &stopping_schema,
                    "end when the metric no longer improves"),
    RK_FIELD_STRUCT(rk_train_section, plateau, &plateau_schema,
                    "reduce the learning rates when the metric no longer improves"),
    RK_FIELD_ENUM(rk_train_section, keep_best, 0, keep_best,
                  "end with the best evaluation's parameters; auto: if there is validation data"),
    RK_FIELD_STRUCT(rk_train_section, checkpoint, &checkpoint_schema, "what is saved, and when"),
    RK_FIELD_BOOL(rk_train_section, tensorboard, true, "write TensorBoard event files"),
};
const rk_schema rk_train_schema = RK_SECTION_SCHEMA("train", rk_train_section, fields, NULL);
