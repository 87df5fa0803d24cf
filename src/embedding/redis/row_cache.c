#include "embedding/redis/row_cache.h"

#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

enum { MAX_PARTS = 64, PART_ROWS = 256 }; /* of a part, at the least, where there is more than one */

/* Open addressing: places [mask + 1], at most half of them taken, have the number of a kept row; -1: free. */
typedef struct part {
    pthread_mutex_t mutex;
    int32_t *places;
    int64_t *rows; /* [capacity] */
    uint8_t *used; /* [capacity]: since the hand passed by */
    char *bytes;   /* [capacity, row_bytes] */
    int32_t n, capacity, hand;
    uint32_t mask;
} part;

struct rk_row_cache {
    size_t row_bytes, n_parts;
    bool is_whole; /* it has room for all rows, in each part for those that fall to it */
    part parts[MAX_PARTS];
};

static uint64_t hash_of_row(int64_t row) {
    return rk_hash_combine((uint64_t)row, 0);
}

static uint32_t home_slot(const part *p, int64_t row) {
    return (uint32_t)hash_of_row(row) & p->mask;
}

/* The place of a row, or the free one where it would be. */
static uint32_t find_slot(const part *p, int64_t row) {
    uint32_t at = home_slot(p, row);
    while (p->places[at] >= 0 && p->rows[p->places[at]] != row) at = (at + 1) & p->mask;
    return at;
}

/* Those behind it move up, so that none is cut off from its home. */
static void remove_slot(part *p, uint32_t at) {
    for (uint32_t next = (at + 1) & p->mask; p->places[next] >= 0; next = (next + 1) & p->mask) {
        uint32_t home = home_slot(p, p->rows[p->places[next]]);
        if (((next - home) & p->mask) < ((next - at) & p->mask)) continue;
        p->places[at] = p->places[next];
        at = next;
    }
    p->places[at] = -1;
}

static size_t cache_bytes_per_row(size_t row_bytes) { /* with at most four places */
    return row_bytes + sizeof(int64_t) + 1 + 4 * sizeof(int32_t);
}

static rk_status init_cache_part(part *p, int64_t capacity, size_t row_bytes) {
    size_t n_places = 2;
    while (n_places < 2 * (size_t)capacity) n_places *= 2;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_places, p->places), RK_ARRAY((size_t)capacity, p->rows),
                        RK_ARRAY((size_t)capacity, p->used)));
    RK_TRY(rk_alloc((size_t)capacity, row_bytes, &p->bytes));
    memset(p->places, 0xff, n_places * sizeof *p->places);
    p->mask = (uint32_t)(n_places - 1);
    p->capacity = (int32_t)capacity;
    return RK_OK;
}

size_t rk_row_cache_bytes(int64_t n_rows, size_t row_bytes) {
    return (size_t)n_rows * cache_bytes_per_row(row_bytes);
}

rk_status rk_row_cache_create(size_t n_bytes, int64_t n_rows, size_t row_bytes, rk_row_cache **out) {
    rk_row_cache *cache;
    int64_t most = (int64_t)(n_bytes / cache_bytes_per_row(row_bytes));
    if (most > n_rows) most = n_rows;
    if (most > INT32_MAX / 4 * (int64_t)MAX_PARTS) most = INT32_MAX / 4 * (int64_t)MAX_PARTS;
    RK_TRY(rk_alloc(1, sizeof *cache, &cache));
    cache->row_bytes = row_bytes;
    cache->is_whole = most == n_rows;
    size_t wanted = most ? 1 : 0;
    while (wanted && wanted < MAX_PARTS && (int64_t)(2 * wanted * PART_ROWS) <= most) wanted *= 2;
    rk_status status = RK_OK;
    for (; status == RK_OK && cache->n_parts < wanted; cache->n_parts++) {
        part *p = &cache->parts[cache->n_parts];
        int64_t capacity = (most + (int64_t)(wanted - 1 - cache->n_parts)) / (int64_t)wanted;
        pthread_mutex_init(&p->mutex, NULL);
        status = init_cache_part(p, capacity, row_bytes);
    }
    if (status == RK_OK)
        *out = cache;
    else
        rk_row_cache_free(cache);
    return status;
}

void rk_row_cache_free(rk_row_cache *cache) {
    if (!cache) return;
    for (size_t i = 0; i < cache->n_parts; i++) {
        part *p = &cache->parts[i];
        RK_FREE_ALL(p->places, p->rows, p->used, p->bytes);
        pthread_mutex_destroy(&p->mutex);
    }
    rk_free(cache);
}

/* By hash parts get unequal numbers of rows: what has room for all rows counts them off instead. */
static part *part_of_row(rk_row_cache *cache, int64_t row) {
    uint64_t number = cache->is_whole ? (uint64_t)row : hash_of_row(row) >> 32;
    return &cache->parts[number & (cache->n_parts - 1)];
}

bool rk_row_cache_get(rk_row_cache *cache, int64_t row, void *out) {
    if (!cache->n_parts) return false;
    part *p = part_of_row(cache, row);
    pthread_mutex_lock(&p->mutex);
    int32_t number = p->places[find_slot(p, row)];
    if (number >= 0) {
        memcpy(out, p->bytes + (size_t)number * cache->row_bytes, cache->row_bytes);
        p->used[number] = 1;
    }
    pthread_mutex_unlock(&p->mutex);
    return number >= 0;
}

/* A kept row's number for another row: the first one that was not used since the hand passed by. */
static int32_t allocate_or_evict_row(part *p) {
    if (p->n < p->capacity) return p->n++;
    while (p->used[p->hand]) {
        p->used[p->hand] = 0;
        p->hand = (p->hand + 1) % p->capacity;
    }
    int32_t number = p->hand;
    p->hand = (p->hand + 1) % p->capacity;
    remove_slot(p, find_slot(p, p->rows[number]));
    return number;
}

void rk_row_cache_put(rk_row_cache *cache, int64_t row, const void *bytes) {
    if (!cache->n_parts) return;
    part *p = part_of_row(cache, row);
    pthread_mutex_lock(&p->mutex);
    if (p->places[find_slot(p, row)] < 0) { /* else another thread has read it too */
        int32_t number = allocate_or_evict_row(p);
        p->rows[number] = row;
        p->used[number] = 0;
        memcpy(p->bytes + (size_t)number * cache->row_bytes, bytes, cache->row_bytes);
        p->places[find_slot(p, row)] = number;
    }
    pthread_mutex_unlock(&p->mutex);
}

int64_t rk_row_cache_n_rows(const rk_row_cache *cache) {
    int64_t n = 0;
    for (size_t i = 0; i < cache->n_parts; i++) n += cache->parts[i].capacity;
    return n;
}
