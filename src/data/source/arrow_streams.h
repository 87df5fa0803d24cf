/* What a program gives in place of files: streams of the Arrow C data interface, by the names that stand
 * behind "arrow:" in paths of data. */
#ifndef RK_DATA_SOURCE_ARROW_STREAMS_H
#define RK_DATA_SOURCE_ARROW_STREAMS_H

#include <reckon/config.h>

typedef struct rk_arrow_opener {
    char *name;
    rk_open_stream open;
    void *user;
} rk_arrow_opener;

typedef struct rk_arrow_streams {
    rk_arrow_opener *openers; /* [n] */
    size_t n, capacity;
} rk_arrow_streams;
rk_status rk_arrow_streams_add(rk_arrow_streams *streams, const char *name, rk_open_stream open, void *user);
void rk_arrow_streams_release(rk_arrow_streams *streams);
/* The stream of a path. streams NULL: there are none. */
rk_status rk_arrow_streams_open(const rk_arrow_streams *streams, const char *path,
                                struct ArrowArrayStream *out);

/* An array whose rows are in several pieces; the last to drop it releases it. Pieces are taken and dropped by
 * one thread at a time. */
typedef struct rk_arrow_array {
    struct ArrowArray array;
    size_t n_users;
} rk_arrow_array;
void rk_arrow_array_unref(rk_arrow_array *array); /* NULL is fine */

#endif
