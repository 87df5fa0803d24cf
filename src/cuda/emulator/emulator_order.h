/* In which order the emulator does what has no order: drawn from RK_EMULATOR_SEED (1 where it is not set),
 * the same each time. */
#ifndef RK_CUDA_EMULATOR_EMULATOR_ORDER_H
#define RK_CUDA_EMULATOR_EMULATOR_ORDER_H

#include <stdint.h>

unsigned rk_emulator_random_below(unsigned n);

#endif
