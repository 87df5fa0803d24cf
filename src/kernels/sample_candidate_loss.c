/* The body of rk_sample_candidate_loss (sample_candidate_loss.h), compiled once for each instruction set.
 * Loops run over sixteen lanes, with the same steps for all lanes, so that they become vector code and their
 * sums have one order. */
#include <math.h>

#include "kernels/inline/exponential.h"
#include "kernels/kernel_list.h"
#include "kernels/inline/lane_sum.h"

#define FOR_LANES for (int l = 0; l < RK_LANES; l++)

static void mask_all_but_hard_negatives(rk_real *scores, int64_t n, int64_t hard) {
    for (int64_t first = 0; first < n; first += hard) {
        int64_t best = first;
        for (int64_t c = first + 1; c < first + hard; c++) best = scores[c] > scores[best] ? c : best;
        for (int64_t c = first; c < first + hard; c++) scores[c] = c == best ? scores[c] : RK_NO_SCORE;
    }
}

/* Returns how many count. */
static int64_t mask_candidates(rk_sample_candidate_loss_args *a) {
    int32_t counted[RK_LANES] = {0}, own = a->own_id;
    int64_t sum = 0;
    for (int64_t c = 0; c < a->n; c += RK_LANES) {
        rk_real *s = a->scores + c;
        const int32_t *ids = a->ids + c;
        FOR_LANES s[l] = ((ids[l] == own) | (ids[l] < 0)) ? RK_NO_SCORE : s[l];
    }
    if (a->hard > 1) mask_all_but_hard_negatives(a->scores + a->first_grouped, a->n_grouped, a->hard);
    for (int64_t c = 0; c < a->n; c += RK_LANES) {
        const rk_real *s = a->scores + c;
        FOR_LANES counted[l] += RK_SCORE_COUNTS(s[l]);
    }
    FOR_LANES sum += counted[l];
    return sum;
}

static void softmax_loss_row(rk_sample_candidate_loss_args *a) {
    rk_real factor = (rk_real)(1 / a->temperature), own = a->own * factor - a->own_log_q, most[RK_LANES],
            sums[RK_LANES] = {0}, top = own;
    FOR_LANES most[l] = own;
    for (int64_t c = 0; c < a->n; c += RK_LANES) {
        rk_real *s = a->scores + c;
        const rk_real *q = a->log_q + c;
        FOR_LANES {
            rk_real z = s[l] * factor - q[l];
            s[l] = RK_SCORE_COUNTS(s[l]) ? z : RK_NO_SCORE;
            most[l] = s[l] > most[l] ? s[l] : most[l];
        }
    }
    FOR_LANES top = most[l] > top ? most[l] : top;
    for (int64_t c = 0; c < a->n; c += RK_LANES) {
        rk_real *s = a->scores + c;
        FOR_LANES s[l] = rk_exp(s[l] - top);
        FOR_LANES sums[l] += s[l];
    }
    double own_part = exp((double)(own - top)), sum = (double)rk_sum_lanes(sums) + own_part;
    rk_real slope = (rk_real)(a->weight / (a->temperature * sum));
    for (int64_t c = 0; c < a->n; c++) a->scores[c] *= slope;
    a->own_gradient = (rk_real)(a->weight / a->temperature * (own_part / sum - 1));
    a->loss = a->weight * (log(sum) - (double)(own - top));
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|): the logarithms of a lane are that of a product of at most 64
 * factors between 1 and 2. */
static void bpr_loss_row(rk_sample_candidate_loss_args *a, int64_t n_counted) {
    rk_real factor = (rk_real)(1 / a->temperature), products[RK_LANES], slopes[RK_LANES] = {0},
            above[RK_LANES] = {0};
    double a_candidate = n_counted ? a->weight / (double)n_counted : 0, logarithms = 0;
    rk_real own = a->own, slope = (rk_real)(a_candidate / a->temperature);
    FOR_LANES products[l] = 1;
    for (int64_t c = 0; c < a->n; c += RK_LANES) {
        rk_real *s = a->scores + c, x[RK_LANES], e[RK_LANES];
        FOR_LANES x[l] = (s[l] - own) * factor;
        FOR_LANES x[l] = RK_SCORE_COUNTS(s[l]) ? x[l] : RK_NO_SCORE;
        FOR_LANES e[l] = rk_exp(x[l] > 0 ? -x[l] : x[l]);
        FOR_LANES above[l] += x[l] > 0 ? x[l] : 0;
        FOR_LANES products[l] *= 1 + e[l];
        FOR_LANES s[l] = slope * ((x[l] > 0 ? 1 : e[l]) / (1 + e[l]));
        FOR_LANES slopes[l] += s[l];
        if (c % (64 * RK_LANES) != 63 * RK_LANES && c + RK_LANES < a->n) continue;
        FOR_LANES logarithms += log((double)products[l]);
        FOR_LANES products[l] = 1;
    }
    a->own_gradient = -rk_sum_lanes(slopes);
    a->loss = a_candidate * ((double)rk_sum_lanes(above) + logarithms);
}

static void contrastive_loss_row(rk_sample_candidate_loss_args *a, int64_t n_counted) {
    double a_candidate = n_counted ? a->negative_weight / (double)n_counted : 0;
    rk_real slope = (rk_real)(a->weight * a_candidate), margin = (rk_real)a->margin, above[RK_LANES] = {0};
    for (int64_t c = 0; c < a->n; c += RK_LANES) {
        rk_real *s = a->scores + c;
        FOR_LANES above[l] += s[l] > margin ? s[l] - margin : 0;
        FOR_LANES s[l] = s[l] > margin ? slope : 0;
    }
    a->own_gradient = (rk_real)-a->weight;
    a->loss = a->weight * (1 - (double)a->own + a_candidate * (double)rk_sum_lanes(above));
}

void RK_KERNEL_NAME(rk_sample_candidate_loss)(rk_sample_candidate_loss_args *a) {
    int64_t n_counted = mask_candidates(a);
    switch (a->kind) {
        case RK_CANDIDATES_BPR:
            bpr_loss_row(a, n_counted);
            break;
        case RK_CANDIDATES_COSINE_CONTRASTIVE:
            contrastive_loss_row(a, n_counted);
            break;
        default:
            softmax_loss_row(a);
            break;
    }
}
