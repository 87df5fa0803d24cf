#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "format/protobuf/tfrecord.h"
#include "mend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most, unsigned seed) {
    n_bytes = mutate(data, n_bytes, most, seed);
    if (seed % 32) mend_tfrecord(data, n_bytes);
    return n_bytes;
}

/* What a frame's head says of its length is what the whole frame has. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_span payload;
    size_t consumed = 1;
    for (size_t at = 0; at < n_bytes && consumed; at += consumed) {
        if (rk_tfrecord_parse(data + at, n_bytes - at, true, &payload, &consumed) != RK_OK) break;
        if (consumed != rk_tfrecord_frame_bytes(data + at, n_bytes - at)) abort();
    }
    return 0;
}
