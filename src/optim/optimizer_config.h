/* `optimizer:` in YAML. A kind's defaults come from rk_optimizer_init; keys that the kind does not use are an
 * error. */
#ifndef RK_OPTIM_OPTIMIZER_CONFIG_H
#define RK_OPTIM_OPTIMIZER_CONFIG_H

#include <reckon/optimizer.h>

#include "base/yaml/schema.h"

/* Every number is NaN where the file does not give it (emit leaves such fields out). */
typedef struct rk_optimizer_config {
    int line;
    int kind; /* rk_optimizer_kind; -1: not given */
    double learning_rate, epsilon, initial_accumulator, momentum, beta1, beta2, exponent, l1, l2, beta,
        learning_rate_power, weight_decay, clip_gradient, clip_gradient_min, clip_gradient_max,
        clip_weight_min, clip_weight_max, trust_coefficient;
    double nesterov, bias_correction, sum_inside_sqrt, weight_decay_by_learning_rate; /* 0, 1 or NaN */
    struct rk_schedule_config {
        int kind;
        int64_t warmup_steps, decay_steps;
        double end_factor, power, step_factor;
    } schedule;
} rk_optimizer_config;

extern const rk_schema rk_optimizer_schema;

/* The resolved optimizer, of the usual kind if it names none; errors name the line through `yaml` (NULL: no
 * line known). */
rk_status rk_optimizer_from_config(const rk_optimizer_config *config, const rk_yaml *yaml,
                                   rk_optimizer_kind usual, rk_optimizer *out);

#endif
