/* `user item item ...` a line, whole numbers between spaces or tabs. docs/formats/adjacency.md. Pure. */
#ifndef RK_FORMAT_TEXT_ADJACENCY_H
#define RK_FORMAT_TEXT_ADJACENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_adjacency_line {
    int64_t user;
    const char *at, *end; /* items that are still to be read */
    bool is_blank;        /* there is no user */
} rk_adjacency_line;

/* One line without its end. A blank one has no items. RK_BAD_DATA names a user that is no number. */
rk_status rk_adjacency_begin_line(const char *data, size_t n_bytes, rk_adjacency_line *out);
/* The next item; *found = false at the line's end. RK_BAD_DATA names a word that is no number; the next call
 * goes on behind it. */
rk_status rk_adjacency_next_item(rk_adjacency_line *line, int64_t *item, bool *found);

#endif
