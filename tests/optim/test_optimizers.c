/* Each rule against its equation (docs/optimizers.md) written out in double; options, slots, schedules. */
#include "testing.h"

#include <math.h>

#include "base/rng.h"
#include "optim/optimizer_config.h"
#include "optim/optimizer_slots.h"

#include "../golden/optimizers.h"

enum { DIM = 21, STEPS = 30 };

/* The equations of SEMANTICS, one value at a time; s0, s1 are the slots. */
static void reference(const rk_optimizer *o, int step, double *w, double *s0, double *s1,
                      const double *g_in) {
    double lr = o->learning_rate, t = step + 1, c1 = o->bias_correction ? 1 - pow(o->beta1, t) : 1,
           c2 = o->bias_correction ? 1 - pow(o->beta2, t) : 1;
    double squares = 0, g[DIM], w_norm = 0, g_norm = 0, step_norm = 0, steps[DIM];
    for (int k = 0; k < DIM; k++) {
        g[k] = fmin(fmax(g_in[k], o->clip_gradient_min), o->clip_gradient_max);
        squares += g[k] * g[k] / DIM;
        if (o->kind != RK_OPTIMIZER_LAMB && o->kind != RK_OPTIMIZER_LARS)
            w[k] -= o->weight_decay * (o->weight_decay_by_learning_rate ? lr : 1) * w[k];
        w_norm += w[k] * w[k];
        g_norm += g[k] * g[k];
    }
    if (o->kind == RK_OPTIMIZER_ROWWISE_ADAGRAD) s0[0] += squares;
    if (o->kind == RK_OPTIMIZER_ROWWISE_ADAM) s1[0] = o->beta2 * s1[0] + (1 - o->beta2) * squares;
    double local =
        o->trust_coefficient * sqrt(w_norm) / (sqrt(g_norm) + o->weight_decay * sqrt(w_norm) + o->epsilon);
    for (int k = 0; k < DIM; k++) {
        double before, after;
        switch (o->kind) {
            case RK_OPTIMIZER_SGD:
                w[k] -= lr * g[k];
                break;
            case RK_OPTIMIZER_MOMENTUM:
                s0[k] = o->momentum * s0[k] + g[k];
                w[k] -= lr * (o->nesterov ? o->momentum * s0[k] + g[k] : s0[k]);
                break;
            case RK_OPTIMIZER_ADAGRAD:
                s0[k] += g[k] * g[k];
                w[k] -= lr * g[k] / (sqrt(s0[k]) + o->epsilon);
                break;
            case RK_OPTIMIZER_ROWWISE_ADAGRAD:
                w[k] -= lr * g[k] / (sqrt(s0[0]) + o->epsilon);
                break;
            case RK_OPTIMIZER_ROWWISE_ADAM:
                s0[k] = o->beta1 * s0[k] + (1 - o->beta1) * g[k];
                w[k] -= lr * (s0[k] / c1) / (sqrt(s1[0] / c2) + o->epsilon);
                break;
            case RK_OPTIMIZER_ADAM:
            case RK_OPTIMIZER_ADAMW:
                s0[k] = o->beta1 * s0[k] + (1 - o->beta1) * g[k];
                s1[k] = o->beta2 * s1[k] + (1 - o->beta2) * g[k] * g[k];
                w[k] -= lr * (s0[k] / c1) /
                        (o->sum_inside_sqrt ? sqrt(s1[k] / c2 + o->epsilon * o->epsilon)
                                            : sqrt(s1[k] / c2) + o->epsilon);
                break;
            case RK_OPTIMIZER_FTRL:
                before = pow(s0[k], -o->learning_rate_power);
                s0[k] += g[k] * g[k];
                after = pow(s0[k], -o->learning_rate_power);
                s1[k] += g[k] - (after - before) / lr * w[k];
                w[k] = fabs(s1[k]) <= o->l1
                           ? 0
                           : (copysign(o->l1, s1[k]) - s1[k]) / ((after + o->beta) / lr + 2 * o->l2);
                break;
            case RK_OPTIMIZER_ADAGRAD_MOMENTUM:
                s0[k] = o->beta2 == 1 ? s0[k] + g[k] * g[k] : o->beta2 * s0[k] + (1 - o->beta2) * g[k] * g[k];
                steps[k] = g[k] * pow(s0[k] + o->epsilon, -1 / o->exponent);
                s1[k] = o->momentum * s1[k] + steps[k];
                w[k] -= lr * (o->nesterov ? o->momentum * s1[k] + steps[k] : s1[k]);
                break;
            case RK_OPTIMIZER_LAMB:
                s0[k] = o->beta1 * s0[k] + (1 - o->beta1) * g[k];
                s1[k] = o->beta2 * s1[k] + (1 - o->beta2) * g[k] * g[k];
                steps[k] = (s0[k] / c1) / (sqrt(s1[k] / c2) + o->epsilon) + o->weight_decay * w[k];
                step_norm += steps[k] * steps[k];
                break;
            case RK_OPTIMIZER_LARS:
                s0[k] = o->momentum * s0[k] + lr * local * (g[k] + o->weight_decay * w[k]);
                w[k] -= s0[k];
                break;
            case RK_OPTIMIZER_COUNT:
                break;
        }
    }
    for (int k = 0; k < DIM && o->kind == RK_OPTIMIZER_LAMB; k++)
        w[k] -= lr * sqrt(w_norm) / sqrt(step_norm) * steps[k];
    for (int k = 0; k < DIM; k++) w[k] = fmin(fmax(w[k], o->clip_weight_min), o->clip_weight_max);
}

static void follow(const rk_optimizer *o) {
    rk_slot slots[RK_MAX_SLOTS];
    int n_slots = rk_optimizer_list_slots(o, slots);
    float w[DIM], s[2][DIM], g[DIM];
    double rw[DIM], rs[2][DIM], rg[DIM];
    rk_rng rng = {4, (uint64_t)o->kind, 0};
    for (int k = 0; k < DIM; k++) {
        rw[k] = w[k] = (float)rk_rng_normal(&rng);
        for (int i = 0; i < 2; i++) rs[i][k] = s[i][k] = i < n_slots ? slots[i].initial : 0;
    }
    for (int step = 0; step < STEPS; step++) {
        for (int k = 0; k < DIM; k++) rg[k] = g[k] = (float)rk_rng_normal(&rng);
        rk_update update;
        rk_optimizer_set_step_coefficients(o, step, 1, &update);
        rk_optimizer_step(&update, w, s[0], s[1], g, DIM);
        reference(o, step, rw, rs[0], rs[1], rg);
        /* f32 against double over 30 steps: a few units in the last place a step. */
        for (int k = 0; k < DIM; k++)
            if (!(fabs(w[k] - rw[k]) < 2e-5 * (1 + fabs(rw[k]))))
                fail_msg("%s, step %d: %.9g, not %.9g", rk_optimizer_name(o->kind), step, w[k], rw[k]);
    }
}

static void test_rules(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++) {
        rk_optimizer o;
        OK(rk_optimizer_init(&o, (rk_optimizer_kind)kind));
        OK(rk_optimizer_validate(&o));
        o.learning_rate = 0.05;
        follow(&o);
        o.nesterov = o.sum_inside_sqrt = true;
        o.bias_correction = false;
        o.exponent = 3;
        o.beta2 = 0.95;
        o.l1 = 0.05;
        o.l2 = 0.1;
        o.beta = 0.5;
        o.learning_rate_power = -0.7;
        if (kind == RK_OPTIMIZER_LAMB) o.sum_inside_sqrt = false;
        o.weight_decay = 0.01;
        o.clip_gradient_min = -0.8;
        o.clip_gradient_max = 1.1;
        o.clip_weight_max = 0.9;
        follow(&o);
        o.weight_decay_by_learning_rate = true;
        follow(&o);
    }
}

/* The same steps by PyTorch (tests/golden/make_optimizers.py). */
static void test_goldens(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        float w[GOLDEN_DIM], s[2][GOLDEN_DIM] = {{0}}, g[GOLDEN_DIM];
        rk_slot slots[RK_MAX_SLOTS];
        int n_slots = rk_optimizer_list_slots(&goldens[i].optimizer, slots);
        for (int k = 0; k < n_slots; k++)
            for (int j = 0; j < GOLDEN_DIM; j++) s[k][j] = slots[k].initial;
        memcpy(w, golden_start, sizeof w);
        for (int step = 0; step < GOLDEN_STEPS; step++) {
            rk_update update;
            rk_optimizer_set_step_coefficients(&goldens[i].optimizer, step, 1, &update);
            memcpy(g, golden_gradients[step], sizeof g);
            rk_optimizer_step(&update, w, s[0], s[1], g, GOLDEN_DIM);
            for (int j = 0; j < GOLDEN_DIM; j++)
                assert_true(fabs(w[j] - goldens[i].steps[step][j]) < 3e-6 * (1 + fabs(w[j])));
        }
    }
}

static void test_zero_gradients_are_harmless(void **state) {
    (void)state;
    for (int kind = 0; kind < RK_OPTIMIZER_COUNT; kind++) {
        rk_optimizer o;
        OK(rk_optimizer_init(&o, (rk_optimizer_kind)kind));
        o.epsilon = 0;
        o.initial_accumulator = kind == RK_OPTIMIZER_ADAM ? 0 : 0;
        if (kind == RK_OPTIMIZER_ADAM || kind == RK_OPTIMIZER_ADAMW || kind == RK_OPTIMIZER_ROWWISE_ADAM ||
            kind == RK_OPTIMIZER_LAMB)
            o.epsilon = 1e-8;
        float w[DIM] = {0}, a[DIM] = {0}, b[DIM] = {0}, g[DIM] = {0};
        rk_update update;
        rk_optimizer_set_step_coefficients(&o, 0, 1, &update);
        rk_optimizer_step(&update, w, a, b, g, DIM);
        for (int k = 0; k < DIM; k++) assert_true(isfinite(w[k]));
        rk_optimizer_set_step_coefficients(&o, 0, 0, &update); /* a learning rate of 0 moves nothing */
        for (int k = 0; k < DIM; k++) a[k] = b[k] = 0.1f, g[k] = 1, w[k] = 0.5f;
        if (kind == RK_OPTIMIZER_LARS) memset(a, 0, sizeof a);
        rk_optimizer_step(&update, w, a, b, g, DIM);
        for (int k = 0; k < DIM; k++) assert_true(w[k] == 0.5f);
    }
}

/* A dense tensor is one "row": terms are not lost that are small beside the sum, which is what a long sum
 * comes to. */
static void test_long_rows(void **state) {
    (void)state;
    enum { N = 1 << 18, LARGE = 16, VALUE = 5000 };
    const double large = (double)LARGE * VALUE * VALUE;
    float *w = malloc(N * sizeof *w), *m = calloc(N, sizeof *m), *v = calloc(N, sizeof *v),
          *g = malloc(N * sizeof *g);
    assert_true(w && m && v && g);
    for (int lars = 0; lars < 2; lars++) {
        rk_optimizer o;
        rk_update update;
        OK(rk_optimizer_init(&o, lars ? RK_OPTIMIZER_LARS : RK_OPTIMIZER_LAMB));
        o.weight_decay = lars ? 0 : 1;
        o.epsilon = lars ? 0 : 1e-12;
        o.learning_rate = 1;
        o.trust_coefficient = 1;
        for (int i = 0; i < N; i++)
            w[i] = lars ? 1 : i < LARGE ? VALUE - 1 : 0, g[i] = lars && i < LARGE ? VALUE : 1;
        rk_optimizer_set_step_coefficients(&o, 0, 1, &update);
        rk_optimizer_step(&update, w, m, v, g, N);
        double norm = lars ? sqrt((double)N)
                           : sqrt((double)LARGE) * (VALUE - 1); /* lamb's steps are as lars' gradients */
        double trust = norm / sqrt(large + N - LARGE), moved = (lars ? 1 : 0) - (double)w[N - 1];
        if (fabs(moved / trust - 1) > 1e-5)
            fail_msg("%s: %g instead of %g", lars ? "lars" : "lamb", moved, trust);
        memset(m, 0, N * sizeof *m);
    }
    free(w);
    free(m);
    free(v);
    free(g);
}

static void test_schedules(void **state) {
    (void)state;
    rk_schedule s = {.kind = RK_SCHEDULE_CONSTANT, .warmup_steps = 4};
    assert_true(rk_schedule_factor(&s, 0) == 0.25 && rk_schedule_factor(&s, 3) == 1 &&
                rk_schedule_factor(&s, 99) == 1);
    s = (rk_schedule){
        .kind = RK_SCHEDULE_POLYNOMIAL, .warmup_steps = 2, .decay_steps = 10, .end_factor = 0.1, .power = 2};
    assert_true(fabs(rk_schedule_factor(&s, 7) - (0.1 + 0.9 * 0.25)) < 1e-12 &&
                fabs(rk_schedule_factor(&s, 50) - 0.1) < 1e-12);
    s.kind = RK_SCHEDULE_COSINE;
    assert_true(fabs(rk_schedule_factor(&s, 7) - (0.1 + 0.9 * 0.5)) < 1e-12);
    s = (rk_schedule){.kind = RK_SCHEDULE_STEP, .decay_steps = 3, .step_factor = 0.5};
    assert_true(rk_schedule_factor(&s, 2) == 1 && rk_schedule_factor(&s, 3) == 0.5 &&
                rk_schedule_factor(&s, 6) == 0.25);
}

static rk_status resolve(const char *text, rk_optimizer *out) {
    rk_yaml yaml;
    rk_optimizer_config config;
    RK_TRY(rk_yaml_parse("f.yaml", text, strlen(text), &yaml));
    rk_status status = rk_schema_bind(&rk_optimizer_schema, &yaml, yaml.root, &config);
    if (status == RK_OK) status = rk_optimizer_from_config(&config, &yaml, RK_OPTIMIZER_ADAM, out);
    rk_schema_release(&rk_optimizer_schema, &config);
    rk_yaml_release(&yaml);
    return status;
}

static void test_configuration(void **state) {
    (void)state;
    rk_optimizer o;
    OK(resolve("adam", &o));
    assert_true(o.kind == RK_OPTIMIZER_ADAM && o.learning_rate == 0.001 && o.epsilon == 1e-7);
    OK(
        resolve("{kind: momentum, momentum: 0.5, nesterov: 1, clip_gradient: 2, schedule: {kind: cosine, "
                "decay_steps: 5}}",
                &o));
    assert_true(o.nesterov && o.momentum == 0.5 && o.clip_gradient_min == -2 && o.clip_gradient_max == 2 &&
                o.schedule.decay_steps == 5);
    FAILS(resolve("{kind: sgd, beta1: 0.5}", &o), RK_CONFIG,
          "f.yaml:1: key 'beta1': not an option of the optimizer 'sgd'\nhint: it is an option of adam, "
          "rowwise_adam, adamw, lamb");
    FAILS(resolve("{kind: adma}", &o), RK_CONFIG,
          "f.yaml:1: key 'kind': there is no 'adma'\nhint: did you mean 'adam'?");
    FAILS(resolve("{kind: adam, beta2: 1}", &o), RK_CONFIG,
          "f.yaml:1: key 'optimizer': beta2 must be at least 0 and below 1, not 1");
    FAILS(resolve("{kind: adam, schedule: cosine}", &o), RK_CONFIG,
          "f.yaml:1: key 'optimizer': a schedule that decays needs decay_steps of 1 or more");
    FAILS(
        resolve("{kind: adam, schedule: {kind: cosine, decay_steps: 5, step_factor: 0.5}}", &o), RK_CONFIG,
        "f.yaml:1: key 'step_factor': not an option of the schedule 'cosine'\nhint: it is an option of step");
    FAILS(resolve("{kind: adam, schedule: {decay_steps: 5}}", &o), RK_CONFIG,
          "f.yaml:1: key 'decay_steps': not an option of the schedule 'constant'\nhint: it is an option of "
          "polynomial, cosine, step");
    OK(resolve(
        "{kind: adam, schedule: {kind: step, decay_steps: 5, end_factor: 0, power: 1, step_factor: 0.5}}",
        &o)); /* as a resolved configuration has them */
    rk_optimizer_kind kind;
    FAILS(rk_optimizer_from_name("adagard", &kind), RK_NOT_FOUND,
          "unknown optimizer 'adagard'\nhint: did you mean 'adagrad'?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_zero_gradients_are_harmless),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
