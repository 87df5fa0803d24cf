#include "optim/optimizer_config.h"

#include <math.h>
#include <string.h>

static const char *const kinds[] = {
#define RK_OPTIMIZER_NAME(name, text) text,
    RK_OPTIMIZER_LIST(RK_OPTIMIZER_NAME)
#undef RK_OPTIMIZER_NAME
};
static const char *const schedules[] = {"constant", "polynomial", "cosine", "step"};

#define NUMBER(member, min, max, doc) RK_FIELD_F64(rk_optimizer_config, member, RK_UNSET, min, max, doc)
/* true or false, or not given: bound as a bool would lose the third. */
#define SWITCH(member, doc_)                                                                        \
    {                                                                                               \
        .key = #member, .kind = RK_FIELD_KIND_F64, .offset = offsetof(rk_optimizer_config, member), \
        .default_number = RK_UNSET, .min = 0, .max = 1, .doc = (doc_)                               \
    }

typedef struct rk_schedule_config rk_schedule_config;
static const rk_field schedule_fields[] = {
    RK_FIELD_ENUM(rk_schedule_config, kind, RK_SCHEDULE_CONSTANT, schedules,
                  "how the learning rate decays after the warm-up"),
    RK_FIELD_I64(rk_schedule_config, warmup_steps, 0, 0, 1e15, "steps of linear warm-up"),
    RK_FIELD_I64(rk_schedule_config, decay_steps, 0, 0, 1e15,
                 "steps of the decay; step: steps between two drops"),
    RK_FIELD_F64(rk_schedule_config, end_factor, 0, 0, 1, "polynomial, cosine: the factor at the end"),
    RK_FIELD_F64(rk_schedule_config, power, 1, 0, 100, "polynomial: the power"),
    RK_FIELD_F64(rk_schedule_config, step_factor, 0.1, 0, 1, "step: the factor at each drop"),
};
static const rk_schema schedule_schema = {.name = "schedule",
                                          .struct_bytes = sizeof(rk_schedule_config),
                                          .fields = schedule_fields,
                                          .n_fields = 6,
                                          .scalar_key = "kind"};

static const rk_field fields[] = {
    RK_FIELD_ENUM(rk_optimizer_config, kind, -1, kinds,
                  "which optimizer (docs/optimizers.md); train.optimizer: adam by default; elsewhere "
                  "train.optimizer's"),
    NUMBER(learning_rate, 0, INFINITY, "step size; 0.001 for the adam family and lamb, else 0.01"),
    NUMBER(epsilon, 0, INFINITY, "added to divisors, against division by zero"),
    NUMBER(initial_accumulator, 0, INFINITY,
           "adagrad, rowwise_adagrad, ftrl, adagrad_momentum: the accumulator's initial value"),
    NUMBER(momentum, 0, 1, "momentum, adagrad_momentum, lars"),
    NUMBER(beta1, 0, 1, "adam family, lamb: decay of the first moment"),
    NUMBER(beta2, 0, 1,
           "adam family, lamb: decay of the second moment; adagrad_momentum: of the accumulator"),
    NUMBER(exponent, 0, INFINITY, "adagrad_momentum: the exponent of the root in the divisor"),
    NUMBER(l1, 0, INFINITY, "ftrl"),
    NUMBER(l2, 0, INFINITY, "ftrl"),
    NUMBER(beta, 0, INFINITY, "ftrl"),
    NUMBER(learning_rate_power, -INFINITY, 0, "ftrl"),
    NUMBER(weight_decay, 0, 1, "decoupled: w -= weight_decay * w"),
    NUMBER(clip_gradient, 0, INFINITY, "clips each value of the summed gradient to [-x, x]"),
    NUMBER(clip_gradient_min, -INFINITY, INFINITY, "clips the summed gradient from below"),
    NUMBER(clip_gradient_max, -INFINITY, INFINITY, "clips the summed gradient from above"),
    NUMBER(clip_weight_min, -INFINITY, INFINITY, "clips the weights from below after the update"),
    NUMBER(clip_weight_max, -INFINITY, INFINITY, "clips the weights from above after the update"),
    NUMBER(trust_coefficient, 0, INFINITY, "lars"),
    SWITCH(nesterov, "momentum, adagrad_momentum: 1 = Nesterov momentum"),
    SWITCH(bias_correction, "adam family, lamb: 0 leaves it out, as TensorFlow's TPU Adam does"),
    SWITCH(sum_inside_sqrt, "adam family: 1 divides by sqrt(v + epsilon^2)"),
    SWITCH(weight_decay_by_learning_rate, "1: w -= learning_rate * weight_decay * w"),
    RK_FIELD_STRUCT(rk_optimizer_config, schedule, &schedule_schema,
                    "how the learning rate changes over the steps"),
};

#define BIT(kind) (1u << RK_OPTIMIZER_##kind)
enum { ADAMS = BIT(ADAM) | BIT(ADAMW) | BIT(ROWWISE_ADAM) | BIT(LAMB) };

/* Keys that not every kind reads: the bits of those that do. */
static const struct {
    const char *key;
    size_t offset;
    unsigned used_by;
} uses[] = {
#define USE(member, kinds_) \
    { #member, offsetof(rk_optimizer_config, member), kinds_ }
    USE(initial_accumulator, BIT(ADAGRAD) | BIT(ROWWISE_ADAGRAD) | BIT(FTRL) | BIT(ADAGRAD_MOMENTUM)),
    USE(momentum, BIT(MOMENTUM) | BIT(ADAGRAD_MOMENTUM) | BIT(LARS)),
    USE(beta1, ADAMS),
    USE(beta2, ADAMS | BIT(ADAGRAD_MOMENTUM)),
    USE(exponent, BIT(ADAGRAD_MOMENTUM)),
    USE(l1, BIT(FTRL)),
    USE(l2, BIT(FTRL)),
    USE(beta, BIT(FTRL)),
    USE(learning_rate_power, BIT(FTRL)),
    USE(trust_coefficient, BIT(LARS)),
    USE(nesterov, BIT(MOMENTUM) | BIT(ADAGRAD_MOMENTUM)),
    USE(bias_correction, ADAMS),
    USE(sum_inside_sqrt, ADAMS),
    USE(epsilon, ~(BIT(SGD) | BIT(MOMENTUM) | BIT(FTRL))),
#undef USE
};
enum { N_USES = sizeof uses / sizeof uses[0] };

/* Where no kind is said it is adam, most likely. */
static bool accepts_key(const rk_yaml_node *node, const char *key) {
    const rk_yaml_node *kind = rk_yaml_find_key(node, "kind");
    if (!kind && node) kind = node->short_form;
    const char *name = kind && kind->scalar ? kind->scalar : kinds[RK_OPTIMIZER_ADAM];
    for (int k = 0; k < RK_OPTIMIZER_COUNT; k++)
        for (size_t i = 0; i < N_USES; i++)
            if (strcmp(kinds[k], name) == 0 && strcmp(uses[i].key, key) == 0)
                return uses[i].used_by & (1u << k);
    return true;
}

const rk_schema rk_optimizer_schema = {.name = "optimizer",
                                       .struct_bytes = sizeof(rk_optimizer_config),
                                       .fields = fields,
                                       .n_fields = sizeof fields / sizeof fields[0],
                                       .scalar_key = "kind",
                                       .takes = accepts_key,
                                       .has_line = true,
                                       .line_offset = offsetof(rk_optimizer_config, line)};

/* A key that the kind would ignore is a mistake of the user's. used_by: bits of the n kinds that read it. */
static rk_status unused_option_error(const rk_optimizer_config *c, const rk_yaml *yaml, const char *key,
                                     const char *what, int kind, const char *const *names, int n,
                                     unsigned used_by) {
    rk_status status = rk_error(RK_CONFIG, "%s: key '%s': not an option of the %s '%s'",
                                rk_yaml_location_of(yaml, c->line).text, key, what, names[kind]);
    char list[256] = "";
    for (int k = 0; k < n; k++)
        if (used_by & (1u << k)) {
            if (*list) strcat(list, ", ");
            strcat(list, names[k]);
        }
    return rk_error_hint(status, "it is an option of %s", list);
}

static rk_status check_options_used(const rk_optimizer_config *c, const rk_yaml *yaml, int kind) {
    for (size_t i = 0; i < N_USES; i++) {
        double value;
        memcpy(&value, (const char *)c + uses[i].offset, sizeof value);
        if (isnan(value) || (uses[i].used_by & (1u << kind))) continue;
        return unused_option_error(c, yaml, uses[i].key, "optimizer", kind, kinds, RK_OPTIMIZER_COUNT,
                                   uses[i].used_by);
    }
    return RK_OK;
}

/* Of a schedule those that differ from what they are by default: a resolved configuration names them all. */
static rk_status check_schedule_used(const rk_optimizer_config *c, const rk_yaml *yaml) {
    enum {
        POLYNOMIAL = 1 << RK_SCHEDULE_POLYNOMIAL,
        COSINE = 1 << RK_SCHEDULE_COSINE,
        STEP = 1 << RK_SCHEDULE_STEP
    };
    const rk_schedule_config *s = &c->schedule;
    const struct {
        const char *key;
        bool given;
        unsigned used_by;
    } keys[] = {
        {"decay_steps", s->decay_steps != 0, POLYNOMIAL | COSINE | STEP},
        {"end_factor", s->end_factor != 0, POLYNOMIAL | COSINE},
        {"power", s->power != 1, POLYNOMIAL},
        {"step_factor", s->step_factor != 0.1, STEP},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].given && !(keys[i].used_by & (1u << s->kind)))
            return unused_option_error(c, yaml, keys[i].key, "schedule", s->kind, schedules,
                                       RK_SCHEDULE_COUNT, keys[i].used_by);
    return RK_OK;
}

/* Where each option of the file goes: to a double, or to a bool, which 0 and 1 stand for. */
static const struct {
    size_t from, to, bytes;
} options[] = {
#define OPTION(from, to) \
    { offsetof(rk_optimizer_config, from), offsetof(rk_optimizer, to), sizeof((rk_optimizer *)0)->to }
    OPTION(learning_rate, learning_rate),
    OPTION(epsilon, epsilon),
    OPTION(initial_accumulator, initial_accumulator),
    OPTION(momentum, momentum),
    OPTION(beta1, beta1),
    OPTION(beta2, beta2),
    OPTION(exponent, exponent),
    OPTION(l1, l1),
    OPTION(l2, l2),
    OPTION(beta, beta),
    OPTION(learning_rate_power, learning_rate_power),
    OPTION(weight_decay, weight_decay),
    OPTION(clip_gradient, clip_gradient_max),
    OPTION(clip_gradient_min, clip_gradient_min),
    OPTION(clip_gradient_max, clip_gradient_max),
    OPTION(clip_weight_min, clip_weight_min),
    OPTION(clip_weight_max, clip_weight_max),
    OPTION(trust_coefficient, trust_coefficient),
    OPTION(nesterov, nesterov),
    OPTION(bias_correction, bias_correction),
    OPTION(sum_inside_sqrt, sum_inside_sqrt),
    OPTION(weight_decay_by_learning_rate, weight_decay_by_learning_rate),
#undef OPTION
};

static void apply_given_options(const rk_optimizer_config *c, rk_optimizer *o) {
    if (!isnan(c->clip_gradient)) o->clip_gradient_min = -c->clip_gradient;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        double given;
        memcpy(&given, (const char *)c + options[i].from, sizeof given);
        const bool is_set = given != 0;
        const void *value = options[i].bytes == sizeof given ? (const void *)&given : &is_set;
        if (!isnan(given)) memcpy((char *)o + options[i].to, value, options[i].bytes);
    }
}

rk_status rk_optimizer_from_config(const rk_optimizer_config *c, const rk_yaml *yaml, rk_optimizer_kind usual,
                                   rk_optimizer *out) {
    rk_optimizer o;
    rk_optimizer_kind kind = c->kind < 0 ? usual : (rk_optimizer_kind)c->kind;
    RK_TRY(rk_optimizer_init(&o, kind));
    RK_TRY(check_options_used(c, yaml, (int)kind));
    RK_TRY(check_schedule_used(c, yaml));
    apply_given_options(c, &o);
    o.schedule = (rk_schedule){(rk_schedule_kind)c->schedule.kind,
                               c->schedule.warmup_steps,
                               c->schedule.decay_steps,
                               c->schedule.end_factor,
                               c->schedule.power,
                               c->schedule.step_factor};
    rk_status status = rk_optimizer_validate(&o);
    if (status != RK_OK)
        return rk_error_context(RK_CONFIG, "%s: key 'optimizer'", rk_yaml_location_of(yaml, c->line).text);
    *out = o;
    return RK_OK;
}
