#include "base/tensor/tensor.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[RK_DTYPE_COUNT] = {
#define DTYPE(name, value, text, bytes) [RK_##name] = {text, bytes},
    RK_DTYPE_LIST(DTYPE)
#undef DTYPE
};

const char *rk_dtype_name(rk_dtype dtype) {
    return (unsigned)dtype < RK_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

size_t rk_dtype_bytes(rk_dtype dtype) {
    return (unsigned)dtype < RK_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

static rk_status check_fields(const rk_tensor *t) {
    RK_FAIL_IF((unsigned)t->dtype >= RK_DTYPE_COUNT, RK_INVALID_ARGUMENT, "tensor: invalid dtype %d",
               (int)t->dtype);
    RK_FAIL_IF(t->device != RK_DEVICE_CPU && t->device != RK_DEVICE_CUDA, RK_INVALID_ARGUMENT,
               "tensor: invalid device %d", (int)t->device);
    RK_FAIL_IF(t->device_number < 0, RK_INVALID_ARGUMENT, "tensor: GPU number %d is negative",
               (int)t->device_number);
    RK_FAIL_IF(t->n_dims < 0 || t->n_dims > RK_TENSOR_MAX_DIMS, RK_INVALID_ARGUMENT,
               "tensor: %d dimensions; must be 0 to %d", (int)t->n_dims, RK_TENSOR_MAX_DIMS);
    for (int32_t d = 0; d < t->n_dims; d++)
        RK_FAIL_IF(t->shape[d] < 0, RK_INVALID_ARGUMENT, "tensor: shape[%d] is %lld, and must be 0 or more",
                   (int)d, (long long)t->shape[d]);
    return RK_OK;
}

static rk_status too_large_error(void) {
    return rk_error(RK_INVALID_ARGUMENT, "tensor: more values than memory has addresses");
}

static bool is_empty(const rk_tensor *t) {
    for (int32_t d = 0; d < t->n_dims; d++)
        if (t->shape[d] == 0) return true;
    return false;
}

/* Bytes that lie before the first value, and from it on. */
static bool find_byte_extent(const rk_tensor *t, int64_t *before, int64_t *behind) {
    int64_t size = (int64_t)dtypes[t->dtype].bytes, n = 1;
    *before = 0;
    *behind = 1;
    for (int32_t d = 0; d < t->n_dims; d++) {
        int64_t span;
        if (__builtin_mul_overflow(n, t->shape[d], &n) ||
            __builtin_mul_overflow(t->shape[d] - 1, t->strides[d], &span))
            return false;
        if (span < 0 ? __builtin_sub_overflow(*before, span, before)
                     : __builtin_add_overflow(*behind, span, behind))
            return false;
    }
    return !__builtin_mul_overflow(n, size, &n) && !__builtin_mul_overflow(*before, size, before) &&
           !__builtin_mul_overflow(*behind, size, behind);
}

rk_status rk_tensor_check(const rk_tensor *t) {
    RK_TRY(check_fields(t));
    if (is_empty(t)) return RK_OK;
    RK_FAIL_IF(!t->data, RK_INVALID_ARGUMENT, "tensor: it has values, and 'data' is NULL");
    uintptr_t address = (uintptr_t)t->data;
    RK_FAIL_IF(address % dtypes[t->dtype].bytes, RK_INVALID_ARGUMENT,
               "tensor: 'data' is not aligned to the %zu bytes of %s", dtypes[t->dtype].bytes,
               dtypes[t->dtype].name);
    int64_t before, behind;
    if (!find_byte_extent(t, &before, &behind) || (uint64_t)before > address ||
        (uint64_t)behind > UINTPTR_MAX - address)
        return too_large_error();
    return RK_OK;
}

rk_status rk_tensor_set_row_major(rk_tensor *t) {
    int64_t stride = 1;
    for (int32_t d = t->n_dims - 1; d >= 0; d--) {
        t->strides[d] = stride;
        if (__builtin_mul_overflow(stride, t->shape[d] ? t->shape[d] : 1, &stride)) return too_large_error();
    }
    return RK_OK;
}

rk_status rk_tensor_init(rk_tensor *out, void *data, rk_dtype dtype, int32_t n_dims, const int64_t *shape) {
    rk_tensor t = {.data = data, .dtype = dtype, .n_dims = n_dims};
    for (int32_t d = 0; d < n_dims && d < RK_TENSOR_MAX_DIMS; d++) t.shape[d] = shape[d];
    RK_TRY(check_fields(&t));
    RK_TRY(rk_tensor_set_row_major(&t));
    RK_TRY(rk_tensor_check(&t));
    *out = t;
    return RK_OK;
}

int64_t rk_tensor_n_values(const rk_tensor *t) {
    if (is_empty(t)) return 0;
    int64_t n = 1;
    for (int32_t d = 0; d < t->n_dims; d++) n *= t->shape[d];
    return n;
}

bool rk_tensor_is_contiguous(const rk_tensor *t) {
    if (is_empty(t)) return true;
    int64_t stride = 1;
    for (int32_t d = t->n_dims - 1; d >= 0; d--) {
        if (t->shape[d] != 1 && t->strides[d] != stride) return false;
        stride *= t->shape[d];
    }
    return true;
}

/* Values of dimensions `dim` and on, from and to places counted in values. */
static void copy_dimensions(const rk_tensor *from, const rk_tensor *to, int32_t dim, int64_t from_place,
                            int64_t to_place) {
    size_t bytes = dtypes[from->dtype].bytes;
    if (dim == from->n_dims) {
        memcpy((char *)to->data + to_place * (int64_t)bytes,
               (const char *)from->data + from_place * (int64_t)bytes, bytes);
        return;
    }
    for (int64_t i = 0; i < from->shape[dim]; i++)
        copy_dimensions(from, to, dim + 1, from_place + i * from->strides[dim],
                        to_place + i * to->strides[dim]);
}

rk_status rk_tensor_copy(const rk_tensor *from, const rk_tensor *to) {
    RK_TRY(rk_tensor_check(from));
    RK_TRY(rk_tensor_check(to));
    RK_FAIL_IF(from->device != RK_DEVICE_CPU || to->device != RK_DEVICE_CPU, RK_INVALID_ARGUMENT,
               "tensor: only tensors on the CPU can be copied");
    RK_FAIL_IF(from->dtype != to->dtype, RK_INVALID_ARGUMENT, "tensor: %s cannot be copied into %s",
               dtypes[from->dtype].name, dtypes[to->dtype].name);
    RK_FAIL_IF(from->n_dims != to->n_dims ||
                   memcmp(from->shape, to->shape, (size_t)from->n_dims * sizeof *from->shape) != 0,
               RK_INVALID_ARGUMENT, "tensor: a tensor can only be copied into one of the same shape");
    RK_FAIL_IF(to->read_only, RK_INVALID_ARGUMENT, "tensor: a read-only tensor cannot be written to");
    if (is_empty(from)) return RK_OK;
    if (rk_tensor_is_contiguous(from) && rk_tensor_is_contiguous(to))
        memcpy(to->data, from->data, (size_t)rk_tensor_n_values(from) * dtypes[from->dtype].bytes);
    else
        copy_dimensions(from, to, 0, 0, 0);
    return RK_OK;
}
