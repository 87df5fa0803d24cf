/* The dense operations, losses and dense optimizers on the device. */
#ifndef RK_CUDA_DENSE_H
#define RK_CUDA_DENSE_H

#include "cuda/launch.h"

#define RK_CUDA_DENSE_LIST(X)
RK_CUDA_DENSE_LIST(RK_CUDA_PROTOTYPE)

#endif
