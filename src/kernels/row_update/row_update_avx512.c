#define RK_KERNEL_NAME(name) name##_avx512
#include "kernels/row_update/row_update_body.h"
