/* Samples items by their probabilities: a sample is a function of (seed, stream, counter). */
#ifndef RK_MODEL_RETRIEVAL_NEGATIVE_SAMPLER_H
#define RK_MODEL_RETRIEVAL_NEGATIVE_SAMPLER_H

#include <stdint.h>

#include "base/error.h"
#include "kernels/real.h"

typedef struct rk_negative_sampler rk_negative_sampler;

/* Probabilities are proportional to counts[i]^exponent; counts NULL: uniform. */
rk_status rk_negative_sampler_create(int64_t n, const int64_t *counts, double exponent,
                                     rk_negative_sampler **out);
void rk_negative_sampler_free(rk_negative_sampler *sampler);
int64_t rk_negative_sampler_draw(const rk_negative_sampler *sampler, uint64_t seed, uint64_t stream,
                                 uint64_t counter);
/* ln of the item's probability; for an item that is never sampled, of the smallest one of the others. */
rk_real rk_negative_sampler_log_q(const rk_negative_sampler *sampler, int64_t item);

#endif
