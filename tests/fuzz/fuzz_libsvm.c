#include <stddef.h>
#include <stdint.h>

#include "format/text/libsvm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_libsvm_row row = {0};
    (void)!rk_libsvm_parse((const char *)data, n_bytes, &row);
    rk_libsvm_row_release(&row);
    return 0;
}
