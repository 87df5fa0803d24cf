#include "cuda/device/device_state.h"

static const size_t STAGING_BYTES = 4 << 20;

void rk_device_make_current(const rk_device *device) {
    (void)cudaSetDevice(device->number);
}

/* An error that is told is not the next launch's. */
static const char *clear_and_describe_error(cudaError_t error) {
    (void)cudaGetLastError();
    return cudaGetErrorString(error);
}

rk_status rk_cuda_error(cudaError_t error, const char *what) {
    return rk_error(RK_UNSUPPORTED, "%s: %s", what, clear_and_describe_error(error));
}

void rk_device_record_failure_text(rk_device *device, const char *reason) {
    if (device->failure != RK_OK) return;
    device->failure = RK_INTERNAL;
    snprintf(device->reason, sizeof device->reason, "%s", reason);
}

void rk_device_record_failure(rk_device *device, cudaError_t error, const char *what) {
    if (error == cudaSuccess) return;
    const char *text = clear_and_describe_error(error);
    if (device->failure != RK_OK) return;
    device->failure = RK_INTERNAL;
    snprintf(device->reason, sizeof device->reason, "GPU %d: %s: %s", (int)device->number, what, text);
}

rk_status rk_device_failure(const rk_device *device) {
    return device->failure == RK_OK ? RK_OK : rk_error(device->failure, "%s", device->reason);
}

static rk_status query_device(rk_device *device) {
    cudaDeviceProp properties;
    size_t free_bytes, all_bytes;
    cudaError_t error = cudaGetDeviceProperties(&properties, device->number);
    if (error == cudaSuccess) error = cudaMemGetInfo(&free_bytes, &all_bytes);
    if (error != cudaSuccess) return rk_cuda_error(error, "the GPU cannot be used");
    rk_device_info *info = &device->info;
    snprintf(info->name, sizeof info->name, "%s", properties.name);
    info->n_processors = properties.multiProcessorCount;
    info->major = properties.major;
    info->minor = properties.minor;
    info->memory_bytes = all_bytes;
    info->free_bytes = free_bytes;
#ifdef __CUDACC__
    memcpy(info->id, properties.uuid.bytes, sizeof info->id);
#else
    info->is_emulated = true;
#endif
    return RK_OK;
}

int32_t rk_device_count(void) {
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) == cudaSuccess) return n_devices;
    (void)cudaGetLastError();
    return 0;
}

static rk_status check_device_number(int32_t number) {
    int n_devices = 0;
    cudaError_t error = cudaGetDeviceCount(&n_devices);
    RK_FAIL_IF(
        error != cudaSuccess, RK_UNSUPPORTED,
        "no GPU can be used: %s\nhint: 'nvidia-smi' shows GPUs and driver; without a GPU, use 'device: cpu'",
        clear_and_describe_error(error));
    RK_FAIL_IF(number < 0 || number >= n_devices, RK_INVALID_ARGUMENT,
               "there is no GPU %d; %d %s, counted from 0", (int)number, n_devices,
               n_devices == 1 ? "is there" : "are there");
    error = cudaSetDevice(number);
    return error == cudaSuccess ? RK_OK : rk_cuda_error(error, "the GPU cannot be used");
}

rk_status rk_device_open(int32_t number, rk_device **out) {
    rk_device *device;
    rk_status status;
    RK_TRY(check_device_number(number));
    RK_TRY(rk_alloc(1, sizeof *device, &device));
    device->number = number;
    RK_GOTO(query_device(device));
    RK_GOTO(rk_stream_create(device, &device->stream));
    RK_GOTO(rk_device_alloc_host(device, STAGING_BYTES, &device->staging));
    RK_GOTO(rk_blas_create(device, &device->blas));
done:
    if (status == RK_OK)
        *out = device;
    else
        rk_device_close(device);
    return status;
}

void rk_device_close(rk_device *device) {
    if (!device) return;
    rk_device_make_current(device);
    rk_blas_free(device->blas);
    rk_device_free_host(device, device->staging);
    rk_stream_free(device->stream);
    rk_free(device);
}

rk_status rk_device_query(rk_device *device, rk_device_info *out) {
    rk_device_make_current(device);
    RK_TRY(query_device(device));
    *out = device->info;
    return RK_OK;
}

static rk_status allocation_error(cudaError_t error, size_t n_bytes, const char *kind) {
    size_t free_bytes = 0, all_bytes = 0;
    if (error != cudaErrorMemoryAllocation) return rk_cuda_error(error, kind);
    (void)clear_and_describe_error(error);
    (void)cudaMemGetInfo(&free_bytes, &all_bytes);
    return rk_error(RK_NO_MEMORY, "%s: %zu bytes are needed, but the GPU has %zu of %zu bytes free", kind,
                    n_bytes, free_bytes, all_bytes);
}

rk_status rk_device_alloc(rk_device *device, size_t n_bytes, void *out) {
    void *memory;
    rk_device_make_current(device);
    if (!n_bytes) n_bytes = 1;
    cudaError_t error = cudaMalloc(&memory, n_bytes);
    if (error != cudaSuccess) return allocation_error(error, n_bytes, "memory of the GPU");
    rk_stream_fill(device->stream, memory, 0, n_bytes);
    rk_status status = rk_stream_sync(device->stream);
    if (status == RK_OK)
        memcpy(out, &memory, sizeof memory);
    else
        rk_device_free(device, memory);
    return status;
}

void rk_device_free(rk_device *device, void *memory) {
    if (!memory) return;
    rk_device_make_current(device);
    rk_device_record_failure(device, cudaFree(memory), "freeing memory");
}

rk_status rk_device_alloc_host(rk_device *device, size_t n_bytes, void *out) {
    void *memory;
    rk_device_make_current(device);
    if (!n_bytes) n_bytes = 1;
    cudaError_t error = cudaHostAlloc(&memory, n_bytes, cudaHostAllocDefault);
    if (error != cudaSuccess) return allocation_error(error, n_bytes, "pinned memory");
    memset(memory, 0, n_bytes);
    memcpy(out, &memory, sizeof memory);
    return RK_OK;
}

void rk_device_free_host(rk_device *device, void *memory) {
    if (!memory) return;
    rk_device_make_current(device);
    rk_device_record_failure(device, cudaFreeHost(memory), "freeing pinned memory");
}

rk_status rk_device_pin(rk_device *device, void *memory, size_t n_bytes) {
    void *there = NULL;
    rk_device_make_current(device);
    cudaError_t error = cudaHostRegister(memory, n_bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaSuccess) return allocation_error(error, n_bytes, "pinning memory");
    error = cudaHostGetDevicePointer(&there, memory, 0);
    if (error == cudaSuccess && there == memory) return RK_OK;
    (void)cudaHostUnregister(memory);
    if (error != cudaSuccess) return rk_cuda_error(error, "pinning memory");
    return rk_error(RK_UNSUPPORTED,
                    "this GPU maps pinned memory at another address than the CPU\n"
                    "hint: tables behind a cache are not supported on it; set 'cuda.memory' to at least the "
                    "tables' size");
}

void rk_device_unpin(rk_device *device, void *memory) {
    if (!memory) return;
    rk_device_make_current(device);
    rk_device_record_failure(device, cudaHostUnregister(memory), "unpinning memory");
}

rk_status rk_device_upload(rk_device *device, void *to_device, const void *from_host, size_t n_bytes) {
    for (size_t at = 0; at < n_bytes; at += STAGING_BYTES) {
        size_t n = n_bytes - at < STAGING_BYTES ? n_bytes - at : STAGING_BYTES;
        memcpy(device->staging, (const char *)from_host + at, n);
        rk_stream_upload(device->stream, (char *)to_device + at, device->staging, n);
        RK_TRY(rk_stream_sync(device->stream));
    }
    return RK_OK;
}

rk_status rk_device_download(rk_device *device, void *to_host, const void *from_device, size_t n_bytes) {
    for (size_t at = 0; at < n_bytes; at += STAGING_BYTES) {
        size_t n = n_bytes - at < STAGING_BYTES ? n_bytes - at : STAGING_BYTES;
        rk_stream_download(device->stream, device->staging, (const char *)from_device + at, n);
        RK_TRY(rk_stream_sync(device->stream));
        memcpy((char *)to_host + at, device->staging, n);
    }
    return RK_OK;
}
