#define RK_KERNEL_NAME(name) name##_scalar
#include "kernels/dropout_mask/dropout_mask_body.h"
