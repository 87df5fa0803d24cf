/* Behind <reckon/tensor.h>: strides of tensors. */
#ifndef RK_BASE_TENSOR_TENSOR_H
#define RK_BASE_TENSOR_TENSOR_H

#include <reckon/tensor.h>

#include "base/error.h"

/* Strides of a row-major tensor of the shape [n_dims]. RK_INVALID_ARGUMENT: more values than can be counted.
 */
rk_status rk_tensor_set_row_major(rk_tensor *tensor);

#endif
