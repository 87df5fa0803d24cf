/* Two models of one run file, one on the CPU and one on a GPU, and what may lie between them. */
#ifndef RK_DEVICE_TRAINING_H
#define RK_DEVICE_TRAINING_H

#include "cuda/device_testing.h"
#include "model/fixture.h"

#include <math.h>

#include "model/model_internal.h"

typedef struct twins {
    fixture f;
    rk_model_device device;
    rk_model *cpu, *gpu;
} twins;

/* NMSE of f32 sums in another order: rounding, and what optimizers that divide by small numbers make of
 * it. */
#define CLOSE 1e-9

static inline void twins_build(twins *t) {
    t->f.options.max_batch = MAX_SAMPLES;
    OK(rk_model_build(&t->f.options, &t->cpu));
    t->f.options.device = &t->device;
    OK(rk_model_build(&t->f.options, &t->gpu));
}

/* SGD, whose steps are as large as the gradients: Adam makes whole steps of gradients that are rounding
 * noise. */
static inline void twins_init(twins *t, const usual_case *c) {
    memset(t, 0, sizeof *t);
    usual_init(&t->f, c);
    use_optimizer(&t->f, RK_OPTIMIZER_SGD, 0.05);
    twins_build(t);
}

static inline void twins_release(twins *t) {
    rk_model_free(t->cpu);
    rk_model_free(t->gpu);
    fixture_release(&t->f);
}

/* Values below 1e-3 count as such: a bias before batch norm has no gradient but rounding noise. */
static inline double nmse(const float *got, const float *wanted, int64_t n) {
    double error = 0, power = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = (double)got[i] - (double)wanted[i];
        error += e * e;
        power += (double)wanted[i] * (double)wanted[i];
    }
    return error / (power + 1e-6 * (double)n + 1e-30);
}

/* Every tensor of the two states. */
static inline void assert_states_close(rk_model *gpu, rk_model *cpu, const char *what, double most) {
    rk_state_dict a = {0}, b = {0};
    OK(rk_model_state_dict(gpu, &a));
    OK(rk_model_state_dict(cpu, &b));
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        size_t n_bytes = rk_state_dict_entry_bytes(&a.entries[i]);
        assert_string_equal(a.entries[i].name, b.entries[i].name);
        if (a.entries[i].type != RK_F32) {
            if (memcmp(a.entries[i].data, b.entries[i].data, n_bytes) != 0)
                fail_msg("%s: '%s' is another", what, a.entries[i].name);
            continue;
        }
        double far = nmse(a.entries[i].data, b.entries[i].data, (int64_t)(n_bytes / sizeof(float)));
        if (!(far <= most)) fail_msg("%s: '%s' is off by an NMSE of %g", what, a.entries[i].name, far);
    }
    rk_state_dict_release(&a);
    rk_state_dict_release(&b);
}

static inline void assert_losses_close(double gpu, double cpu, const char *what, int step) {
    if (!(fabs(gpu - cpu) <= 1e-5 * (1 + fabs(cpu))))
        fail_msg("%s: the loss of step %d is %.9g, not %.9g", what, step, gpu, cpu);
}

#endif
