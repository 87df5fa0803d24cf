/* Names and their numbers, sorted, so that thousands of tables and features are found fast. */
#ifndef RK_BASE_TEXT_NAME_INDEX_H
#define RK_BASE_TEXT_NAME_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_named {
    const char *name;
    int32_t number;
} rk_named;

typedef struct rk_name_index {
    rk_named *sorted; /* [n] by name, then number */
    int32_t n;
} rk_name_index;

/* The names of the n structs of an array: `bytes` each, with a `const char *` (or `char *`) at `offset`. One
 * that is NULL is left out. The strings stay their owner's and must live as long as the index. */
rk_status rk_name_index_init(rk_name_index *index, const void *array, size_t bytes, size_t offset, int32_t n);
void rk_name_index_release(rk_name_index *index);

/* The lowest number under a name, or -1. */
int32_t rk_name_index_find(const rk_name_index *index, const char *name);

/* The lowest number whose name a lower one has already, or -1. */
int32_t rk_name_index_find_duplicate(const rk_name_index *index);

#endif
