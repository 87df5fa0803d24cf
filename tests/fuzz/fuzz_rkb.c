#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/rkb/rkb.h"
#include "mend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MOST_COLUMNS = 64 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most, unsigned seed) {
    n_bytes = mutate(data, n_bytes, most, seed);
    if (seed % 32) mend_rkb(data, n_bytes);
    return n_bytes;
}

/* Numbers that stay packed are those that are unpacked at once. */
static void compare(const rk_rkb *rkb, int64_t block, const rk_columns *columns, rk_rkb_memory *memory,
                    rk_columns *packed) {
    bool all[MOST_COLUMNS];
    memset(all, 1, sizeof all);
    if (columns->n_columns > MOST_COLUMNS) return;
    if (rk_rkb_read_block_columns(rkb, block, (rk_rkb_choice){.packed = all}, memory, packed) != RK_OK ||
        rk_columns_unpack_ints(packed) != RK_OK)
        abort();
    for (int32_t c = 0; c < columns->n_columns; c++) {
        const rk_column *a = &columns->columns[c], *b = &packed->columns[c];
        if (a->n_values != b->n_values ||
            memcmp(a->offsets, b->offsets, (size_t)(columns->n_rows + 1) * sizeof *a->offsets) != 0)
            abort();
        if (a->type == RK_COLUMN_I64 && a->n_values &&
            memcmp(a->i64, b->i64, (size_t)a->n_values * sizeof *a->i64) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_rkb *rkb;
    if (rk_rkb_open_memory("f.rkb", data, n_bytes, &rkb) != RK_OK) return 0;
    rk_columns columns = {0}, packed = {0};
    rk_rkb_memory memory = {0};
    for (int64_t block = 0; block < rk_rkb_n_blocks(rkb) && block < 16; block++) {
        if (rk_rkb_read_block(rkb, block, NULL, &columns) != RK_OK) break;
        compare(rkb, block, &columns, &memory, &packed);
    }
    rk_columns_release(&columns);
    rk_columns_release(&packed);
    rk_rkb_memory_release(&memory);
    rk_rkb_free(rkb);
    return 0;
}
