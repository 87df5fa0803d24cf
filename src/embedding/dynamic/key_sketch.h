/* How often keys without a row were used, about, in memory of a fixed size: the counters of one bucket of a
 * dynamic table. Each key has RK_SKETCH_PLACES of them, and its count is the least. Only those that are as
 * low as that are raised (conservative update), so the order in which keys are counted matters. A count is
 * too high where other keys share all of the key's counters, and never too low but for halving. Counters stop
 * at their largest number.
 *
 * Count-min: rows of counters of 8 bits, one place in each. Bloom: counters of 4 bits, all places among the
 * same. docs/dynamic_tables.md has the bounds of their errors, which halving keeps. */
#ifndef RK_EMBEDDING_DYNAMIC_KEY_SKETCH_H
#define RK_EMBEDDING_DYNAMIC_KEY_SKETCH_H

#include <stdbool.h>
#include <stdint.h>

enum { RK_SKETCH_PLACES = 4 };

typedef struct rk_key_sketch {
    uint8_t *cells; /* [rk_sketch_bytes] */
    int64_t *load;  /* count-min: uses that were counted; Bloom: counters above 0 */
    uint32_t width; /* counters of a row; Bloom: all */
    bool is_bloom;
} rk_key_sketch;

/* Of a bucket that may have so many rows. */
uint64_t rk_sketch_width(bool is_bloom, int64_t n_rows);
uint64_t rk_sketch_bytes(bool is_bloom, uint64_t width);

uint32_t rk_key_sketch_estimate(const rk_key_sketch *sketch, uint64_t hash);
void rk_key_sketch_add(const rk_key_sketch *sketch, uint64_t hash, uint32_t uses);
/* Halves all counters while there is too much in them for counts up to min_count. */
void rk_key_sketch_halve_if_full(const rk_key_sketch *sketch, int64_t min_count);
/* The load that follows from the counters, where it does: of a Bloom filter. */
void rk_key_sketch_recount_load(const rk_key_sketch *sketch);

#endif
