#include <reckon/optimizer.h>

#include <math.h>

#include "base/struct_size.h"
#include "base/text/find_text.h"
#include "base/text/text.h"
#include "optim/optimizer.h"

static const char *const names[RK_OPTIMIZER_COUNT] = {
#define RK_OPTIMIZER_NAME(name, text) text,
    RK_OPTIMIZER_LIST(RK_OPTIMIZER_NAME)
#undef RK_OPTIMIZER_NAME
};

const char *rk_optimizer_name(rk_optimizer_kind kind) {
    return (unsigned)kind < RK_OPTIMIZER_COUNT ? names[kind] : NULL;
}

rk_status rk_optimizer_from_name(const char *name, rk_optimizer_kind *out) {
    int64_t kind = rk_text_position(name, names, RK_OPTIMIZER_COUNT);
    if (kind >= 0) {
        *out = (rk_optimizer_kind)kind;
        return RK_OK;
    }
    return rk_hint_nearest_name(rk_error(RK_NOT_FOUND, "unknown optimizer '%s'", name), name, names,
                                sizeof *names, 0, RK_OPTIMIZER_COUNT);
}

static const size_t first_size = RK_SIZE_WITH(rk_optimizer, schedule);

rk_status rk_optimizer_init_sized(rk_optimizer *optimizer, size_t struct_size, rk_optimizer_kind kind) {
    RK_FAIL_IF((unsigned)kind >= RK_OPTIMIZER_COUNT, RK_INVALID_ARGUMENT, "invalid optimizer kind %d",
               (int)kind);
    bool adam = kind == RK_OPTIMIZER_ADAM || kind == RK_OPTIMIZER_ADAMW || kind == RK_OPTIMIZER_ROWWISE_ADAM;
    rk_optimizer o = {
        .struct_size = sizeof o,
        .kind = kind,
        .learning_rate = adam || kind == RK_OPTIMIZER_LAMB ? 0.001 : 0.01,
        .epsilon = adam                        ? 1e-7
                   : kind == RK_OPTIMIZER_LAMB ? 1e-6
                                               : 1e-8,
        .initial_accumulator = kind == RK_OPTIMIZER_ROWWISE_ADAGRAD ? 0 : 0.1,
        .momentum = 0.9,
        .beta1 = 0.9,
        .beta2 = kind == RK_OPTIMIZER_ADAGRAD_MOMENTUM ? 1.0 : 0.999,
        .bias_correction = true,
        .exponent = 2,
        .learning_rate_power = -0.5,
        .weight_decay = kind == RK_OPTIMIZER_ADAMW ? 0.01 : 0,
        .weight_decay_by_learning_rate = kind == RK_OPTIMIZER_ADAMW,
        .clip_gradient_min = -INFINITY,
        .clip_gradient_max = INFINITY,
        .clip_weight_min = -INFINITY,
        .clip_weight_max = INFINITY,
        .trust_coefficient = 0.001,
        .schedule = {.power = 1, .step_factor = 0.1},
    };
    return rk_options_copy_out(optimizer, struct_size, &o, sizeof o, first_size, "rk_optimizer");
}

rk_status rk_optimizer_copy_in(const rk_optimizer *optimizer, rk_optimizer *out) {
    rk_optimizer o = {0}, told = {0};
    RK_TRY(rk_options_copy_in(&told, sizeof told, optimizer, first_size, "rk_optimizer"));
    RK_TRY(rk_optimizer_init(&o, told.kind));
    RK_TRY(rk_options_copy_in(&o, sizeof o, optimizer, first_size, "rk_optimizer"));
    *out = o;
    return RK_OK;
}

#define CHECK(condition, ...) RK_FAIL_IF(!(condition), RK_INVALID_ARGUMENT, __VA_ARGS__)

static rk_status validate_schedule(const rk_schedule *schedule) {
    CHECK((unsigned)schedule->kind < RK_SCHEDULE_COUNT, "invalid schedule kind %d", (int)schedule->kind);
    CHECK(schedule->warmup_steps >= 0, "a schedule's warmup_steps must be 0 or more, not %lld",
          (long long)schedule->warmup_steps);
    CHECK(schedule->kind == RK_SCHEDULE_CONSTANT || schedule->decay_steps > 0,
          "a schedule that decays needs decay_steps of 1 or more");
    return RK_OK;
}

rk_status rk_optimizer_validate(const rk_optimizer *optimizer) {
    rk_optimizer taken, *o = &taken;
    RK_TRY(rk_optimizer_copy_in(optimizer, o));
    CHECK(o->learning_rate >= 0 && isfinite(o->learning_rate),
          "learning_rate must be a finite number of 0 or more, not %g", o->learning_rate);
    CHECK(o->epsilon >= 0, "epsilon must be 0 or more, not %g", o->epsilon);
    CHECK(o->momentum >= 0 && o->momentum < 1, "momentum must be at least 0 and below 1, not %g",
          o->momentum);
    CHECK(o->beta1 >= 0 && o->beta1 < 1, "beta1 must be at least 0 and below 1, not %g", o->beta1);
    bool accumulates = o->kind == RK_OPTIMIZER_ADAGRAD_MOMENTUM;
    CHECK(o->beta2 >= 0 && (o->beta2 < 1 || (accumulates && o->beta2 == 1)),
          "beta2 must be at least 0 and below 1, not %g", o->beta2);
    CHECK(o->initial_accumulator >= 0, "initial_accumulator must be 0 or more, not %g",
          o->initial_accumulator);
    CHECK(o->kind != RK_OPTIMIZER_ADAGRAD || o->epsilon > 0 || o->initial_accumulator > 0,
          "adagrad with epsilon 0 needs an initial_accumulator above 0");
    if (o->kind == RK_OPTIMIZER_FTRL) {
        CHECK(o->learning_rate > 0, "ftrl needs a learning_rate above 0");
        CHECK(o->learning_rate_power <= 0, "learning_rate_power must be 0 or less, not %g",
              o->learning_rate_power);
        CHECK(o->l1 >= 0 && o->l2 >= 0 && o->beta >= 0, "l1, l2 and beta must be 0 or more");
    }
    CHECK(o->exponent > 0, "exponent must be above 0, not %g", o->exponent);
    CHECK(o->weight_decay >= 0 && o->weight_decay < 1, "weight_decay must be at least 0 and below 1, not %g",
          o->weight_decay);
    CHECK(o->clip_gradient_min <= o->clip_gradient_max, "clip_gradient_min is above clip_gradient_max");
    CHECK(o->clip_weight_min <= o->clip_weight_max, "clip_weight_min is above clip_weight_max");
    return validate_schedule(&o->schedule);
}

double rk_schedule_factor(const rk_schedule *schedule, int64_t step) {
    if (step < schedule->warmup_steps) return (double)(step + 1) / (double)schedule->warmup_steps;
    int64_t since = step - schedule->warmup_steps;
    if (schedule->kind == RK_SCHEDULE_CONSTANT || schedule->decay_steps <= 0) return 1;
    if (schedule->kind == RK_SCHEDULE_STEP)
        return pow(schedule->step_factor, (double)(since / schedule->decay_steps));
    double done = since >= schedule->decay_steps ? 1 : (double)since / (double)schedule->decay_steps;
    double left = schedule->kind == RK_SCHEDULE_COSINE ? 0.5 * (1 + cos(3.14159265358979323846 * done))
                                                       : pow(1 - done, schedule->power);
    return schedule->end_factor + (1 - schedule->end_factor) * left;
}
