#define RK_KERNEL_NAME(name) name##_avx512
#include "kernels/interaction/interaction_body.h"
