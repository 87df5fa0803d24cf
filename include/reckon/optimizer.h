/* Optimizers and learning-rate schedules, for embedding tables and for dense parameters alike.
 * Stable (docs/api.md). */
#ifndef RECKON_OPTIMIZER_H
#define RECKON_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, "yaml name"). Equations: docs/optimizers.md. */
#define RK_OPTIMIZER_LIST(X)                \
    X(SGD, "sgd")                           \
    X(MOMENTUM, "momentum")                 \
    X(ADAGRAD, "adagrad")                   \
    X(ROWWISE_ADAGRAD, "rowwise_adagrad")   \
    X(ADAM, "adam")                         \
    X(ROWWISE_ADAM, "rowwise_adam")         \
    X(ADAMW, "adamw")                       \
    X(FTRL, "ftrl")                         \
    X(ADAGRAD_MOMENTUM, "adagrad_momentum") \
    X(LAMB, "lamb")                         \
    X(LARS, "lars")

typedef enum rk_optimizer_kind {
#define RK_OPTIMIZER_ENUM(name, text) RK_OPTIMIZER_##name,
    RK_OPTIMIZER_LIST(RK_OPTIMIZER_ENUM)
#undef RK_OPTIMIZER_ENUM
        RK_OPTIMIZER_COUNT
} rk_optimizer_kind;

typedef enum rk_schedule_kind {
    RK_SCHEDULE_CONSTANT,
    RK_SCHEDULE_POLYNOMIAL, /* from 1 to end_factor over decay_steps, to the power `power` */
    RK_SCHEDULE_COSINE,     /* from 1 to end_factor over decay_steps */
    RK_SCHEDULE_STEP,       /* times step_factor every decay_steps */
    RK_SCHEDULE_COUNT
} rk_schedule_kind;

/* The factor on the learning rate at a step (0-based). Warm-up comes first: (step + 1) / warmup_steps,
 * linear; the decay counts from the end of the warm-up. */
typedef struct rk_schedule {
    rk_schedule_kind kind;
    int64_t warmup_steps;
    int64_t decay_steps;
    double end_factor;
    double power;
    double step_factor;
} rk_schedule;

RK_API double rk_schedule_factor(const rk_schedule *schedule, int64_t step);

/* Every optimizer's options; those that a kind does not use are ignored. rk_optimizer_init fills in the
 * kind's defaults. */
typedef struct rk_optimizer {
    size_t struct_size;
    rk_optimizer_kind kind;
    double learning_rate;
    double epsilon;
    double initial_accumulator; /* adagrad, rowwise_adagrad, ftrl, adagrad_momentum */
    double momentum;            /* momentum, adagrad_momentum, lars */
    bool nesterov;
    double beta1, beta2; /* adam family; adagrad_momentum's decay of the accumulator is beta2 */
    bool bias_correction;
    bool sum_inside_sqrt;                        /* adam: sqrt(v + epsilon^2) in place of sqrt(v) + epsilon */
    double exponent;                             /* adagrad_momentum */
    double l1, l2, beta, learning_rate_power;    /* ftrl */
    double weight_decay;                         /* decoupled: w -= weight_decay * w */
    bool weight_decay_by_learning_rate;          /* w -= learning_rate * weight_decay * w */
    double clip_gradient_min, clip_gradient_max; /* of the summed gradient; -inf, inf = none */
    double clip_weight_min, clip_weight_max;
    double trust_coefficient; /* lars */
    rk_schedule schedule;
} rk_optimizer;

/* The kind's documented defaults (docs/optimizers.md), into a struct of struct_size bytes. */
RK_API rk_status rk_optimizer_init_sized(rk_optimizer *optimizer, size_t struct_size, rk_optimizer_kind kind);
static inline rk_status rk_optimizer_init(rk_optimizer *optimizer, rk_optimizer_kind kind) {
    return rk_optimizer_init_sized(optimizer, sizeof *optimizer, kind);
}

/* RK_INVALID_ARGUMENT with the reason if an option is out of range for its kind. */
RK_API rk_status rk_optimizer_validate(const rk_optimizer *optimizer);

RK_API const char *rk_optimizer_name(
    rk_optimizer_kind kind); /* "adagrad", ...; NULL if there is no such kind */
RK_API rk_status rk_optimizer_from_name(const char *name, rk_optimizer_kind *out);

#ifdef __cplusplus
}
#endif
#endif
