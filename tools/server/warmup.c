#include "server/warmup.h"

#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "server/request/run_inference_call.h"

enum { MOST_BYTES = 1 << 26 };

static rk_status run_request_line(rk_served_version *v, rk_span line, const rk_call_limits *limits,
                                  rk_call_memory *memory) {
    RK_AUTO(rk_call_release)
    rk_call call = {.kind = v->catalog ? RK_CALL_RETRIEVE : RK_CALL_PREDICT,
                    .version = v,
                    .body = line,
                    .n_json_bytes = -1};
    for (int worker = 0; worker < v->n_workers; worker++) {
        rk_buffer_clear(&call.reply);
        RK_TRY(rk_call_run(&call, limits, worker, memory));
        RK_TRY(call.reply.status);
    }
    return RK_OK;
}

static rk_status run_request_lines(rk_served_version *v, const char *path, const char *text, size_t n_bytes,
                                   const rk_call_limits *limits, rk_call_memory *memory) {
    const char *at = text, *end = text + n_bytes;
    for (long long number = 1; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        rk_span line = {at, (size_t)((stop ? stop : end) - at)};
        at = stop ? stop + 1 : end;
        if (line.n_bytes && line.data[line.n_bytes - 1] == '\r') line.n_bytes--;
        if (rk_span_trim(line).n_bytes == 0) continue;
        rk_status status = run_request_line(v, line, limits, memory);
        if (status != RK_OK) return rk_error_context(status, "%s:%lld", path, number);
    }
    return RK_OK;
}

rk_status rk_warm_up_version(rk_served_version *v, const char *path, const rk_call_limits *limits) {
    RK_AUTO(rk_call_memory_release) rk_call_memory memory = {0};
    RK_AUTOFREE char *text = NULL;
    uint64_t size;
    size_t n_bytes;
    RK_TRY(rk_file_size(path, &size));
    RK_FAIL_IF(size > MOST_BYTES, RK_BAD_DATA,
               "'%s' has %llu bytes of requests to warm up with: %d are allowed", path,
               (unsigned long long)size, MOST_BYTES);
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    RK_TRY(run_request_lines(v, path, text, n_bytes, limits, &memory));
    for (int32_t f = 0; f < v->n_features; f++) atomic_store(&v->unknown[f], 0); /* they were no requests */
    return RK_OK;
}
