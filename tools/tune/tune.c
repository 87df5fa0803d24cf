#include "tune/tune_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "metrics/metrics.h"

#define TRIAL_NAME(name) #name,
const char *const rk_trial_state_names[RK_TRIAL_STATE_COUNT] = {RK_TRIAL_STATE_LIST(TRIAL_NAME)};
#undef TRIAL_NAME

/* The overrides of one trial are everybody's, its own, and where it is kept. */
static rk_status append_override(rk_text_list *o, const char *key, const char *value) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    rk_buffer_printf(&text, "%s=%s", key, value);
    RK_TRY(text.status);
    return rk_text_list_add(o, text.data);
}

/* trial NULL: only what all have. */
static rk_status list_trial_overrides(const rk_tune *t, const rk_trial *trial, rk_text_list *out) {
    RK_AUTOFREE char *output = NULL;
    for (size_t i = 0; i < t->options.n_overrides; i++)
        RK_TRY(rk_text_list_add(out, t->options.overrides[i]));
    if (!trial) return RK_OK;
    for (size_t k = 0; k < t->space.n; k++)
        RK_TRY(append_override(out, t->space.keys[k].key, trial->values[k]));
    RK_TRY(rk_path_join(t->output, trial->name, &output));
    return append_override(out, "train.output", output);
}

rk_status rk_tune_load_trial_config(const rk_tune *t, const rk_trial *trial, rk_config **out) {
    RK_AUTO(rk_text_list_release) rk_text_list overrides = {0};
    RK_TRY(list_trial_overrides(t, trial, &overrides));
    return rk_config_load(t->path, (const char *const *)overrides.texts, overrides.n, out);
}

/* The metric as the run's log names it. */
static rk_status choose_metric(rk_tune *t, const rk_config *c) {
    rk_status status = rk_trainer_metric(c, t->options.metric, "--metric", &t->metric, &t->larger_is_better);
    if (status == RK_NOT_FOUND)
        return rk_error_hint(rk_error(RK_CONFIG, "%s: a search needs validation data", t->path),
                             "give data.valid a path, or a fraction of train: valid: {fraction: 0.1}");
    if (status != RK_OK) return t->options.metric ? status : rk_error_context(status, "%s", t->path);
    const char *slash = strrchr(t->metric, '/'), *last = slash ? slash + 1 : t->metric;
    RK_FAIL_IF(rk_metric_find(last) == RK_METRIC_calibration, RK_CONFIG,
               "'calibration' is best at 1, so trials cannot be ranked by it");
    return RK_OK;
}

static rk_status choose_output(rk_tune *t, const rk_config *c) {
    if (t->options.output) return rk_strdup(t->options.output, &t->output);
    RK_AUTO(rk_buffer_release) rk_buffer path = {0};
    rk_buffer_printf(&path, "%s-tune", rk_config_output(c));
    return rk_buffer_detach(&path, &t->output);
}

static rk_status load_base_config(rk_tune *t) {
    RK_AUTO(rk_tune_free_config) rk_config *config = NULL;
    RK_AUTOFREE char *text = NULL;
    char digits[32];
    RK_TRY(rk_tune_load_trial_config(t, NULL, &config));
    RK_TRY(choose_metric(t, config));
    RK_TRY(choose_output(t, config));
    RK_TRY(rk_config_to_yaml(config, &text));
    snprintf(digits, sizeof digits, "%08" PRIx32, rk_crc32c(0, text, strlen(text)));
    return rk_strdup(digits, &t->fingerprint);
}

static rk_status read_search_space(rk_tune *t) {
    const rk_tune_options *o = &t->options;
    for (size_t i = 0; i < o->n_grids; i++) RK_TRY(rk_search_space_add_grid(&t->space, o->grids[i]));
    for (size_t i = 0; i < o->n_ranges; i++) RK_TRY(rk_search_space_add_range(&t->space, o->ranges[i]));
    if (t->space.n == 0)
        return rk_error_hint(rk_error(RK_CONFIG, "there is nothing to search"),
                             "give keys with --grid KEY=A,B or --random N --range KEY=LOW..HIGH");
    if (o->n_ranges && !o->n_random)
        return rk_error_hint(rk_error(RK_CONFIG, "a range has infinitely many values"),
                             "give the number of trials with --random N");
    for (size_t k = 0; k < t->space.n; k++)
        RK_FAIL_IF(strcmp(t->space.keys[k].key, "train.output") == 0, RK_CONFIG,
                   "'train.output' cannot be searched: every trial has its own");
    t->n_trials = o->n_random;
    return o->n_random ? RK_OK : rk_search_space_size(&t->space, &t->n_trials);
}

static rk_status make_trial_settings(const rk_tune *t, int64_t number, rk_trial *trial) {
    RK_AUTO(rk_buffer_release) rk_buffer settings = {0};
    snprintf(trial->name, sizeof trial->name, "trial-%03" PRId64, number + 1);
    trial->best = NAN;
    trial->step = NAN;
    RK_TRY(rk_alloc(t->space.n, sizeof *trial->values, &trial->values));
    for (size_t k = 0; k < t->space.n; k++) {
        RK_TRY(rk_search_space_value(&t->space, t->options.n_random > 0, t->options.seed, number, k,
                                     &trial->values[k]));
        rk_buffer_printf(&settings, "%s%s=%s", k ? " " : "", t->space.keys[k].key, trial->values[k]);
    }
    return rk_buffer_detach(&settings, &trial->settings);
}

/* Mistakes show before the first training begins. */
static rk_status make_and_check_trials(rk_tune *t) {
    RK_TRY(rk_alloc((size_t)t->n_trials, sizeof *t->trials, &t->trials));
    for (int64_t i = 0; i < t->n_trials; i++) {
        RK_AUTO(rk_tune_free_config) rk_config *config = NULL;
        RK_TRY(make_trial_settings(t, i, &t->trials[i]));
        rk_status status = rk_tune_load_trial_config(t, &t->trials[i], &config);
        if (status != RK_OK)
            return rk_error_context(status, "%s (%s)", t->trials[i].name, t->trials[i].settings);
    }
    return RK_OK;
}

rk_status rk_tune_create(const char *path, const rk_tune_options *options, rk_tune **out) {
    rk_tune *t;
    RK_TRY(rk_alloc(1, sizeof *t, &t));
    t->options = (rk_tune_options)RK_TUNE_OPTIONS_INIT;
    rk_status status;
    RK_GOTO(rk_options_copy_in(&t->options, sizeof t->options, options, RK_SIZE_WITH(rk_tune_options, user),
                               "rk_tune_options"));
    RK_GOTO(rk_strdup(path, &t->path));
    RK_GOTO(read_search_space(t));
    RK_GOTO(load_base_config(t));
    RK_GOTO(make_and_check_trials(t));
    RK_GOTO(rk_directory_lock_acquire(t->output, &t->lock));
    RK_GOTO(rk_tune_read_finished_trials(t));
    *out = t;
    t = NULL;
done:
    rk_tune_free(t);
    return status;
}

void rk_tune_free(rk_tune *t) {
    if (!t) return;
    for (int64_t i = 0; t->trials && i < t->n_trials; i++) {
        rk_trial *trial = &t->trials[i];
        for (size_t k = 0; trial->values && k < t->space.n; k++) rk_free(trial->values[k]);
        RK_FREE_ALL(trial->values, trial->settings, trial->error);
    }
    rk_directory_lock_free(t->lock);
    rk_free(t->trials);
    rk_search_space_release(&t->space);
    RK_FREE_ALL(t->path, t->output, t->metric, t->fingerprint, t);
}

const char *rk_tune_output(const rk_tune *t) {
    return t->output;
}
