/* Files of a test in the directory of session_data.h. */
#ifndef RK_TESTS_SERVE_SESSION_FILES_H
#define RK_TESTS_SERVE_SESSION_FILES_H

#include "serve/session_data.h"

#include "base/file/file.h"
#include "base/memory.h"

static char path[340];
static const char *path_of(const char *name) {
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* NULL frees what was read last. */
static inline char *read_text(const char *name) {
    static char *text;
    size_t n;
    rk_free(text);
    text = NULL;
    if (name) OK(rk_file_read(path_of(name), &text, &n));
    return text;
}

#endif
