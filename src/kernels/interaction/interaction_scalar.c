#define RK_KERNEL_NAME(name) name##_scalar
#include "kernels/interaction/interaction_body.h"
