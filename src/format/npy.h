/* NumPy's file of one array, written: docs/formats/npy.md. */
#ifndef RK_FORMAT_NPY_H
#define RK_FORMAT_NPY_H

#include <stdint.h>

#include "base/error.h"

/* values [n, dim], row by row; whole or not at all. */
rk_status rk_npy_write(const char *path, const float *values, int64_t n, int64_t dim);

#endif
