#include "report/prediction_curves.h"

#include <math.h>

#include "base/memory.h"
#include "metrics/sort_by_prediction.h"

static float prediction_of(const rk_predicted *p, uint32_t i) {
    return p->predictions[i];
}
static double label_of(const rk_predicted *p, uint32_t i) {
    return (double)p->labels[i];
}
static double weight_of(const rk_predicted *p, uint32_t i) {
    return p->weights ? (double)p->weights[i] : 1;
}

/* Ascending by prediction; rk_free. */
static rk_status sort_by_prediction(const rk_predicted *p, rk_rank_item **out) {
    rk_rank_item *items;
    RK_FAIL_IF(p->n > UINT32_MAX, RK_UNSUPPORTED, "curves take up to %u samples", UINT32_MAX);
    RK_TRY(rk_alloc(2 * p->n, sizeof *items, &items)); /* the second half is scratch */
    for (size_t i = 0; i < p->n; i++)
        items[i] = (rk_rank_item){rk_prediction_sort_key(prediction_of(p, (uint32_t)i)), (uint32_t)i};
    rk_sort_by_prediction(items, items + p->n, p->n);
    *out = items;
    return RK_OK;
}

void rk_roc_curve_release(rk_roc *roc) {
    RK_FREE_ALL(roc->false_rates, roc->true_rates);
    *roc = (rk_roc){0};
}

static void add_roc_point(rk_roc *roc, double resolution, bool is_last, double x, double y) {
    bool near = roc->n && fabs(x - roc->false_rates[roc->n - 1]) < resolution &&
                fabs(y - roc->true_rates[roc->n - 1]) < resolution;
    if (near && !is_last) return;
    roc->false_rates[roc->n] = x;
    roc->true_rates[roc->n++] = y;
}

/* From the highest prediction down; a point where a tie ends. */
static void trace_roc_curve(const rk_predicted *p, const rk_rank_item *items, double positives,
                            double negatives, double resolution, rk_roc *roc) {
    double above_positives = 0, above_negatives = 0;
    add_roc_point(roc, 0, false, 0, 0);
    for (size_t i = p->n; i-- > 0;) {
        double label = label_of(p, items[i].index), weight = weight_of(p, items[i].index);
        above_positives += weight * label;
        above_negatives += weight * (1 - label);
        if (i && items[i - 1].key == items[i].key) continue;
        if (i)
            add_roc_point(roc, resolution, false, above_negatives / negatives, above_positives / positives);
        else
            add_roc_point(roc, resolution, true, 1, 1);
    }
}

rk_status rk_roc_curve_make(const rk_predicted *p, double resolution, rk_roc *out) {
    double positives = 0, negatives = 0;
    RK_AUTO(rk_roc_curve_release) rk_roc roc = {0};
    RK_AUTOFREE rk_rank_item *items = NULL;
    for (size_t i = 0; i < p->n; i++) {
        positives += weight_of(p, (uint32_t)i) * label_of(p, (uint32_t)i);
        negatives += weight_of(p, (uint32_t)i) * (1 - label_of(p, (uint32_t)i));
    }
    *out = roc;
    if (!(positives > 0) || !(negatives > 0)) return RK_OK;
    RK_TRY(sort_by_prediction(p, &items));
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(p->n + 1, roc.false_rates), RK_ARRAY(p->n + 1, roc.true_rates)));
    trace_roc_curve(p, items, positives, negatives, resolution, &roc);
    *out = roc;
    roc = (rk_roc){0};
    return RK_OK;
}

/* Sums over the samples of a bin. */
typedef struct sums {
    int64_t n;
    double weights, squared_weights, predictions, labels, squared_labels;
} sums;

static void add_sample_to_bin(sums *s, const rk_predicted *p, uint32_t i) {
    double weight = weight_of(p, i), label = label_of(p, i);
    s->n++;
    s->weights += weight;
    s->squared_weights += weight * weight;
    s->predictions += weight * (double)prediction_of(p, i);
    s->labels += weight * label;
    s->squared_labels += weight * label * label;
}

static rk_bin make_calibration_bin(const sums *s, bool binary) {
    rk_bin bin = {.n = s->n, .predicted = s->predictions / s->weights, .observed = s->labels / s->weights};
    double n = s->weights * s->weights / s->squared_weights,
           rate = bin.observed; /* n: Kish's effective number of samples */
    const double z = 1.96;
    if (binary) {
        double middle = (rate + z * z / (2 * n)) / (1 + z * z / n),
               half = z / (1 + z * z / n) * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n));
        bin.low = fmax(0, middle - half);
        bin.high = fmin(1, middle + half);
    } else {
        double variance = fmax(0, s->squared_labels / s->weights - rate * rate),
               half = n > 1 ? z * sqrt(variance / (n - 1)) : NAN;
        bin.low = rate - half;
        bin.high = rate + half;
    }
    return bin;
}

rk_status rk_calibration_bins_make(const rk_predicted *p, bool binary, size_t n_bins, rk_bin **out,
                                   size_t *n_out) {
    RK_AUTOFREE rk_rank_item *items = NULL;
    rk_bin *bins;
    RK_TRY(sort_by_prediction(p, &items));
    RK_TRY(rk_alloc(n_bins, sizeof *bins, &bins));
    size_t n = 0, at = 0;
    for (size_t b = 0; b < n_bins; b++) {
        size_t end = p->n * (b + 1) / n_bins;
        sums s = {0};
        for (; at < p->n && (at < end || (s.n && items[at].key == items[at - 1].key)); at++)
            add_sample_to_bin(&s, p, items[at].index);
        if (s.weights > 0) bins[n++] = make_calibration_bin(&s, binary);
    }
    *out = bins;
    *n_out = n;
    return RK_OK;
}
