/* 10^0 to 10^19, a table of each file that has them, whose divisions by some of them are then
 * multiplications. */
#ifndef RK_POWERS_OF_TEN_H
#define RK_POWERS_OF_TEN_H

#include <stdint.h>

static const uint64_t rk_powers_of_ten[20] = {1,
                                              10,
                                              100,
                                              1000,
                                              10000,
                                              100000,
                                              1000000,
                                              10000000,
                                              100000000,
                                              1000000000,
                                              10000000000,
                                              100000000000,
                                              1000000000000,
                                              10000000000000,
                                              100000000000000,
                                              1000000000000000,
                                              10000000000000000,
                                              100000000000000000,
                                              1000000000000000000,
                                              10000000000000000000u};

#endif
