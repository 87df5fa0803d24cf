#include "cuda/libraries/nccl.h"

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <time.h>

#include "cuda/device/device_state.h"

extern "C" {
#include "base/thread/clock.h"
}

#define LIBRARY "libnccl.so.2"

/* The functions of it that we call. X(name) */
#define NCCL_LIST(X)         \
    X(ncclGetErrorString)    \
    X(ncclGetUniqueId)       \
    X(ncclCommInitRank)      \
    X(ncclCommDestroy)       \
    X(ncclCommAbort)         \
    X(ncclCommGetAsyncError) \
    X(ncclGroupStart)        \
    X(ncclGroupEnd)          \
    X(ncclSend)              \
    X(ncclRecv)              \
    X(ncclAllReduce)         \
    X(ncclAllGather)

typedef struct library {
#define FIELD(name) decltype(&::name) name;
    NCCL_LIST(FIELD)
#undef FIELD
} library;

struct rk_nccl {
    rk_device *device;
    ncclComm_t comm;
    int32_t rank;
};

static_assert(sizeof(ncclUniqueId) == RK_NCCL_ID_BYTES, "NCCL's ids are of this size");

static library nccl;
static char reason[256]; /* why there is none; empty: there is */

static void load_nccl_library(void) {
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        handle = dlopen(RK_CUDA_LIBRARY_DIR "/" LIBRARY,
                        RTLD_NOW | RTLD_LOCAL); /* where it was when this was built */
    if (!handle) {
        snprintf(reason, sizeof reason, "%s\nhint: put the directory of NCCL in LD_LIBRARY_PATH", dlerror());
        return;
    }
#define FIND(name)                                       \
    nccl.name = (decltype(&::name))dlsym(handle, #name); \
    if (!nccl.name) snprintf(reason, sizeof reason, LIBRARY " has no %s", #name);
    NCCL_LIST(FIND)
#undef FIND
}

rk_status rk_nccl_load(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_nccl_library);
    return reason[0] ? rk_error(RK_UNSUPPORTED, "%s", reason) : RK_OK;
}

static rk_status nccl_error(ncclResult_t result, const char *what) {
    return rk_error(RK_UNSUPPORTED, "NCCL: %s: %s", what, nccl.ncclGetErrorString(result));
}

static void record_failure(rk_nccl *n, ncclResult_t result, const char *what) {
    if (result == ncclSuccess) return;
    char text[256];
    snprintf(text, sizeof text, "GPU %d: NCCL: %s: %s", (int)n->device->number, what,
             nccl.ncclGetErrorString(result));
    rk_device_record_failure_text(n->device, text);
}

rk_status rk_nccl_new_id(char id[RK_NCCL_ID_BYTES]) {
    RK_TRY(rk_nccl_load());
    ncclResult_t result = nccl.ncclGetUniqueId((ncclUniqueId *)id);
    return result == ncclSuccess ? RK_OK : nccl_error(result, "an id");
}

rk_status rk_nccl_create(rk_device *device, const char id[RK_NCCL_ID_BYTES], int32_t rank, int32_t size,
                         rk_nccl **out) {
    rk_nccl *n;
    ncclUniqueId unique;
    RK_TRY(rk_nccl_load());
    RK_TRY(rk_alloc(1, sizeof *n, &n));
    n->device = device;
    n->rank = rank;
    memcpy(&unique, id, sizeof unique);
    rk_device_make_current(device);
    ncclResult_t result = nccl.ncclCommInitRank(&n->comm, size, unique, rank);
    if (result == ncclSuccess) {
        *out = n;
        return RK_OK;
    }
    rk_free(n);
    return nccl_error(result, "joining the other ranks' GPUs");
}

/* Work that others do not answer is not waited for. */
static void abort_nccl_comm(rk_nccl *n) {
    if (n->comm) (void)nccl.ncclCommAbort(n->comm);
    n->comm = NULL;
}

void rk_nccl_free(rk_nccl *n) {
    if (!n) return;
    rk_device_make_current(n->device);
    if (n->device->failure != RK_OK) abort_nccl_comm(n);
    if (n->comm) (void)nccl.ncclCommDestroy(n->comm);
    rk_free(n);
}

void rk_nccl_all_to_all(rk_nccl *n, rk_stream *stream, const rk_device_message *send, size_t n_send,
                        const rk_device_message *receive, size_t n_receive) {
    cudaStream_t native = rk_stream_native(stream);
    record_failure(n, nccl.ncclGroupStart(), "an exchange");
    for (size_t i = 0; i < n_send; i++)
        if (send[i].rank != n->rank)
            record_failure(
                n, nccl.ncclSend(send[i].data, send[i].n_bytes, ncclInt8, send[i].rank, n->comm, native),
                "a send");
    for (size_t i = 0; i < n_receive; i++)
        if (receive[i].rank != n->rank)
            record_failure(n,
                           nccl.ncclRecv(receive[i].data, receive[i].n_bytes, ncclInt8, receive[i].rank,
                                         n->comm, native),
                           "a receive");
    record_failure(n, nccl.ncclGroupEnd(), "an exchange");
}

void rk_nccl_all_reduce(rk_nccl *n, rk_stream *stream, float *values, size_t count) {
    record_failure(
        n, nccl.ncclAllReduce(values, values, count, ncclFloat32, ncclSum, n->comm, rk_stream_native(stream)),
        "a sum");
}

void rk_nccl_all_gather(rk_nccl *n, rk_stream *stream, const void *mine, size_t n_bytes, void *all) {
    record_failure(n, nccl.ncclAllGather(mine, all, n_bytes, ncclInt8, n->comm, rk_stream_native(stream)),
                   "a gather");
}

/* Spins at first: a step's end is near. */
static void spin_or_sleep(uint32_t *n_looks) {
    const struct timespec nap = {0, 20000};
    if (++*n_looks > 1000) (void)nanosleep(&nap, NULL);
}

/* Whether NCCL has failed meanwhile. */
static ncclResult_t check_async_error(const rk_nccl *n) {
    ncclResult_t result = ncclSuccess, asked = nccl.ncclCommGetAsyncError(n->comm, &result);
    return asked != ncclSuccess ? asked : result == ncclInProgress ? ncclSuccess : result;
}

static rk_status wait_for_stream(rk_nccl *n, rk_stream *stream, double timeout_s) {
    double end = rk_clock_seconds() + timeout_s;
    uint32_t n_looks = 0;
    for (;;) {
        cudaError_t error = cudaStreamQuery(rk_stream_native(stream));
        if (error != cudaErrorNotReady) {
            rk_device_record_failure(n->device, error, "work on the GPU");
            return rk_device_failure(n->device);
        }
        ncclResult_t result = check_async_error(n);
        RK_FAIL_IF(result != ncclSuccess, RK_PEER_LOST, "NCCL: %s", nccl.ncclGetErrorString(result));
        RK_FAIL_IF(rk_clock_seconds() > end, RK_PEER_LOST,
                   "NCCL: the GPUs of other ranks did not answer within %g s", timeout_s);
        spin_or_sleep(&n_looks);
    }
}

rk_status rk_nccl_wait(rk_nccl *n, rk_stream *stream, double timeout_s) {
    RK_FAIL_IF(!n->comm, RK_PEER_LOST, "NCCL failed before");
    rk_status status = wait_for_stream(n, stream, timeout_s);
    if (status != RK_OK) abort_nccl_comm(n);
    return status;
}
