/* --set: each line an assignment to a key of a run file. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/config/run_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    static const char run[] =
        "data: {train: a.csv, valid: {fraction: 0.1}, labels: [y, {name: z, loss: mse}], features: [{name: "
        "u, hash: 9}, {name: x, dense: true}]}\n"
        "model: dnn\nembedding: {tables: [{name: u, dim: 4}]}\ntrain: {optimizer: adam}\n";
    enum { MOST = 16 };
    const char *lines[MOST];
    char *text, *rest;
    size_t n = 0;
    if (rk_strndup((const char *)data, n_bytes, &text) != RK_OK) return 0;
    for (char *line = strtok_r(text, "\n", &rest); line && n < MOST; line = strtok_r(NULL, "\n", &rest))
        lines[n++] = line;
    rk_config *config;
    if (rk_config_parse(run, "f.yaml", NULL, lines, n, &config) == RK_OK) {
        char *resolved;
        rk_config *again;
        if (rk_config_to_yaml(config, &resolved) != RK_OK) abort();
        if (rk_config_parse(resolved, "resolved.yaml", NULL, NULL, 0, &again) != RK_OK)
            abort(); /* what was taken reads back */
        rk_config_free(again);
        rk_text_free(resolved);
        rk_config_free(config);
    }
    rk_free(text);
    return 0;
}
