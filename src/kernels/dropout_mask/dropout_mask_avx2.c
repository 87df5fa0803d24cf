#define RK_KERNEL_NAME(name) name##_avx2
#include "kernels/dropout_mask/dropout_mask_body.h"
