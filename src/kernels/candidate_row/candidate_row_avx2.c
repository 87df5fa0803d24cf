#define RK_KERNEL_NAME(name) name##_avx2
#include "kernels/candidate_row/candidate_row_body.h"
