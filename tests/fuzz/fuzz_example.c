#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "format/protobuf/tfrecord.h"

static rk_status on_feature(void *context, rk_span name, rk_example_kind kind, rk_span list) {
    (void)context;
    size_t n = 0, most = rk_example_max_values(kind, list);
    void *values = malloc(most * (kind == RK_EXAMPLE_BYTES   ? sizeof(rk_span)
                                  : kind == RK_EXAMPLE_FLOAT ? sizeof(float)
                                                             : sizeof(int64_t)));
    rk_status status = kind == RK_EXAMPLE_BYTES   ? rk_example_read_bytes(list, values, &n)
                       : kind == RK_EXAMPLE_FLOAT ? rk_example_read_f32(list, values, &n)
                                                  : rk_example_read_i64(list, values, &n);
    free(values);
    if (n > most) __builtin_trap();
    return name.n_bytes && name.data[name.n_bytes - 1] == 1 ? RK_BAD_DATA : status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_example_visitor visitor = {NULL, on_feature};
    (void)!rk_example_parse(data, n_bytes, &visitor);
    return 0;
}
