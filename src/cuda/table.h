/* Lookups into and updates of embedding tables on the device. */
#ifndef RK_CUDA_TABLE_H
#define RK_CUDA_TABLE_H

#include "cuda/launch.h"

#define RK_CUDA_TABLE_LIST(X)
RK_CUDA_TABLE_LIST(RK_CUDA_PROTOTYPE)

#endif
