/* Keys as a file has them, at any byte: those that ascend are found where they stand, and no other key; and
 * when the file has changed behind the index, rows are still rows. The first byte: where the keys begin. */
#include <stdlib.h>
#include <string.h>

#include "embedding/sorted_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MOST = 4096 };

static int64_t key_at(const uint8_t *keys, int64_t i) {
    int64_t key;
    memcpy(&key, keys + (size_t)i * sizeof key, sizeof key);
    return key;
}

/* What a scan of all keys finds. */
static int64_t row_of(const uint8_t *keys, int64_t n, int64_t key) {
    int64_t row = 0;
    while (row < n && key_at(keys, row) != key) row++;
    return row;
}

static void check(rk_sorted_keys *sorted, const uint8_t *keys, int64_t n) {
    int64_t wanted[3], rows[3];
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++) wanted[k] = (int64_t)((uint64_t)key_at(keys, i) + (uint64_t)k - 1);
        rk_sorted_keys_find(sorted, wanted, 3, rows);
        for (int k = 0; k < 3; k++)
            if (rows[k] != row_of(keys, n, wanted[k])) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    static uint8_t bytes[MOST * sizeof(int64_t) + 8];
    rk_sorted_keys sorted;
    if (n_bytes == 0) return 0;
    uint8_t *keys = bytes + data[0] % 8;
    int64_t n = (int64_t)((n_bytes - 1) / sizeof(int64_t));
    if (n > MOST) n = MOST;
    if (n) memcpy(keys, data + 1, (size_t)n * sizeof(int64_t));
    if (rk_sorted_keys_init(keys, n, &sorted) != RK_OK) return 0;
    check(&sorted, keys, n);
    for (int64_t i = 0; i < n; i++) {
        int64_t key = key_at(keys, i), row;
        keys[(size_t)i * sizeof key + 7] ^= 0x80; /* another key, mostly out of order */
        rk_sorted_keys_find(&sorted, &key, 1, &row);
        if (row < 0 || row > n) abort();
    }
    rk_sorted_keys_release(&sorted);
    return 0;
}
