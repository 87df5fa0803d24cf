#define RK_KERNEL_NAME(name) name##_scalar
#include "kernels/row_convert/row_convert_body.h"
