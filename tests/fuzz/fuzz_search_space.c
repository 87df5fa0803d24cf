/* Grids and ranges, a line each: a range where it begins with '~'. The first eight bytes are the seed. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "tune/search_space.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void draw(const rk_search_space *space, uint64_t seed) {
    int64_t n;
    char *value;
    if (rk_search_space_size(space, &n) != RK_OK) n = 0;
    for (size_t k = 0; k < space->n; k++) {
        if (n && rk_search_space_value(space, false, 0, (int64_t)(seed % (uint64_t)n), k, &value) == RK_OK)
            rk_free(value);
        if (rk_search_space_value(space, true, seed, (int64_t)(seed >> 8), k, &value) == RK_OK)
            rk_free(value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_search_space space = {0};
    uint64_t seed;
    char *text, *rest;
    if (n_bytes < sizeof seed) return 0;
    memcpy(&seed, data, sizeof seed);
    if (rk_strndup((const char *)data + sizeof seed, n_bytes - sizeof seed, &text) != RK_OK) return 0;
    rk_status status = RK_OK;
    for (char *line = strtok_r(text, "\n", &rest); line && status == RK_OK;
         line = strtok_r(NULL, "\n", &rest))
        status = *line == '~' ? rk_search_space_add_range(&space, line + 1)
                              : rk_search_space_add_grid(&space, line);
    if (status == RK_OK && space.n) draw(&space, seed);
    rk_search_space_release(&space);
    rk_free(text);
    return 0;
}
