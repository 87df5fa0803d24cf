#include "model/cuda/launch_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static rk_status capture_launches(rk_launch_cache *kept, rk_stream *stream, int64_t n,
                                  void (*enqueue)(void *context, int64_t n), void *context) {
    rk_launch_graph *graph;
    RK_TRY(rk_stream_capture_begin(stream));
    enqueue(context, n);
    RK_TRY(rk_stream_capture_end(stream, &graph));
    rk_launch_graph_free(kept->graph);
    kept->graph = graph;
    kept->n = n;
    return RK_OK;
}

/* RK_LAUNCH_GRAPHS=off: nothing is kept, which tells a graph's fault from a kernel's. */
static bool is_launch_cache_disabled(void) {
    const char *wanted = getenv("RK_LAUNCH_GRAPHS");
    return wanted && strcmp(wanted, "off") == 0;
}

/* A size that comes once, such as an epoch's last batch, is not worth keeping, nor is a batch of no samples;
 * and what libraries set up at their first use may not be kept. */
rk_status rk_launch_cache_run(rk_launch_cache *kept, rk_stream *stream, int64_t n,
                              void (*enqueue)(void *context, int64_t n), void *context) {
    bool is_kept = kept->graph && kept->n == n, comes_again = n > 0 && kept->last_n == n;
    kept->last_n = n;
    if ((!is_kept && !comes_again) || is_launch_cache_disabled()) {
        enqueue(context, n);
        return RK_OK;
    }
    if (!is_kept) RK_TRY(capture_launches(kept, stream, n, enqueue, context));
    rk_launch_graph_run(kept->graph, stream);
    return RK_OK;
}

void rk_launch_cache_release(rk_launch_cache *kept) {
    rk_launch_graph_free(kept->graph);
    *kept = (rk_launch_cache){0};
}
