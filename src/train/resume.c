#include "train/resume.h"

#include <stdbool.h>
#include <string.h>

/* Keys of `train:` that a resumed run may change; those that hold mappings go with all that is in them. */
static const char *const free_keys[] = {"epochs",  "steps",          "threads", "output",     "log_every", "metrics",   "tensorboard",
                                        "evaluate", "early_stopping", "plateau", "checkpoint", "keep_best", "on_not_finite"};

typedef struct line {
    const char *text;
    size_t n_bytes;
} line;

static size_t indent_of(line l) {
    size_t n = 0;
    while (n < l.n_bytes && l.text[n] == ' ') n++;
    return n;
}

static bool is_free(line l) {
    size_t indent = indent_of(l);
    for (size_t i = 0; indent == 2 && i < sizeof free_keys / sizeof free_keys[0]; i++) {
        size_t n = strlen(free_keys[i]);
        if (l.n_bytes > 2 + n && memcmp(l.text + 2, free_keys[i], n) == 0 && l.text[2 + n] == ':') return true;
    }
    return false;
}

/* The next line that must stay as it was; n_bytes = 0 at the end. */
static line next_line(const char **at, bool *in_train) {
    bool inside_free = false;
    while (**at) {
        const char *end = strchr(*at, '\n');
        line l = {*at, end ? (size_t)(end - *at) : strlen(*at)};
        *at = end ? end + 1 : *at + l.n_bytes;
        if (indent_of(l) == 0) *in_train = l.n_bytes >= 6 && memcmp(l.text, "train:", 6) == 0;
        if (indent_of(l) <= 2) inside_free = *in_train && is_free(l);
        if (!inside_free && l.n_bytes) return l;
    }
    return (line){"", 0};
}

rk_status rk_resume_check(const char *stored, const char *now) {
    bool a_train = false, b_train = false;
    for (;;) {
        line a = next_line(&stored, &a_train), b = next_line(&now, &b_train);
        if (a.n_bytes == b.n_bytes && memcmp(a.text, b.text, a.n_bytes) == 0) {
            if (a.n_bytes == 0) return RK_OK;
            continue;
        }
        rk_status status = rk_error(RK_CONFIG, "the run was begun with another configuration: '%.*s' then, '%.*s' now", (int)a.n_bytes, a.text, (int)b.n_bytes, b.text);
        return rk_error_hint(status, "resume with the run file as it was, or begin a new run with another train.output");
    }
}
