/* Inside a search: what trying, recording and drawing share. */
#ifndef RK_TUNE_TUNE_INTERNAL_H
#define RK_TUNE_TUNE_INTERNAL_H

#include <reckon/experimental/tune.h>
#include <stdatomic.h>

#include "base/buffer.h"
#include "base/file/directory_lock.h"
#include "tune/search_space.h"

#define RK_TRIAL_STATE_LIST(X) X(waiting) X(done) X(failed)
typedef enum rk_trial_state {
#define RK_TRIAL_ENUM(name) RK_TRIAL_##name,
    RK_TRIAL_STATE_LIST(RK_TRIAL_ENUM)
#undef RK_TRIAL_ENUM
        RK_TRIAL_STATE_COUNT
} rk_trial_state;
extern const char *const rk_trial_state_names[RK_TRIAL_STATE_COUNT];

typedef struct rk_trial {
    char name[32];  /* "trial-001" */
    char **values;  /* [space.n] of each key */
    char *settings; /* "key=value key=value" */
    rk_trial_state state;
    double best; /* the metric's, over its evaluations; NaN: none */
    double step; /* where that was */
    double seconds;
    char *error; /* what failed, in one line; or NULL */
} rk_trial;

struct rk_tune {
    rk_tune_options options;
    char *path, *output, *metric;
    rk_directory_lock *lock; /* of the search's directory; each trial's has its own */
    char *fingerprint; /* of the resolved run file without what is searched: a search goes on only with the
                          same */
    bool larger_is_better;
    rk_search_space space;
    rk_trial *trials; /* [n_trials] */
    int64_t n_trials;
    rk_trainer *_Atomic running;
    atomic_int stop;
};

/* The configuration of a trial, kept in its own directory; trial NULL: what is the same in all. */
rk_status rk_tune_load_trial_config(const rk_tune *tune, const rk_trial *trial, rk_config **out);

/* Numbers of the trials [n_trials], best first, those that have no value behind; rk_free. */
bool rk_tune_is_better(const rk_tune *tune, double a, double b); /* NaN is better than nothing */

/* tune.json, tune.csv and tune.svg. */
rk_status rk_tune_write_files(const rk_tune *tune);
/* The trials that tune.json says are over; RK_CONFIG if it is of another search. Nothing happens if it is not
 * there. */
rk_status rk_tune_read_finished_trials(rk_tune *tune);
rk_status rk_tune_draw_svg(const rk_tune *tune, rk_buffer *out);

static inline void rk_tune_free_config(rk_config **config) { /* for RK_AUTO */
    rk_config_free(*config);
}

#endif
