/* For builds without NCCL: joining fails, so nothing else is ever called. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#include "cuda/libraries/nccl.h"

#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "base/error.h"
#ifdef __cplusplus
}
#endif

rk_status rk_nccl_load(void) {
    return rk_error(RK_UNSUPPORTED,
                    "this build has no NCCL\nhint: its header nccl.h was not found when it was configured");
}
rk_status rk_nccl_new_id(char id[RK_NCCL_ID_BYTES]) {
    abort();
}
rk_status rk_nccl_create(rk_device *device, const char id[RK_NCCL_ID_BYTES], int32_t rank, int32_t size,
                         rk_nccl **out) {
    abort();
}
void rk_nccl_free(rk_nccl *nccl) {}
void rk_nccl_all_to_all(rk_nccl *nccl, rk_stream *stream, const rk_device_message *send, size_t n_send,
                        const rk_device_message *receive, size_t n_receive) {
    abort();
}
void rk_nccl_all_reduce(rk_nccl *nccl, rk_stream *stream, float *values, size_t n) {
    abort();
}
void rk_nccl_all_gather(rk_nccl *nccl, rk_stream *stream, const void *mine, size_t n_bytes, void *all) {
    abort();
}
rk_status rk_nccl_wait(rk_nccl *nccl, rk_stream *stream, double timeout_s) {
    abort();
}
