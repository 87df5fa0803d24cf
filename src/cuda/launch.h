/* How functions that give work to a stream are declared: each header of them has a list, X(name, parameters),
 * and src/cuda/launch_list.h has all lists. */
#ifndef RK_CUDA_LAUNCH_H
#define RK_CUDA_LAUNCH_H

#include "cuda/device/device.h"

#ifdef __cplusplus
#define RK_CUDA_PROTOTYPE(name, parameters) extern "C" void name parameters;
#else
#define RK_CUDA_PROTOTYPE(name, parameters) void name parameters;
#endif

#endif
