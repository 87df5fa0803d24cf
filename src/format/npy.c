#include "format/npy.h"

#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/text.h"

/* Magic bytes, version 1.0, the length of a Python dictionary, and that, padded with spaces to a multiple of
 * 64 and ended by a line end. */
enum { HEADER_BYTES = 128, BEFORE_TEXT = 10 };

static void make_npy_header(char header[HEADER_BYTES], int64_t n, int64_t dim) {
    char text[HEADER_BYTES];
    int length =
        rk_snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                    (long long)n, (long long)dim);
    memset(header, ' ', HEADER_BYTES);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = HEADER_BYTES - BEFORE_TEXT;
    header[9] = 0;
    memcpy(header + BEFORE_TEXT, text, (size_t)length);
    header[HEADER_BYTES - 1] = '\n';
}

rk_status rk_npy_write(const char *path, const float *values, int64_t n, int64_t dim) {
    char header[HEADER_BYTES];
    RK_AUTO(rk_writer_release) rk_writer writer = {.descriptor = -1};
    make_npy_header(header, n, dim);
    RK_TRY(rk_writer_open(path, &writer));
    RK_TRY(rk_writer_append(&writer, header, sizeof header));
    RK_TRY(rk_writer_append(&writer, values, (size_t)(n * dim) * sizeof *values));
    return rk_writer_commit(&writer);
}
