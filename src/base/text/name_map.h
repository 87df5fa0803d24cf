/* Names and their numbers, added one by one: an open-addressing hash table. Zero-initialize. The strings stay
 * their owner's and must not move. */
#ifndef RK_BASE_TEXT_NAME_MAP_H
#define RK_BASE_TEXT_NAME_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_name_map {
    struct rk_name_place {
        const char *name; /* NULL: free */
        int64_t number;
    } * places; /* [capacity], a power of two, at most half of them taken */
    size_t capacity, n;
} rk_name_map;

/* The name must not be there yet. */
rk_status rk_name_map_add(rk_name_map *map, const char *name, int64_t number);
int64_t rk_name_map_find(const rk_name_map *map, const char *name); /* -1 if it is not there */
void rk_name_map_release(rk_name_map *map);

#endif
