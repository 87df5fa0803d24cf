#define RK_KERNEL_NAME(name) name##_scalar
#include "kernels/random_row/random_row_body.h"
