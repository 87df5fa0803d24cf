/* Memory on the device, counted. */
#include "embedding/cuda/device_tables_internal.h"

rk_status rk_device_take(rk_device_tables *d, size_t n_bytes, void *out) {
    RK_TRY(rk_device_alloc(d->device, n_bytes ? n_bytes : 1, out));
    d->bytes += n_bytes;
    return RK_OK;
}

void rk_device_give(rk_device_tables *d, size_t n_bytes, void *memory) {
    if (!memory) return;
    rk_device_free(d->device, memory);
    d->bytes -= n_bytes;
}
