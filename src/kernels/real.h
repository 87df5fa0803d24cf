/* The number type of the dense engine: float; double in the second build of the same sources (-DRK_REAL_F64)
 * by which the tests check every gradient against finite differences. That build has the scalar kernels only.
 */
#ifndef RK_KERNELS_REAL_H
#define RK_KERNELS_REAL_H

#ifdef RK_REAL_F64
typedef double rk_real;
#else
typedef float rk_real;
#endif

#endif
