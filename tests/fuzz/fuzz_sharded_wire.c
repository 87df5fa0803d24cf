/* What a trainer may send an owner of rows, and that one back: an ask, gradients, rows. The first byte: how
 * numbers travel, and how many 16ths of the rest are the ask. */
#include "sharded_alone.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    static const rk_dtype wires[] = {RK_F32, RK_BF16, RK_F16, RK_F32};
    rk_comm *comm;
    rk_sharded *s;
    if (n_bytes < 1 || rk_comm_self(&comm) != RK_OK) return 0;
    size_t n = n_bytes - 1, ask_bytes = n * (data[0] >> 4) / 15;
    if (alone_create(comm, wires[data[0] & 3], &s) == RK_OK) {
        (void)alone_serve(s, data + 1, ask_bytes, data + 1 + ask_bytes, n - ask_bytes);
        (void)alone_take(s, data + 1, n);
        rk_sharded_free(&s->as_store);
    }
    rk_comm_free(comm);
    return 0;
}
