#include "embedding/redis/redis_slot_map.h"

#include <stdlib.h>
#include <string.h>

/* CRC16 as XMODEM has it: polynomial 0x1021, from 0, nothing reflected; four bits at a time. */
static uint16_t crc16(const char *data, size_t n_bytes) {
    static const uint16_t quarters[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                          0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    uint16_t crc = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        uint8_t byte = (uint8_t)data[i];
        crc = (uint16_t)(crc << 4 ^ quarters[crc >> 12 ^ byte >> 4]);
        crc = (uint16_t)(crc << 4 ^ quarters[crc >> 12 ^ (byte & 15)]);
    }
    return crc;
}

int32_t rk_redis_slot_of_key(const char *key, size_t n_bytes) {
    const char *open = memchr(key, '{', n_bytes);
    const char *close = open ? memchr(open, '}', n_bytes - (size_t)(open - key)) : NULL;
    if (close && close > open + 1) {
        key = open + 1;
        n_bytes = (size_t)(close - key);
    }
    return crc16(key, n_bytes) % RK_REDIS_SLOTS;
}

void rk_redis_slot_map_clear(rk_slot_map *map) {
    for (int32_t s = 0; s < RK_REDIS_SLOTS; s++) map->nodes[s] = -1;
}

void rk_redis_slot_map_set_range(rk_slot_map *map, int64_t first, int64_t last, int32_t node) {
    for (int64_t s = first < 0 ? 0 : first; s <= last && s < RK_REDIS_SLOTS; s++) map->nodes[s] = node;
}

int32_t rk_redis_parse_redirect(const char *error, const char **address) {
    const char *at = strncmp(error, "MOVED ", 6) == 0 ? error + 6
                     : strncmp(error, "ASK ", 4) == 0 ? error + 4
                                                      : NULL;
    char *end;
    if (!at || *at < '0' || *at > '9') return -1;
    long slot = strtol(at, &end, 10);
    if (*end != ' ' || slot < 0 || slot >= RK_REDIS_SLOTS) return -1;
    *address = end + 1;
    return (int32_t)slot;
}
