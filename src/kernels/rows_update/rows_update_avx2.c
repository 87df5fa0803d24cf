#define RK_KERNEL_NAME(name) name##_avx2
#include "kernels/rows_update/rows_update_body.h"
