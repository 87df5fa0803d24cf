#define RK_KERNEL_NAME(name) name##_avx2
#include "kernels/row_update/row_update_body.h"
