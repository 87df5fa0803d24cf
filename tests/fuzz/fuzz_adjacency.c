#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "format/text/adjacency.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* Every call that finds an item goes on behind it, a bad one too, so a line has no more items than every
 * other byte. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_adjacency_line line;
    bool found = true;
    int64_t item;
    size_t n_items = 0;
    if (rk_adjacency_begin_line((const char *)data, n_bytes, &line) != RK_OK) return 0;
    while (found) {
        (void)!rk_adjacency_next_item(&line, &item, &found);
        n_items += found;
        if (n_items > n_bytes / 2 || line.at > line.end) abort();
    }
    return 0;
}
