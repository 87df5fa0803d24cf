#define RK_KERNEL_NAME(name) name##_scalar
#include "kernels/candidate_row/candidate_row_body.h"
