/* Plain, gzip and zstd streams: read by steps of two sizes they give the same bytes. */
#include <stddef.h>
#include <string.h>

#include "base/buffer.h"
#include "format/byte_stream.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MOST_BYTES = 1 << 20 };

static rk_status read_by(const char *path, size_t step, rk_buffer *out) {
    static char part[1 << 17];
    rk_byte_stream *stream;
    RK_TRY(rk_byte_stream_open(path, &stream));
    rk_status status = RK_OK;
    for (size_t n = 1; n && out->n_bytes < MOST_BYTES && status == RK_OK;) {
        status = rk_byte_stream_read(stream, part, step, &n);
        if (status == RK_OK) rk_buffer_append(out, part, n);
    }
    if (rk_byte_stream_file_position(stream) > rk_byte_stream_file_size(stream)) abort();
    rk_byte_stream_free(stream);
    return status;
}

/* The first byte says the steps' size. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    if (n_bytes == 0) return 0;
    const char *path = scratch_file("f.csv", data + 1, n_bytes - 1);
    rk_buffer few = {0}, many = {0};
    rk_status a = read_by(path, 1 + data[0], &few), b = read_by(path, 1 << 17, &many);
    size_t n = few.n_bytes < many.n_bytes ? few.n_bytes : many.n_bytes;
    if (n && memcmp(few.data, many.data, n) != 0) abort();
    /* zstd itself notices a wrong content size of an empty frame only where it unpacks the frame at once. */
    if (n < MOST_BYTES && a == RK_OK && b == RK_OK && few.n_bytes != many.n_bytes) abort();
    rk_buffer_release(&few);
    rk_buffer_release(&many);
    return 0;
}
