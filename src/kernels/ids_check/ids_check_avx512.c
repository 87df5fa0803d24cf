#define RK_KERNEL_NAME(name) name##_avx512
#include "kernels/ids_check/ids_check_body.h"
