/* A manifest's line of JSON, with its checksum put right. */
#include "fuzz/manifest.h"
#include "train/checkpoint/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_manifest m;
    put_manifest((const char *)data, n_bytes);
    if (rk_manifest_read(scratch_folder(), &m) != RK_OK) return 0;
    const rk_progress *p = &m.progress;
    if (p->step < 0 || p->stopping.best_step > p->step || p->log_bytes < 0 || p->position.row < 0 ||
        !(p->stopping.learning_rate_factor <= 1))
        abort();
    rk_manifest_release(&m);
    return 0;
}
