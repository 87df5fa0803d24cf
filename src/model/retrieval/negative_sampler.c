/* The alias method (Walker 1977, Vose 1991): each of n slots is shared by two items at most, so a sample
 * takes one lookup. */
#include "model/retrieval/negative_sampler.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"

__extension__ typedef unsigned __int128 uint128;

struct rk_negative_sampler {
    int64_t n;
    double *keeps;    /* [n]: the share of its place that item i has; NULL: all alike */
    int64_t *aliases; /* [n]: who has the rest */
    rk_real *log_q;   /* [n] */
};

static rk_status allocate_alias_table(rk_negative_sampler *s) {
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)s->n, s->keeps), RK_ARRAY((size_t)s->n, s->aliases)));
    return rk_alloc((size_t)s->n, sizeof *s->log_q, &s->log_q);
}

/* Chances, that add up to 1, into keeps. */
static rk_status compute_probabilities(rk_negative_sampler *s, const int64_t *counts, double exponent) {
    double sum = 0, least = INFINITY;
    for (int64_t i = 0; i < s->n; i++) sum += s->keeps[i] = counts[i] ? pow((double)counts[i], exponent) : 0;
    RK_FAIL_IF(sum == 0, RK_BAD_DATA, "no negatives can be sampled: the training data has no pairs");
    for (int64_t i = 0; i < s->n; i++) {
        s->keeps[i] /= sum;
        if (s->keeps[i] > 0 && s->keeps[i] < least) least = s->keeps[i];
    }
    for (int64_t i = 0; i < s->n; i++) s->log_q[i] = (rk_real)log(s->keeps[i] > 0 ? s->keeps[i] : least);
    return RK_OK;
}

/* Places with room to spare take from those that have too much. waiting [n]: those with room from the front,
 * the others from the back. */
static void build_alias_table(rk_negative_sampler *s, int64_t *waiting) {
    int64_t n_small = 0, first_large = s->n;
    for (int64_t i = 0; i < s->n; i++) {
        s->keeps[i] *= (double)s->n;
        s->aliases[i] = i;
        waiting[s->keeps[i] < 1 ? n_small++ : --first_large] = i;
    }
    while (n_small > 0 && first_large < s->n) {
        int64_t small = waiting[--n_small], large = waiting[first_large];
        s->aliases[small] = large;
        s->keeps[large] -= 1 - s->keeps[small];
        if (s->keeps[large] >= 1) continue;
        first_large++;
        waiting[n_small++] = large;
    }
}

rk_status rk_negative_sampler_create(int64_t n, const int64_t *counts, double exponent,
                                     rk_negative_sampler **out) {
    rk_negative_sampler *s;
    int64_t *waiting = NULL;
    RK_TRY(rk_alloc(1, sizeof *s, &s));
    s->n = n;
    rk_status status = RK_OK;
    if (counts && exponent > 0) {
        status = allocate_alias_table(s);
        if (status == RK_OK) status = rk_alloc((size_t)n, sizeof *waiting, &waiting);
        if (status == RK_OK) status = compute_probabilities(s, counts, exponent);
        if (status == RK_OK) build_alias_table(s, waiting);
    }
    rk_free(waiting);
    if (status == RK_OK)
        *out = s;
    else
        rk_negative_sampler_free(s);
    return status;
}

void rk_negative_sampler_free(rk_negative_sampler *s) {
    if (!s) return;
    RK_FREE_ALL(s->keeps, s->aliases, s->log_q, s);
}

int64_t rk_negative_sampler_draw(const rk_negative_sampler *s, uint64_t seed, uint64_t stream,
                                 uint64_t counter) {
    uint32_t words[4];
    rk_rng_draw_four_words(seed, stream, counter, words);
    uint64_t place_bits = (uint64_t)words[0] << 32 | words[1],
             share_bits = (uint64_t)words[2] << 32 | words[3];
    int64_t place = (int64_t)((uint128)place_bits * (uint64_t)s->n >> 64);
    if (!s->keeps) return place;
    return rk_uniform_from_bits(share_bits) < s->keeps[place] ? place : s->aliases[place];
}

rk_real rk_negative_sampler_log_q(const rk_negative_sampler *s, int64_t item) {
    return s->log_q ? s->log_q[item] : (rk_real)-log((double)s->n);
}
