#include <stddef.h>
#include <stdint.h>

#include "base/yaml/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_yaml yaml;
    if (rk_yaml_parse("f.yaml", (const char *)data, n_bytes, &yaml) == RK_OK) rk_yaml_release(&yaml);
    return 0;
}
