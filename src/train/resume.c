#include "train/resume.h"

#include <stdbool.h>
#include <string.h>

/* Keys that a resumed run may change; those that hold mappings go with all that is in them. A section without keys here may change wholly. */
static const char *const free_of_train[] = {"epochs",  "steps",          "threads", "output",     "log_every", "metrics",   "tensorboard",
                                        "evaluate", "early_stopping", "plateau", "checkpoint", "keep_best", "on_not_finite"};
static const char *const free_of_cluster[] = {"embedding_ranks", "reader_ranks", "timeout_s", "replicate_below", "plan", "tables"};

static const struct section {
    const char *name; /* with its colon */
    const char *const *free_keys;
    size_t n_free;
} sections[] = {{"train:", free_of_train, sizeof free_of_train / sizeof free_of_train[0]},
                {"cluster:", free_of_cluster, sizeof free_of_cluster / sizeof free_of_cluster[0]},
                {"device:", NULL, 0},
                {"cuda:", NULL, 0}};

typedef struct line {
    const char *text;
    size_t n_bytes;
} line;

static size_t indent_of(line l) {
    size_t n = 0;
    while (n < l.n_bytes && l.text[n] == ' ') n++;
    return n;
}

static bool is_free(const struct section *section, line l) {
    if (section->n_free == 0) return true;
    size_t indent = indent_of(l);
    for (size_t i = 0; indent == 2 && i < section->n_free; i++) {
        size_t n = strlen(section->free_keys[i]);
        if (l.n_bytes > 2 + n && memcmp(l.text + 2, section->free_keys[i], n) == 0 && l.text[2 + n] == ':') return true;
    }
    return false;
}

/* The section that a line without indent begins, if it has free keys. */
static const struct section *section_of(line l) {
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        size_t n = strlen(sections[i].name);
        if (l.n_bytes >= n && memcmp(l.text, sections[i].name, n) == 0) return &sections[i];
    }
    return NULL;
}

/* The next line that must stay as it was; n_bytes = 0 at the end. top: the line without indent that it is under, or itself. */
static line next_line(const char **at, const struct section **section, line *top) {
    bool inside_free = false;
    while (**at) {
        const char *end = strchr(*at, '\n');
        line l = {*at, end ? (size_t)(end - *at) : strlen(*at)};
        *at = end ? end + 1 : *at + l.n_bytes;
        if (indent_of(l) == 0) {
            *section = section_of(l);
            *top = l;
        }
        if (indent_of(l) <= 2) inside_free = *section && is_free(*section, l);
        if (!inside_free && l.n_bytes) return l;
    }
    return (line){"", 0};
}

/* Without its indent. */
static line bare(line l) {
    return (line){l.text + indent_of(l), l.n_bytes - indent_of(l)};
}

rk_status rk_resume_check(const char *stored, const char *now) {
    const struct section *a_section = NULL, *b_section = NULL;
    line top = {"", 0}, b_top = top;
    for (;;) {
        line a = next_line(&stored, &a_section, &top), b = next_line(&now, &b_section, &b_top);
        if (a.n_bytes == b.n_bytes && memcmp(a.text, b.text, a.n_bytes) == 0) {
            if (a.n_bytes == 0) return RK_OK;
            continue;
        }
        a = bare(a), b = bare(b);
        rk_status status = rk_error(RK_CONFIG, "the run was begun with another configuration: in '%.*s', '%.*s' then, '%.*s' now", (int)strcspn(top.text, ":"), top.text,
                                    (int)a.n_bytes, a.text, (int)b.n_bytes, b.text);
        return rk_error_hint(status, "resume with the run file as it was, or begin a new run with another train.output");
    }
}
