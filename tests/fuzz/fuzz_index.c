#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/hash.h"
#include "index/index_file.h"
#include "index/index_internal.h"
#include "mend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* The length of FAISS's part, both checksums and the magic. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n_bytes, size_t most, unsigned seed) {
    n_bytes = mutate(data, n_bytes, most, seed);
    if (n_bytes < RK_INDEX_TAIL_BYTES || seed % 32 == 0) return n_bytes;
    uint64_t n_index = n_bytes - RK_INDEX_TAIL_BYTES;
    uint8_t *tail = data + n_index;
    memcpy(tail, &n_index, sizeof n_index);
    put_u32(tail + 8, rk_crc32c(0, data, n_index));
    put_u32(tail + RK_INDEX_VALUES_BYTES, rk_crc32c(0, tail, RK_INDEX_VALUES_BYTES));
    memcpy(tail + RK_INDEX_VALUES_BYTES + 4, RK_INDEX_MAGIC, 8);
    return n_bytes;
}

/* What is opened is searched, changed and laid out anew. */
static void use(rk_index *index) {
    enum { K = 3, MOST = 64 };
    rk_index_info info = RK_INDEX_INFO_INIT;
    static float query[RK_INDEX_MAX_DIM];
    int64_t ids[K];
    rk_index_base base;
    if (rk_index_get_info(index, &info) != RK_OK) abort();
    query[0] = 1;
    query[info.dim - 1] = -2;
    if (rk_index_search(index, query, 1, K, NULL, ids, NULL) != RK_OK) abort();
    if (rk_index_remove(index, ids, K, NULL) != RK_OK) abort();
    if (info.n > MOST) return;
    if (rk_index_make_compacted_base(index, &base) == RK_OK) rk_index_base_release(&base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_index *index;
    if (rk_index_file_parse("f.rki", &(rk_mapped_file){data, n_bytes}, true, &index) != RK_OK) return 0;
    use(index);
    index->base.map = (rk_mapped_file){0}; /* it is the fuzzer's */
    rk_index_free(index);
    return 0;
}
