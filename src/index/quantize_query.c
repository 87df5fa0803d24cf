/* A query beside codes of vectors, and how far products of codes can be from scores. */
#include <float.h>
#include <math.h>

#include "index/index_internal.h"

/* The score of a vector x is
 *     sum over d of q x  =  sum of q low  +  sum of q width/255 (c + 1/2)  +  sum of q e
 * where e, which the code c leaves out, is at most half a step of width/255, and a little for the rounding of
 * c. With w = q width/255 in whole numbers of `scale`, the products of codes are the middle term in units of
 * it, up to 255 sum |w - scale code|. What the f32 sum rounds, dim terms deep, is added. Two vectors may each
 * be off by all of that. */
int32_t rk_index_quantize_query(const rk_index_base *base, int32_t dim, const float *query, int16_t *codes) {
    const double most_sum = 2.146e9, half_step = 0.501; /* the sum: 2^31 less what 4096 codes round */
    double largest = 0, sum = 0, error = 0, magnitude = 0;
    for (int32_t d = 0; d < dim; d++) {
        double q = fabs((double)query[d]), w = q * (double)base->width[d] / 255,
               low = fabs((double)base->low[d]), high = fabs((double)base->low[d] + (double)base->width[d]);
        largest = w > largest ? w : largest;
        sum += w;
        magnitude += q * (low > high ? low : high);
    }
    double scale = largest / INT16_MAX > 255 * sum / most_sum ? largest / INT16_MAX : 255 * sum / most_sum;
    for (int32_t d = 0; d < dim; d++) {
        double w = (double)query[d] * (double)base->width[d] / 255;
        codes[d] = scale > 0 ? (int16_t)lrint(w / scale) : (int16_t)0;
        error += 255 * fabs(w - scale * codes[d]);
    }
    error += half_step * sum + 2 * (dim + 1) * (double)FLT_EPSILON * magnitude;
    double window = scale > 0 ? 2 * error / scale + 1 : INT32_MAX;
    return window < INT32_MAX ? (int32_t)ceil(window) : INT32_MAX;
}
