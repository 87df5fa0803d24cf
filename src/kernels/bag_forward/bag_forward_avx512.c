#define RK_KERNEL_NAME(name) name##_avx512
#include "kernels/bag_forward/bag_forward_body.h"
