/* Plain C that is also compiled for GPUs. Functions of a header that kernels use are `RK_DEVICE_CODE static
 * inline`; on the CPU that has no effect. */
#ifndef RK_BASE_DEVICE_CODE_H
#define RK_BASE_DEVICE_CODE_H

#ifdef __CUDACC__
#define RK_DEVICE_CODE __host__ __device__
#else
#define RK_DEVICE_CODE
#endif

/* C++, which CUDA is, has no `restrict`. */
#ifdef __cplusplus
#define RK_RESTRICT __restrict__
#else
#define RK_RESTRICT restrict
#endif

#endif
