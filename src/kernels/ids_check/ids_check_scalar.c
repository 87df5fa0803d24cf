#define RK_KERNEL_NAME(name) name##_scalar
#include "kernels/ids_check/ids_check_body.h"
