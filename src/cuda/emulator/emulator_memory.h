/* The emulator's two kinds of memory. */
#ifndef RK_CUDA_EMULATOR_EMULATOR_MEMORY_H
#define RK_CUDA_EMULATOR_EMULATOR_MEMORY_H

#include <stddef.h>

enum rk_memory_kind { RK_MEMORY_DEVICE, RK_MEMORY_PINNED };

/* Device memory can be touched between open and close only: while work is done. */
void rk_emulator_open_device_memory();
void rk_emulator_close_device_memory();

/* Fails unless the range is part of one allocation of that kind. */
void rk_emulator_check_range(const char *what, const void *memory, size_t n_bytes, rk_memory_kind kind);

#endif
