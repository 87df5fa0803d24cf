#define RK_KERNEL_NAME(name) name##_avx512
#include "kernels/random_row/random_row_body.h"
