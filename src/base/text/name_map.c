#include "base/text/name_map.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

/* The name's place, or the free one where it would stand. */
static struct rk_name_place *find_entry(const rk_name_map *map, const char *name) {
    size_t i = (size_t)rk_hash_bytes(name, strlen(name), 0) & (map->capacity - 1);
    while (map->places[i].name && strcmp(map->places[i].name, name) != 0) i = (i + 1) & (map->capacity - 1);
    return &map->places[i];
}

static rk_status grow_entries(rk_name_map *map) {
    rk_name_map larger = {.capacity = map->capacity ? 2 * map->capacity : 64, .n = map->n};
    RK_TRY(rk_alloc(larger.capacity, sizeof *larger.places, &larger.places));
    for (size_t i = 0; i < map->capacity; i++)
        if (map->places[i].name) *find_entry(&larger, map->places[i].name) = map->places[i];
    rk_free(map->places);
    *map = larger;
    return RK_OK;
}

rk_status rk_name_map_add(rk_name_map *map, const char *name, int64_t number) {
    if (2 * map->n >= map->capacity) RK_TRY(grow_entries(map));
    *find_entry(map, name) = (struct rk_name_place){name, number};
    map->n++;
    return RK_OK;
}

int64_t rk_name_map_find(const rk_name_map *map, const char *name) {
    const struct rk_name_place *place = map->n ? find_entry(map, name) : NULL;
    return place && place->name ? place->number : -1;
}

void rk_name_map_release(rk_name_map *map) {
    rk_free(map->places);
    *map = (rk_name_map){0};
}
