/* The writing side of format/byte_stream.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "format/byte_stream.h"

enum { OUTPUT_BYTES = 1 << 16 };

struct rk_byte_sink {
    rk_writer writer;
    bool to_stdout, gzips;
    z_stream gzip;
    ZSTD_CStream *zstd;
    char output[OUTPUT_BYTES];
};

rk_status rk_byte_sink_open(const char *path, rk_byte_sink **out) {
    rk_byte_sink *s;
    RK_TRY(rk_alloc(1, sizeof *s, &s));
    s->to_stdout = strcmp(path, "-") == 0;
    rk_status status = s->to_stdout ? RK_OK : rk_writer_open(path, &s->writer);
    if (status == RK_OK && rk_has_ending(path, ".gz")) {
        s->gzips = deflateInit2(&s->gzip, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK;
        if (!s->gzips) status = RK_NO_MEMORY_ERROR(0);
    } else if (status == RK_OK && rk_has_ending(path, ".zst")) {
        s->zstd = ZSTD_createCStream();
        if (!s->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_checksumFlag, 1)))
            status = RK_NO_MEMORY_ERROR(0);
    }
    if (status == RK_OK)
        *out = s;
    else
        rk_byte_sink_free(s);
    return status;
}

static rk_status write_to_file(rk_byte_sink *s, const void *data, size_t n_bytes) {
    if (!s->to_stdout) return rk_writer_append(&s->writer, data, n_bytes);
    const char *at = data;
    while (n_bytes) {
        ssize_t n = write(STDOUT_FILENO, at, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return rk_error_errno(RK_IO, errno, "could not write standard output");
        at += n;
        n_bytes -= (size_t)n;
    }
    return RK_OK;
}

static rk_status compress_to_file(rk_byte_sink *s, const void *data, size_t n_bytes, bool end) {
    if (s->gzips) {
        s->gzip.next_in = (unsigned char *)(size_t)data;
        s->gzip.avail_in = (uInt)n_bytes;
        int code;
        do {
            s->gzip.next_out = (unsigned char *)s->output;
            s->gzip.avail_out = OUTPUT_BYTES;
            code = deflate(&s->gzip, end ? Z_FINISH : Z_NO_FLUSH);
            RK_TRY(write_to_file(s, s->output, OUTPUT_BYTES - s->gzip.avail_out));
        } while (s->gzip.avail_out == 0 || (end && code != Z_STREAM_END));
        return RK_OK;
    }
    if (!s->zstd) return write_to_file(s, data, n_bytes);
    ZSTD_inBuffer in = {data, n_bytes, 0};
    size_t left;
    do {
        ZSTD_outBuffer to = {s->output, OUTPUT_BYTES, 0};
        left = ZSTD_compressStream2(s->zstd, &to, &in, end ? ZSTD_e_end : ZSTD_e_continue);
        RK_FAIL_IF(ZSTD_isError(left), RK_INTERNAL, "zstd: %s", ZSTD_getErrorName(left));
        RK_TRY(write_to_file(s, s->output, to.pos));
    } while (in.pos < in.size || (end && left));
    return RK_OK;
}

rk_status rk_byte_sink_write(rk_byte_sink *s, const void *data, size_t n_bytes) {
    const char *at = data;
    for (size_t part; n_bytes; at += part, n_bytes -= part) { /* zlib counts in 32 bits */
        part = n_bytes < (1u << 30) ? n_bytes : (1u << 30);
        RK_TRY(compress_to_file(s, at, part, false));
    }
    return RK_OK;
}

rk_status rk_byte_sink_commit(rk_byte_sink *s) {
    RK_TRY(compress_to_file(s, "", 0, true));
    return s->to_stdout ? RK_OK : rk_writer_commit(&s->writer);
}

void rk_byte_sink_free(rk_byte_sink *s) {
    if (!s) return;
    if (s->gzips) deflateEnd(&s->gzip);
    ZSTD_freeCStream(s->zstd);
    rk_writer_release(&s->writer);
    rk_free(s);
}
