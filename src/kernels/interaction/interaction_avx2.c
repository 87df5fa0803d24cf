#define RK_KERNEL_NAME(name) name##_avx2
#include "kernels/interaction/interaction_body.h"
