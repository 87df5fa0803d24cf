/* Stacks of their own for the threads of a block, between which one switches without a system call. The
 * address sanitizer is told. */
#ifndef RK_CUDA_EMULATOR_EMULATOR_FIBER_H
#define RK_CUDA_EMULATOR_EMULATOR_FIBER_H

#include <stddef.h>

struct rk_fiber;

/* `body` runs when the fiber is first switched to, and must not return. */
rk_fiber *rk_fiber_create(void (*body)(rk_fiber *self));
/* The stack that the program runs on. */
rk_fiber *rk_fiber_of_program();
/* Leaves `from`, the fiber that runs; back when somebody switches to it again. */
void rk_fiber_switch(rk_fiber *from, rk_fiber *to);

#endif
