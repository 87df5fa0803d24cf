#define RK_KERNEL_NAME(name) name##_scalar
#include "kernels/bag_forward/bag_forward_body.h"
