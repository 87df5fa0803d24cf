/* Functions in headers that are compiled for GPUs too, so that both sides follow one source: nvcc makes them for both, other compilers take them as they are. */
#ifndef RK_BASE_DEVICE_INLINE_H
#define RK_BASE_DEVICE_INLINE_H

#ifdef __CUDACC__
#define RK_DEVICE_INLINE static __host__ __device__ inline
#else
#define RK_DEVICE_INLINE static inline
#endif

/* C's restrict, which C++ does not have under that name. */
#define RK_RESTRICT __restrict

#endif
