#include <stddef.h>
#include <stdint.h>

#include "format/rkb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_rkb *rkb;
    if (rk_rkb_open_memory("f.rkb", data, n_bytes, &rkb) != RK_OK) return 0;
    rk_columns columns = {0};
    for (int64_t block = 0; block < rk_rkb_n_blocks(rkb) && block < 16; block++)
        if (rk_rkb_read_block(rkb, block, NULL, &columns) != RK_OK) break;
    rk_columns_release(&columns);
    rk_rkb_free(rkb);
    return 0;
}
