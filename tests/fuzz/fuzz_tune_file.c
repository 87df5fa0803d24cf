/* tune.json, which a search goes on from. */
#include "base/memory.h"
#include "fuzz/scratch.h"
#include "tune/tune_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char *const texts[] = {"1", "two"};

static void make_trials(rk_tune *t) {
    if (rk_alloc(2, sizeof *t->trials, &t->trials) != RK_OK) abort();
    t->n_trials = 2;
    for (int i = 0; i < 2; i++) {
        rk_trial *trial = &t->trials[i];
        snprintf(trial->name, sizeof trial->name, "trial-%d", i);
        if (rk_alloc(1, sizeof *trial->values, &trial->values) != RK_OK ||
            rk_strdup(texts[i], &trial->values[0]) != RK_OK)
            abort();
        if (rk_strdup(texts[i], &trial->settings) != RK_OK) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_tune *t;
    char *text;
    scratch_file("tune.json", data, n_bytes);
    if (rk_alloc(1, sizeof *t, &t) != RK_OK) abort();
    t->options.resume = true;
    if (rk_strdup(scratch_folder(), &t->output) != RK_OK || rk_strdup("f", &t->fingerprint) != RK_OK ||
        rk_strdup("auc", &t->metric) != RK_OK)
        abort();
    if (rk_search_space_add_grid(&t->space, "k=1,two") != RK_OK) abort();
    make_trials(t);
    if (rk_tune_read_finished_trials(t) == RK_OK && rk_tune_to_text(t, &text) == RK_OK) rk_text_free(text);
    rk_tune_free(t);
    return 0;
}
