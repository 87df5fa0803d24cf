#include "base/text/shorten_paths.h"

#include <stdbool.h>
#include <string.h>

static const char ends[] = " \n'\",:;()";

/* Where the path at `at` ends: with the quotation that it stands in, or with the word. */
static const char *find_path_end(const char *message, const char *at) {
    char before = at > message ? at[-1] : 0;
    if (before == '\'' || before == '"') {
        const char *quote = strchr(at, before);
        if (quote) return quote;
    }
    return at + strcspn(at, ends);
}

/* Bytes of a path before its last name; 0: it has none. */
static size_t bytes_before_name(const char *at, const char *end) {
    while (end > at && end[-1] == '/') end--;
    while (end > at && end[-1] != '/') end--;
    return (size_t)(end - at);
}

/* What is left out of the path at `at`. */
static size_t directory_bytes_to_hide(const char *message, const char *at, const char *root, size_t n_root) {
    if (at > message && !strchr(" \n'\"(=", at[-1])) return 0;
    bool below = n_root > 0 && strncmp(at, root, n_root) == 0;
    if (below && at[n_root] == '/') return n_root + 1;
    if (below && (!at[n_root] || strchr(ends, at[n_root]))) return bytes_before_name(at, at + n_root);
    return *at == '/' ? bytes_before_name(at, find_path_end(message, at)) : 0;
}

void rk_shorten_paths(const char *message, const char *root, rk_buffer *out) {
    size_t n_root = strlen(root);
    while (n_root > 0 && root[n_root - 1] == '/') n_root--;
    for (const char *at = message; *at; at++) {
        at += directory_bytes_to_hide(message, at, root, n_root);
        if (!*at) return;
        rk_buffer_append(out, at, 1);
    }
}
