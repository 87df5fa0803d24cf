#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "train/config/run_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    char *text;
    if (rk_strndup((const char *)data, n_bytes, &text) != RK_OK) return 0;
    rk_config *config;
    if (rk_config_parse(text, "f.yaml", NULL, NULL, 0, &config) == RK_OK) rk_config_free(config);
    rk_free(text);
    return 0;
}
