/* Where the time of a run's training steps goes, beside what this machine can do.
 * Experimental: it may change in any release (docs/api.md). */
#ifndef RECKON_EXPERIMENTAL_PROFILE_H
#define RECKON_EXPERIMENTAL_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include <reckon/config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One stage of a step. Stages that threads go through beside each other share the wall time by the time that
 * threads spend in them. */
typedef struct rk_profile_stage {
    const char *name; /* "read", "route", "prepare", "lookup", "forward", "backward", "gradients", "sum
                         gradients", "update rows", "update dense", "other" */
    double seconds;   /* of a step, wall */
    double work;      /* bytes or flops of a step; 0: not counted */
    double limit;     /* work a second that this machine reaches; 0: no limit is measured */
    const char *unit; /* "B" or "F" */
} rk_profile_stage;

enum { RK_PROFILE_STAGES = 11 };
typedef struct rk_profile {
    size_t struct_size;
    int64_t n_steps, batch_size, n_ids, n_rows; /* ids and different rows of a batch */
    double seconds;                             /* of a step, mean */
    double gather_limit; /* bytes a second: random rows of the run's usual dim, of tables as large as the
                            run's, or 256 MB */
    double gemm_limit;   /* flops a second: the run's largest layer */
    rk_profile_stage stages[RK_PROFILE_STAGES]; /* those behind the last have no name */
    double
        limits_spread;  /* both limits are measured by turns with the steps: the longest turn's time over the
                           shortest one's; above RK_PROFILE_STEADY the machine did something else, too */
    const char *device; /* "cpu", or "cuda": then the stages are what the host does and waits for, "read",
                           "send", "wait for ids", "launch", "wait for the device", "other" */
} rk_profile;
#define RK_PROFILE_INIT \
    { sizeof(rk_profile), 0, 0, 0, 0, 0, 0, 0, {{0, 0, 0, 0, 0}}, 0, 0 }
#define RK_PROFILE_STEADY 1.25

/* Train `n_steps` steps (0: 20) of the run file's model in turns of which each begins with `n_warmup` that
 * are not timed, from its first batches, with parameters that are thrown away, and measure. The data is read
 * as in training. Errors: as training's; RK_BAD_DATA if the data has fewer batches than one. */
RK_API rk_status rk_profile_run(const rk_config *config, int64_t n_steps, int64_t n_warmup, rk_profile *out);

#ifdef __cplusplus
}
#endif
#endif
