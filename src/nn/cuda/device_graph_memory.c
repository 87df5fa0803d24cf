/* A graph's memory on the device, counted. */
#include "nn/cuda/device_graph_internal.h"

rk_status rk_device_graph_floats(rk_device_graph *g, int64_t n, float **out) {
    void *memory;
    size_t n_bytes = (size_t)(n > 0 ? n : 1) * sizeof **out;
    RK_TRY(rk_device_alloc(g->device, n_bytes, &memory));
    g->n_bytes += n_bytes;
    *out = memory;
    return RK_OK;
}
