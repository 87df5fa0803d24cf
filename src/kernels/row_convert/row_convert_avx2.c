#define RK_KERNEL_NAME(name) name##_avx2
#include "kernels/row_convert/row_convert_body.h"
