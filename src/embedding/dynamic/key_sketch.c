#include "embedding/dynamic/key_sketch.h"

#include "embedding/dynamic/key_bucket.h"
#include "embedding/dynamic_config.h"

enum { COUNT_MIN_MOST = 255, BLOOM_MOST = 15 };

uint64_t rk_sketch_width(bool is_bloom, int64_t n_rows) {
    return (uint64_t)n_rows * (is_bloom ? RK_BLOOM_WIDTH : RK_COUNT_MIN_WIDTH);
}

uint64_t rk_sketch_bytes(bool is_bloom, uint64_t width) {
    return is_bloom ? width / 2 : width * RK_SKETCH_PLACES;
}

/* Numbers of the key's counters. */
static void find_counters(const rk_key_sketch *s, uint64_t hash, uint64_t places[RK_SKETCH_PLACES]) {
    for (int i = 0; i < RK_SKETCH_PLACES; i += 2) {
        uint64_t bits = rk_key_hash((int64_t)(hash + 0xD1B54A32D192ED03u * (uint64_t)(i + 1)));
        places[i] = (bits & UINT32_MAX) * s->width >> 32;
        places[i + 1] = (bits >> 32) * s->width >> 32;
    }
    for (uint64_t i = 0; i < RK_SKETCH_PLACES && !s->is_bloom; i++) places[i] += i * s->width;
}

static uint32_t read_counter(const rk_key_sketch *s, uint64_t place) {
    return s->is_bloom ? (uint32_t)s->cells[place / 2] >> place % 2 * 4 & BLOOM_MOST : s->cells[place];
}

static void write_counter(const rk_key_sketch *s, uint64_t place, uint32_t value) {
    if (s->is_bloom) {
        uint32_t shift = place % 2 * 4, other = s->cells[place / 2] & (uint32_t)BLOOM_MOST << (4 - shift);
        s->cells[place / 2] = (uint8_t)(other | value << shift);
    } else {
        s->cells[place] = (uint8_t)value;
    }
}

static uint32_t least_counter(const rk_key_sketch *s, const uint64_t places[RK_SKETCH_PLACES]) {
    uint32_t least = UINT32_MAX;
    for (int i = 0; i < RK_SKETCH_PLACES; i++) {
        uint32_t cell = read_counter(s, places[i]);
        if (cell < least) least = cell;
    }
    return least;
}

uint32_t rk_key_sketch_estimate(const rk_key_sketch *s, uint64_t hash) {
    uint64_t places[RK_SKETCH_PLACES];
    find_counters(s, hash, places);
    return least_counter(s, places);
}

void rk_key_sketch_add(const rk_key_sketch *s, uint64_t hash, uint32_t uses) {
    uint64_t places[RK_SKETCH_PLACES];
    find_counters(s, hash, places);
    uint32_t most = s->is_bloom ? BLOOM_MOST : COUNT_MIN_MOST, least = least_counter(s, places),
             value = uses > most - least ? most : least + uses;
    for (int i = 0; i < RK_SKETCH_PLACES; i++) {
        uint32_t cell = read_counter(s, places[i]);
        if (cell >= value) continue;
        *s->load += s->is_bloom && cell == 0;
        write_counter(s, places[i], value);
    }
    if (!s->is_bloom) *s->load += uses;
}

static uint64_t sketch_bytes(const rk_key_sketch *s) {
    return rk_sketch_bytes(s->is_bloom, s->width);
}

void rk_key_sketch_recount_load(const rk_key_sketch *s) {
    if (!s->is_bloom) return;
    *s->load = 0;
    for (uint64_t place = 0; place < s->width; place++) *s->load += read_counter(s, place) > 0;
}

static void halve_counters(const rk_key_sketch *s) {
    uint8_t kept = s->is_bloom ? 0x77 : 0x7F; /* bits that stay in their own counter */
    for (uint64_t i = 0; i < sketch_bytes(s); i++) s->cells[i] = s->cells[i] >> 1 & kept;
    *s->load /= 2;
    rk_key_sketch_recount_load(s);
}

static bool is_sketch_full(const rk_key_sketch *s, int64_t min_count) {
    return s->is_bloom ? 5 * *s->load > 2 * (int64_t)s->width : *s->load > (int64_t)s->width * min_count / 4;
}

void rk_key_sketch_halve_if_full(const rk_key_sketch *s, int64_t min_count) {
    while (is_sketch_full(s, min_count)) halve_counters(s);
}
