#include "metrics/metrics.h"

#include <math.h>

#include "base/memory.h"
#include "base/text/find_text.h"
#include "metrics/sort_by_prediction.h"

struct rk_metrics {
    bool binary, optional;
    bool ungrouped;            /* some samples came without groups */
    rk_metric_sample *samples; /* [n] */
    int64_t *groups;           /* [n], where every sample has one */
    size_t n, capacity, groups_capacity;
    size_t n_rows;                         /* of samples and those that took no part, for messages */
    rk_metrics_offload_function *function; /* NULL: computed here */
    void *context;                         /* its own */
};

static const struct {
    const char *name;
    bool binary, regression, larger_is_better;
} list[RK_METRIC_COUNT] = {
#define RK_METRIC_ROW(name, binary, regression, larger) {#name, binary, regression, larger},
    RK_METRIC_LIST(RK_METRIC_ROW)
#undef RK_METRIC_ROW
};

const char *rk_metric_name(int metric) {
    return list[metric].name;
}

int rk_metric_find(const char *name) {
    return (int)RK_POSITION_BY(name, name, list, RK_METRIC_COUNT);
}

bool rk_metric_larger_is_better(int metric) {
    return metric >= RK_METRIC_COUNT || list[metric].larger_is_better;
}

bool rk_metric_applies(int metric, bool binary) {
    return binary ? list[metric].binary : list[metric].regression;
}

rk_status rk_metrics_create(bool binary, bool optional, rk_metrics **out) {
    rk_metrics *metrics;
    RK_TRY(rk_alloc(1, sizeof *metrics, &metrics));
    metrics->binary = binary;
    metrics->optional = optional;
    *out = metrics;
    return RK_OK;
}

void rk_metrics_free(rk_metrics *metrics) {
    if (!metrics) return;
    RK_FREE_ALL(metrics->samples, metrics->groups, metrics);
}

void rk_metrics_set_offload(rk_metrics *metrics, rk_metrics_offload_function *function, void *context) {
    metrics->function = function;
    metrics->context = context;
}

static rk_status check_metric_sample(bool binary, rk_metric_sample s, long long row) {
    RK_FAIL_IF(!isfinite(s.prediction), RK_NOT_FINITE, "row %lld: the prediction is %g", row, s.prediction);
    RK_FAIL_IF(!isfinite(s.label), RK_NOT_FINITE, "row %lld: the label is %g", row, s.label);
    RK_FAIL_IF(!isfinite(s.weight), RK_NOT_FINITE, "row %lld: the sample weight is %g", row, s.weight);
    RK_FAIL_IF(s.weight < 0, RK_BAD_DATA, "row %lld: the sample weight %g is negative", row, s.weight);
    if (!binary) return RK_OK;
    RK_FAIL_IF(s.label < 0 || s.label > 1, RK_BAD_DATA,
               "row %lld: the label %g of a binary task is not between 0 and 1", row, s.label);
    RK_FAIL_IF(s.prediction < 0 || s.prediction > 1, RK_INVALID_ARGUMENT,
               "row %lld: the prediction %g is not between 0 and 1", row, s.prediction);
    return RK_OK;
}

rk_status rk_metrics_add(rk_metrics *metrics, int64_t n, const float *predictions, const float *labels,
                         int64_t stride, const float *weights, const int64_t *groups) {
    RK_FAIL_IF(n < 0 || stride < 1 || (n && (!predictions || !labels)), RK_INVALID_ARGUMENT,
               "metrics need predictions and labels");
    size_t before = metrics->n, after = before + (size_t)n;
    RK_FAIL_IF(after > UINT32_MAX, RK_UNSUPPORTED, "metrics take up to %u samples", UINT32_MAX);
    bool grouped = groups && !metrics->ungrouped;
    RK_TRY(rk_reserve(&metrics->samples, &metrics->capacity, after, sizeof *metrics->samples));
    if (grouped)
        RK_TRY(rk_reserve(&metrics->groups, &metrics->groups_capacity, after, sizeof *metrics->groups));
    size_t at = before;
    for (int64_t i = 0; i < n; i++) {
        rk_metric_sample s = {predictions[i * stride], labels[i * stride], weights ? weights[i] : 1};
        if (metrics->optional && isnan(s.label)) continue;
        RK_TRY(check_metric_sample(metrics->binary, s, (long long)metrics->n_rows + i));
        if (grouped) metrics->groups[at] = groups[i];
        metrics->samples[at++] = s;
    }
    if (at > before && !groups) metrics->ungrouped = true;
    metrics->n = at;
    metrics->n_rows += (size_t)n;
    return RK_OK;
}

/* AUC of items[n], sorted by prediction. */
static double compute_auc(const rk_metrics *metrics, const rk_rank_item *items, size_t n) {
    rk_pair_sum pairs = {0};
    for (size_t i = 0; i < n; i++) rk_pair_sum_add_sample(&pairs, metrics->samples[items[i].index]);
    return rk_pair_sum_compute_auc(&pairs);
}

/* items sorted by (group, prediction): the groups' AUCs, weighted by the groups' weights; groups of one class
 * are left out. */
static double compute_gauc(const rk_metrics *metrics, const rk_rank_item *items) {
    double sum = 0, weights = 0;
    for (size_t first = 0, last; first < metrics->n; first = last) {
        double weight = 0;
        int64_t group = metrics->groups[items[first].index];
        for (last = first; last < metrics->n && metrics->groups[items[last].index] == group; last++)
            weight += (double)metrics->samples[items[last].index].weight;
        double auc = compute_auc(metrics, items + first, last - first);
        if (isnan(auc)) continue;
        sum += weight * auc;
        weights += weight;
    }
    return weights > 0 ? sum / weights : NAN;
}

static bool has_groups_of_all_samples(const rk_metrics *metrics) {
    return metrics->n && !metrics->ungrouped;
}

static rk_status compute_auc_and_gauc(const rk_metrics *metrics, rk_metric_totals *out) {
    RK_AUTOFREE rk_rank_item *items = NULL;
    size_t n = metrics->n;
    RK_TRY(rk_alloc(2 * n, sizeof *items, &items)); /* the second half is scratch */
    for (size_t i = 0; i < n; i++)
        items[i] = (rk_rank_item){rk_prediction_sort_key(metrics->samples[i].prediction), (uint32_t)i};
    rk_sort_by_prediction(items, items + n, n);
    out->auc = compute_auc(metrics, items, n);
    if (has_groups_of_all_samples(metrics)) {
        /* The sort is stable: by the low half of the group, then by the high half. */
        for (int shift = 0; shift <= 32; shift += 32) {
            for (size_t i = 0; i < n; i++)
                items[i].key = (uint32_t)((uint64_t)metrics->groups[items[i].index] >> shift);
            rk_sort_by_prediction(items, items + n, n);
        }
        out->gauc = compute_gauc(metrics, items);
    }
    return RK_OK;
}

static rk_status compute_totals_on_cpu(const rk_metrics *metrics, rk_metric_totals *out) {
    for (size_t i = 0; i < metrics->n; i++)
        rk_metric_sums_add_sample(out->sums, metrics->binary, metrics->samples[i]);
    return metrics->binary ? compute_auc_and_gauc(metrics, out) : RK_OK;
}

static rk_status compute_totals(const rk_metrics *metrics, rk_metric_totals *out) {
    if (!metrics->function || !metrics->n) return compute_totals_on_cpu(metrics, out);
    const int64_t *groups = has_groups_of_all_samples(metrics) ? metrics->groups : NULL;
    rk_status status = metrics->function(metrics->context, metrics->binary, (int64_t)metrics->n,
                                         metrics->samples, groups, out);
    return status == RK_NO_MEMORY ? compute_totals_on_cpu(metrics, out) : status;
}

static void compute_binary_values(const double *sums, double *values) {
    double weights = sums[RK_SUM_WEIGHTS], loss = sums[RK_SUM_LOSS], labels = sums[RK_SUM_LABELS],
           rate = labels / weights;
    values[RK_METRIC_logloss] = loss / weights;
    values[RK_METRIC_accuracy] = sums[RK_SUM_RIGHT] / weights;
    if (labels > 0) values[RK_METRIC_calibration] = sums[RK_SUM_PREDICTIONS] / labels;
    if (rate > 0 && rate < 1)
        values[RK_METRIC_normalized_entropy] = loss / weights / rk_cross_entropy_of_probability(rate, rate);
}

static void compute_regression_values(const double *sums, double *values) {
    values[RK_METRIC_rmse] = sqrt(sums[RK_SUM_SQUARES] / sums[RK_SUM_WEIGHTS]);
    values[RK_METRIC_mae] = sums[RK_SUM_DISTANCES] / sums[RK_SUM_WEIGHTS];
}

rk_status rk_metrics_compute(rk_metrics *metrics, double *values) {
    rk_metric_totals totals = {.auc = NAN, .gauc = NAN};
    RK_TRY(compute_totals(metrics, &totals));
    for (int i = 0; i < RK_METRIC_COUNT; i++) values[i] = NAN;
    values[RK_METRIC_auc] = totals.auc;
    values[RK_METRIC_gauc] = totals.gauc;
    if (totals.sums[RK_SUM_WEIGHTS] > 0)
        (metrics->binary ? compute_binary_values : compute_regression_values)(totals.sums, values);
    return RK_OK;
}
