#define RK_KERNEL_NAME(name) name##_scalar
#include "kernels/grad_sum/grad_sum_body.h"
