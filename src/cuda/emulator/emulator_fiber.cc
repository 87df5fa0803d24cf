#include "cuda/emulator/emulator_fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define RK_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RK_ADDRESS_SANITIZER
#endif
#endif

#ifdef RK_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

enum { STACK_BYTES = 256 << 10, GUARD_BYTES = 4096 };

struct rk_fiber {
    void (*body)(rk_fiber *self);
    const void *stack; /* its lowest address; NULL: the program's, not known yet */
    size_t stack_bytes;
    void *fake_stack; /* the address sanitizer's */
#ifdef __x86_64__
    void *sp;
#else
    ucontext_t context;
#endif
};

static rk_fiber *running, *left; /* left: the one that was switched away from */

static void finish_fiber_switch(rk_fiber *self) {
    (void)self;
#ifdef RK_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(self->fake_stack, &left->stack, &left->stack_bytes);
#endif
}

static void run_fiber_body() {
    finish_fiber_switch(running);
    running->body(running);
    abort(); /* a body does not return */
}

#ifdef __x86_64__
/* Keeps what a call must keep (System V ABI) on the old stack, and takes it from the new one. */
extern "C" void rk_fiber_swap(void **from_sp, void *to_sp);
__asm__(
    ".text\n.hidden rk_fiber_swap\n.globl rk_fiber_swap\n.type rk_fiber_swap, @function\n"
    "rk_fiber_swap:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n"
    ".size rk_fiber_swap, . - rk_fiber_swap\n");

static void prepare_first_switch(rk_fiber *fiber) {
    uintptr_t *top = (uintptr_t *)((char *)fiber->stack + fiber->stack_bytes);
    *--top = 0; /* where run_fiber_body would return to; keeps the stack aligned as after a call */
    *--top = (uintptr_t)run_fiber_body; /* where the first swap returns to */
    for (int i = 0; i < 6; i++) *--top = 0;
    fiber->sp = top;
}
static void swap_contexts(rk_fiber *from, rk_fiber *to) {
    rk_fiber_swap(&from->sp, to->sp);
}
#else
static void prepare_first_switch(rk_fiber *fiber) {
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = (void *)fiber->stack;
    fiber->context.uc_stack.ss_size = fiber->stack_bytes;
    makecontext(&fiber->context, run_fiber_body, 0);
}
static void swap_contexts(rk_fiber *from, rk_fiber *to) {
    swapcontext(&from->context, &to->context);
}
#endif

rk_fiber *rk_fiber_create(void (*body)(rk_fiber *self)) {
    rk_fiber *fiber = (rk_fiber *)calloc(1, sizeof *fiber);
    void *map = mmap(NULL, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!fiber || map == MAP_FAILED || mprotect(map, GUARD_BYTES, PROT_NONE) != 0) abort();
    fiber->body = body;
    fiber->stack = (char *)map + GUARD_BYTES;
    fiber->stack_bytes = STACK_BYTES;
    prepare_first_switch(fiber);
    return fiber;
}

rk_fiber *rk_fiber_of_program() {
    static rk_fiber program;
    return &program;
}

void rk_fiber_switch(rk_fiber *from, rk_fiber *to) {
    left = from;
    running = to;
#ifdef RK_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#endif
    swap_contexts(from, to);
    finish_fiber_switch(from);
}
