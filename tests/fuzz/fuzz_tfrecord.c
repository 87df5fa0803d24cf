#include <stddef.h>
#include <stdint.h>

#include "format/tfrecord.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_span payload;
    size_t consumed = 1;
    for (size_t at = 0; at < n_bytes && consumed; at += consumed)
        if (rk_tfrecord_parse(data + at, n_bytes - at, true, &payload, &consumed) != RK_OK) break;
    return 0;
}
