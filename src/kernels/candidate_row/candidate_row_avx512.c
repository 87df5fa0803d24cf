#define RK_KERNEL_NAME(name) name##_avx512
#include "kernels/candidate_row/candidate_row_body.h"
