/* What tests say to the emulator; C. */
#ifndef RK_CUDA_EMULATOR_EMULATOR_CONTROL_H
#define RK_CUDA_EMULATOR_EMULATOR_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on the order of what has none is drawn from this seed, in place of RK_EMULATOR_SEED. */
void rk_emulator_seed(uint64_t seed);
/* The allocation after the next n ones fails, of the device's memory or pinned; n < 0: none. */
void rk_emulator_fail_allocation(int64_t n);

#ifdef __cplusplus
}
#endif
#endif
