#include "cuda/emulator/emulator_order.h"

#include <stdlib.h>

#include "cuda/emulator/emulator_control.h"

static uint64_t state;
static bool is_seeded;

void rk_emulator_seed(uint64_t seed) {
    state = seed;
    is_seeded = true;
}

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA'14. */
static uint64_t next_random() {
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

unsigned rk_emulator_random_below(unsigned n) {
    const char *text = is_seeded ? NULL : getenv("RK_EMULATOR_SEED");
    if (!is_seeded) rk_emulator_seed(text ? strtoull(text, NULL, 10) : 1);
    return (unsigned)((next_random() >> 32) * n >> 32);
}
