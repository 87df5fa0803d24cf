/* A tensor: values in memory, with their dtype, device, shape and strides, as array libraries have them; and
 * its exchange with those by DLPack (https://dmlc.github.io/dlpack/latest/c_api.html).
 *
 * Thread rule: functions read the tensor that they are given, and may be called by any number of threads.
 * Stable (docs/api.md). */
#ifndef RECKON_TENSOR_H
#define RECKON_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The one table that yields the enum, the names and the sizes. X(name, value, text, bytes) */
#define RK_DTYPE_LIST(X)  \
    X(F32, 0, "f32", 4)   \
    X(BF16, 1, "bf16", 2) \
    X(F16, 2, "f16", 2)   \
    X(F64, 3, "f64", 8)   \
    X(I8, 4, "i8", 1)     \
    X(I16, 5, "i16", 2)   \
    X(I32, 6, "i32", 4)   \
    X(I64, 7, "i64", 8)   \
    X(U8, 8, "u8", 1)     \
    X(U16, 9, "u16", 2)   \
    X(U32, 10, "u32", 4)  \
    X(U64, 11, "u64", 8)  \
    X(BOOL, 12, "bool", 1)

typedef enum rk_dtype {
#define RK_DTYPE_ENUM(name, value, text, bytes) RK_##name = value,
    RK_DTYPE_LIST(RK_DTYPE_ENUM)
#undef RK_DTYPE_ENUM
        RK_DTYPE_COUNT
} rk_dtype;
RK_API const char *rk_dtype_name(
    rk_dtype dtype);                          /* "f32", "bf16", ...; "unknown" for a number that is none */
RK_API size_t rk_dtype_bytes(rk_dtype dtype); /* of a value; 0 for a number that is none */

typedef enum rk_device_kind { RK_DEVICE_CPU = 0, RK_DEVICE_CUDA = 1 } rk_device_kind;

#define RK_TENSOR_MAX_DIMS 8

/* A view: copying the struct copies no values, and nothing is freed with it. Whoever hands one out says how
 * long its memory lasts. Value (i, j, ...) stands at data + (i * strides[0] + j * strides[1] + ...) *
 * rk_dtype_bytes(dtype). */
typedef struct rk_tensor {
    void *data; /* value (0, 0, ...); NULL only where there are no values */
    rk_dtype dtype;
    rk_device_kind device;
    int32_t device_number;               /* CUDA's number of a GPU; 0 on the CPU */
    int32_t n_dims;                      /* 0: one value without an index */
    int64_t shape[RK_TENSOR_MAX_DIMS];   /* [n_dims], each >= 0 */
    int64_t strides[RK_TENSOR_MAX_DIMS]; /* [n_dims], in values; 0 and less are possible */
    bool read_only;                      /* whoever gets it must not write its values */
} rk_tensor;

/* A writable, row-major tensor on the CPU over values of the caller's: shape [n_dims], data aligned to the
 * dtype's bytes. Errors, with *out untouched: RK_INVALID_ARGUMENT (no such dtype, more than
 * RK_TENSOR_MAX_DIMS dimensions, a negative size, more bytes than an address space has, values without
 * data). */
RK_API rk_status rk_tensor_init(rk_tensor *out, void *data, rk_dtype dtype, int32_t n_dims,
                                const int64_t *shape);
/* Whether a tensor that the caller filled in is one: RK_INVALID_ARGUMENT with the reason, as above, if it is
 * not, or if its strides lead out of the address space. Functions that take tensors check them so. */
RK_API rk_status rk_tensor_check(const rk_tensor *tensor);
/* The product of the shape: 1 without dimensions. The tensor passes rk_tensor_check. */
RK_API int64_t rk_tensor_n_values(const rk_tensor *tensor);
/* Whether its values stand one behind the other, row-major. The tensor passes rk_tensor_check. */
RK_API bool rk_tensor_is_contiguous(const rk_tensor *tensor);
/* Copy the values of one tensor on the CPU into another of the same dtype and shape, whatever the strides of
 * both; their memory must not overlap. RK_INVALID_ARGUMENT: they differ, or `to` is read-only. */
RK_API rk_status rk_tensor_copy(const rk_tensor *from, const rk_tensor *to);

/* DLPack. Its structs are in <reckon/dlpack.h>, or in DLPack's own <dlpack/dlpack.h>, whichever a program
 * includes. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* A view of a tensor that another library hands out; CPU (pinned memory too) and CUDA (managed memory too).
 * It stays valid until the caller calls managed->deleter(managed), if that is not NULL, which it does once,
 * in the end, whether this function succeeded or failed: the library never calls it. *out is read-only if the
 * flags say so.
 *
 * Errors, with *out untouched: RK_UNSUPPORTED (a major version other than 1, another device, a dtype that
 * rk_dtype has not, several lanes, more than RK_TENSOR_MAX_DIMS dimensions), RK_INVALID_ARGUMENT (a negative
 * size, missing data or shape, values that are not aligned or lie outside the address space). */
RK_API rk_status rk_tensor_from_dlpack(const struct DLManagedTensorVersioned *managed, rk_tensor *out);
/* The same of the struct of DLPack before 1.0, which knows no version and no flags: writable. */
RK_API rk_status rk_tensor_from_dlpack_legacy(const struct DLManagedTensor *managed, rk_tensor *out);

/* A tensor for another library, of version 1.0, without a copy. Whoever ends up with it calls (*out)->deleter
 * (*out) once, on any thread; that calls release(owner), if release is not NULL, and frees the struct.
 * Until then the values must stay where they are: release is where an owner that waits for this learns it.
 * Data need not be aligned to DLPack's 256 bytes, as with most libraries.
 *
 * Errors, with *out untouched and release not called: RK_INVALID_ARGUMENT (rk_tensor_check), RK_NO_MEMORY. */
RK_API rk_status rk_tensor_to_dlpack(const rk_tensor *tensor, void (*release)(void *owner), void *owner,
                                     struct DLManagedTensorVersioned **out);
/* The same as the struct of DLPack before 1.0. RK_UNSUPPORTED too: a read-only tensor, which that struct
 * cannot say. */
RK_API rk_status rk_tensor_to_dlpack_legacy(const rk_tensor *tensor, void (*release)(void *owner),
                                            void *owner, struct DLManagedTensor **out);

#ifdef __cplusplus
}
#endif
#endif
