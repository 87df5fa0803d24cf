/* A file as a stream of bytes, unpacked on the way if it is gzip or zstd (told by its first bytes, not its
 * name). */
#ifndef RK_FORMAT_BYTE_STREAM_H
#define RK_FORMAT_BYTE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_byte_stream rk_byte_stream;

rk_status rk_byte_stream_open(const char *path, rk_byte_stream **out); /* "-" is standard input */
void rk_byte_stream_free(rk_byte_stream *stream);
/* Fill out with up to n_bytes; *out_bytes = 0 at the end. A cut or corrupt compressed file is RK_BAD_DATA
 * with path and byte. */
rk_status rk_byte_stream_read(rk_byte_stream *stream, void *out, size_t n_bytes, size_t *out_bytes);
bool rk_byte_stream_is_plain(const rk_byte_stream *stream); /* its bytes are the file's */
/* Bytes consumed of the file itself, and its size (0 if unknown): for progress bars. */
uint64_t rk_byte_stream_file_position(const rk_byte_stream *stream);
uint64_t rk_byte_stream_file_size(const rk_byte_stream *stream);

/* A window over the stream for record parsers: rk_byte_lookahead keeps at least `need` bytes unless the
 * stream ends. */
typedef struct rk_byte_lookahead {
    rk_byte_stream *stream;
    char *data; /* data[0 .. n_bytes) is unread */
    size_t n_bytes;
    bool at_end;       /* nothing comes after data[n_bytes] */
    uint64_t position; /* of data[0] in the unpacked stream */
    char *memory;
    size_t capacity;
} rk_byte_lookahead;
rk_status rk_byte_lookahead_fill(rk_byte_lookahead *lookahead, size_t need);
void rk_byte_lookahead_consume(rk_byte_lookahead *lookahead, size_t n_bytes);
/* The same, with the memory of what is consumed: in exchange for *memory [*n_memory] (both may be 0), to
 * which the rest moves. */
rk_status rk_byte_lookahead_swap_buffer(rk_byte_lookahead *lookahead, size_t n_bytes, char **memory,
                                        size_t *n_memory);
void rk_byte_lookahead_release(rk_byte_lookahead *lookahead); /* not the stream */

/* The writing side: plain, or packed where the path ends in .gz or .zst; whole or not at all
 * (base/file/file.h). */
typedef struct rk_byte_sink rk_byte_sink;
rk_status rk_byte_sink_open(const char *path, rk_byte_sink **out); /* "-" is standard output */
rk_status rk_byte_sink_write(rk_byte_sink *sink, const void *data, size_t n_bytes);
rk_status rk_byte_sink_commit(rk_byte_sink *sink);
void rk_byte_sink_free(rk_byte_sink *sink); /* without commit: nothing appears */

#endif
