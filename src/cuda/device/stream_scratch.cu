#include "cuda/device/device_state.h"

void rk_scratch_free(rk_device *device, rk_device_scratch *scratch) {
    for (rk_device_scratch *before; scratch; scratch = before) {
        before = scratch->before;
        rk_device_free(device, scratch->memory);
        rk_free(scratch);
    }
}

static rk_status grow_scratch(rk_stream *stream, rk_device_scratch **scratch, size_t n_bytes) {
    RK_FAIL_IF(
        rk_stream_is_captured(stream), RK_INTERNAL,
        "a CUDA graph captures work that needs %zu bytes of scratch memory, which was never run before",
        n_bytes);
    size_t doubled = *scratch ? 2 * (*scratch)->n_bytes : 0;
    rk_device_scratch *larger;
    RK_TRY(rk_alloc(1, sizeof *larger, &larger));
    larger->n_bytes = n_bytes > doubled ? n_bytes : doubled;
    rk_status status = rk_device_alloc(stream->device, larger->n_bytes, &larger->memory);
    if (status != RK_OK) {
        rk_free(larger);
        return status;
    }
    larger->before = *scratch;
    *scratch = larger;
    return RK_OK;
}

void *rk_stream_scratch(rk_stream *stream, rk_stream_scratch_kind kind, size_t n_bytes) {
    rk_device_scratch **scratch = &stream->scratch[kind];
    if ((!*scratch || (*scratch)->n_bytes < n_bytes) && grow_scratch(stream, scratch, n_bytes) != RK_OK) {
        rk_device_record_failure_text(stream->device, rk_last_error());
        return NULL;
    }
    return (*scratch)->memory;
}
