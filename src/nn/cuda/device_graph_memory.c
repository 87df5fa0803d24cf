/* A graph's memory on the device. */
#include "nn/cuda/device_graph_internal.h"

rk_status rk_device_graph_floats(rk_device_graph *g, int64_t n, float **out) {
    return rk_device_alloc(g->device, (size_t)(n > 0 ? n : 1) * sizeof **out, out);
}
