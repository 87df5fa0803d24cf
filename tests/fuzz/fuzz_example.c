#include <stddef.h>
#include <stdint.h>

#include "format/tfrecord.h"

static rk_status on_feature(void *context, rk_span name, rk_example_kind kind) {
    (void)context;
    (void)kind;
    return name.n_bytes && name.data[name.n_bytes - 1] == 1 ? RK_BAD_DATA : RK_OK;
}
static rk_status on_value(void *context, rk_example_kind kind, const rk_example_value *value) {
    (void)context;
    return kind == RK_EXAMPLE_BYTES && value->bytes.n_bytes && value->bytes.data[0] == 1 ? RK_BAD_DATA : RK_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_example_visitor visitor = {NULL, on_feature, on_value};
    (void)!rk_example_parse(data, n_bytes, &visitor);
    return 0;
}
