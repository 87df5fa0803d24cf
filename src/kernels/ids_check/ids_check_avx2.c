#define RK_KERNEL_NAME(name) name##_avx2
#include "kernels/ids_check/ids_check_body.h"
