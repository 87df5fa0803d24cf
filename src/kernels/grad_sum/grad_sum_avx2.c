#define RK_KERNEL_NAME(name) name##_avx2
#include "kernels/grad_sum/grad_sum_body.h"
