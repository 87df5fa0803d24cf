/* The `train:` section of a run file. */
#ifndef RK_TRAIN_CONFIG_TRAIN_CONFIG_H
#define RK_TRAIN_CONFIG_TRAIN_CONFIG_H

#include "base/yaml/schema.h"
#include "optim/optimizer_config.h"

typedef struct rk_evaluate_section {
    int64_t every_epochs, every_steps, batch_size;
} rk_evaluate_section;

typedef struct rk_stopping_section {
    int line; /* 0: not given */
    char *metric;
    int64_t patience;
    double min_delta;
} rk_stopping_section;

typedef struct rk_plateau_section {
    int line; /* 0: not given */
    char *metric;
    int64_t patience;
    double factor, min_factor;
} rk_plateau_section;

typedef struct rk_checkpoint_section {
    int64_t every_epochs, every_steps, keep;
} rk_checkpoint_section;

typedef struct rk_train_section {
    int line;
    int64_t batch_size, epochs, steps, seed, staleness, threads, log_every;
    int dtype;                     /* rk_dtype: f32 or bf16 */
    char *output;                  /* NULL: runs/<name of the run file> */
    rk_optimizer_config optimizer; /* line 0: adam */
    double max_gradient_norm, l2;
    int on_not_finite; /* 0 fail, 1 skip */
    int keep_best;     /* 0 auto (if there is validation data), 1 true, 2 false */
    bool tensorboard;
    char **metrics;
    int64_t n_metrics;
    rk_evaluate_section evaluate;
    rk_stopping_section early_stopping;
    rk_plateau_section plateau;
    rk_checkpoint_section checkpoint;
} rk_train_section;

extern const rk_schema rk_train_schema;

#endif
