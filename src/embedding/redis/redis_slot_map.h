/* Which node of a cluster has which keys: a slot is a key's CRC16, or that of what is in its first braces
 * (redis.io/docs/reference/cluster-spec). */
#ifndef RK_EMBEDDING_REDIS_REDIS_SLOT_MAP_H
#define RK_EMBEDDING_REDIS_REDIS_SLOT_MAP_H

#include <stddef.h>
#include <stdint.h>

enum { RK_REDIS_SLOTS = 16384 };

typedef struct rk_slot_map {
    int32_t nodes[RK_REDIS_SLOTS]; /* -1: nobody's */
} rk_slot_map;

int32_t rk_redis_slot_of_key(const char *key, size_t n_bytes);
void rk_redis_slot_map_clear(rk_slot_map *map);
/* Slots first .. last are a node's; what is outside 0 .. RK_REDIS_SLOTS-1 is passed over. */
void rk_redis_slot_map_set_range(rk_slot_map *map, int64_t first, int64_t last, int32_t node);

/* Where "MOVED 3999 127.0.0.1:6381" or "ASK 3999 :6381" sends a command: the slot, and the text behind it in
 * *address. -1: the error is another one. */
int32_t rk_redis_parse_redirect(const char *error, const char **address);

#endif
