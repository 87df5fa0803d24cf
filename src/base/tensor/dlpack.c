/* Tensors from and to DLPack. */
#include <reckon/dlpack.h>

#include <string.h>

#include "base/memory.h"
#include "base/tensor/tensor.h"

static const struct {
    uint8_t code, bits;
} types[RK_DTYPE_COUNT] = {
    [RK_F32] = {kDLFloat, 32}, [RK_BF16] = {kDLBfloat, 16}, [RK_F16] = {kDLFloat, 16},
    [RK_F64] = {kDLFloat, 64}, [RK_I8] = {kDLInt, 8},       [RK_I16] = {kDLInt, 16},
    [RK_I32] = {kDLInt, 32},   [RK_I64] = {kDLInt, 64},     [RK_U8] = {kDLUInt, 8},
    [RK_U16] = {kDLUInt, 16},  [RK_U32] = {kDLUInt, 32},    [RK_U64] = {kDLUInt, 64},
    [RK_BOOL] = {kDLBool, 8},
};

static rk_status read_dtype(DLDataType type, rk_dtype *out) {
    RK_FAIL_IF(type.lanes != 1, RK_UNSUPPORTED, "DLPack tensor: values of %d lanes are not supported",
               (int)type.lanes);
    for (int dtype = 0; dtype < RK_DTYPE_COUNT; dtype++)
        if (types[dtype].code == type.code && types[dtype].bits == type.bits) {
            *out = (rk_dtype)dtype;
            return RK_OK;
        }
    return rk_error(RK_UNSUPPORTED, "DLPack tensor: values of type code %d with %d bits are not supported",
                    (int)type.code, (int)type.bits);
}

static rk_status read_device(DLDevice device, rk_tensor *t) {
    switch ((int)device.device_type) {
        case kDLCPU:
        case kDLCUDAHost:
            t->device = RK_DEVICE_CPU;
            return RK_OK;
        case kDLCUDA:
        case kDLCUDAManaged:
            t->device = RK_DEVICE_CUDA;
            t->device_number = device.device_id;
            return RK_OK;
        default:
            return rk_error_hint(rk_error(RK_UNSUPPORTED, "DLPack tensor: device type %d is not supported",
                                          (int)device.device_type),
                                 "copy it to the CPU or to a CUDA GPU");
    }
}

static rk_status read_shape(const DLTensor *d, rk_tensor *t) {
    RK_FAIL_IF(d->ndim < 0, RK_INVALID_ARGUMENT, "DLPack tensor: %d dimensions", (int)d->ndim);
    RK_FAIL_IF(d->ndim > RK_TENSOR_MAX_DIMS, RK_UNSUPPORTED,
               "DLPack tensor: %d dimensions are not supported; at most %d are", (int)d->ndim,
               RK_TENSOR_MAX_DIMS);
    RK_FAIL_IF(d->ndim && !d->shape, RK_INVALID_ARGUMENT, "DLPack tensor: 'shape' is NULL");
    t->n_dims = d->ndim;
    for (int32_t i = 0; i < d->ndim; i++) {
        RK_FAIL_IF(d->shape[i] < 0, RK_INVALID_ARGUMENT,
                   "DLPack tensor: shape[%d] is %lld, and must be 0 or more", (int)i, (long long)d->shape[i]);
        t->shape[i] = d->shape[i];
        if (d->strides) t->strides[i] = d->strides[i];
    }
    return d->strides ? RK_OK : rk_tensor_set_row_major(t);
}

static rk_status read_dl_tensor(const DLTensor *d, bool read_only, rk_tensor *out) {
    rk_tensor t = {.read_only = read_only};
    RK_TRY(read_dtype(d->dtype, &t.dtype));
    RK_TRY(read_device(d->device, &t));
    RK_TRY(read_shape(d, &t));
    RK_FAIL_IF(d->byte_offset > UINTPTR_MAX - (uintptr_t)d->data, RK_INVALID_ARGUMENT,
               "DLPack tensor: byte_offset %llu leads out of memory", (unsigned long long)d->byte_offset);
    if (d->data) t.data = (char *)d->data + d->byte_offset;
    RK_TRY(rk_tensor_check(&t));
    *out = t;
    return RK_OK;
}

rk_status rk_tensor_from_dlpack(const struct DLManagedTensorVersioned *managed, rk_tensor *out) {
    RK_FAIL_IF(!managed, RK_INVALID_ARGUMENT, "DLPack tensor: it is NULL");
    RK_FAIL_IF(managed->version.major != DLPACK_MAJOR_VERSION, RK_UNSUPPORTED,
               "DLPack tensor: it is of version %u.%u, and only versions %d.x are supported",
               (unsigned)managed->version.major, (unsigned)managed->version.minor, DLPACK_MAJOR_VERSION);
    return read_dl_tensor(&managed->dl_tensor, managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY, out);
}

rk_status rk_tensor_from_dlpack_legacy(const struct DLManagedTensor *managed, rk_tensor *out) {
    RK_FAIL_IF(!managed, RK_INVALID_ARGUMENT, "DLPack tensor: it is NULL");
    return read_dl_tensor(&managed->dl_tensor, false, out);
}

/* What is handed out: one of the two structs, and what it points to. */
typedef struct exported_tensor {
    union {
        DLManagedTensorVersioned versioned;
        DLManagedTensor legacy;
    } managed;
    int64_t shape[RK_TENSOR_MAX_DIMS], strides[RK_TENSOR_MAX_DIMS];
    void (*release)(void *owner);
    void *owner;
} exported_tensor;

static void exported_tensor_free(exported_tensor *e) {
    if (e->release) e->release(e->owner);
    rk_free(e);
}

static void delete_versioned_tensor(DLManagedTensorVersioned *self) {
    exported_tensor_free(self->manager_ctx);
}

static void delete_legacy_tensor(DLManagedTensor *self) {
    exported_tensor_free(self->manager_ctx);
}

static rk_status exported_tensor_create(const rk_tensor *t, void (*release)(void *owner), void *owner,
                                        exported_tensor **out) {
    RK_TRY(rk_tensor_check(t));
    RK_TRY(rk_alloc(1, sizeof **out, out));
    memcpy((*out)->shape, t->shape, sizeof t->shape);
    memcpy((*out)->strides, t->strides, sizeof t->strides);
    (*out)->release = release;
    (*out)->owner = owner;
    return RK_OK;
}

static DLTensor fill_dl_tensor(const rk_tensor *t, exported_tensor *e) {
    bool cpu = t->device == RK_DEVICE_CPU;
    return (DLTensor){
        .data = rk_tensor_n_values(t) ? t->data : NULL,
        .device = {cpu ? kDLCPU : kDLCUDA, cpu ? 0 : t->device_number},
        .ndim = t->n_dims,
        .dtype = {types[t->dtype].code, types[t->dtype].bits, 1},
        .shape = e->shape,
        .strides = e->strides,
    };
}

rk_status rk_tensor_to_dlpack(const rk_tensor *tensor, void (*release)(void *owner), void *owner,
                              struct DLManagedTensorVersioned **out) {
    exported_tensor *e;
    RK_TRY(exported_tensor_create(tensor, release, owner, &e));
    e->managed.versioned = (DLManagedTensorVersioned){
        .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
        .manager_ctx = e,
        .deleter = delete_versioned_tensor,
        .flags = tensor->read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
        .dl_tensor = fill_dl_tensor(tensor, e),
    };
    *out = &e->managed.versioned;
    return RK_OK;
}

rk_status rk_tensor_to_dlpack_legacy(const rk_tensor *tensor, void (*release)(void *owner), void *owner,
                                     struct DLManagedTensor **out) {
    RK_FAIL_IF(tensor->read_only, RK_UNSUPPORTED,
               "tensor: it is read-only, which DLPack before 1.0 cannot say\n"
               "hint: use rk_tensor_to_dlpack, or copy it");
    exported_tensor *e;
    RK_TRY(exported_tensor_create(tensor, release, owner, &e));
    e->managed.legacy = (DLManagedTensor){
        .dl_tensor = fill_dl_tensor(tensor, e), .manager_ctx = e, .deleter = delete_legacy_tensor};
    *out = &e->managed.legacy;
    return RK_OK;
}
