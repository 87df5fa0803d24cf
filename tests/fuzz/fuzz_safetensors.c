#include <stddef.h>
#include <stdint.h>

#include "format/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_safetensors tensors;
    if (rk_safetensors_parse(data, n_bytes, n_bytes, &tensors) == RK_OK) rk_safetensors_release(&tensors);
    return 0;
}
