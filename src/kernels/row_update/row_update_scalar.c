#define RK_KERNEL_NAME(name) name##_scalar
#include "kernels/row_update/row_update_body.h"
