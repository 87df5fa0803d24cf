#define RK_KERNEL_NAME(name) name##_scalar
#include "kernels/rows_update/rows_update_body.h"
