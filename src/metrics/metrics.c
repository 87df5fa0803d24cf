#include "metrics/metrics.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "metrics/rank_order.h"

typedef struct sample {
    float prediction, label, weight;
} sample;

struct rk_metrics {
    bool binary, optional;
    bool ungrouped;  /* some samples came without groups */
    sample *samples; /* [n] */
    int64_t *groups; /* [n], where every sample has one */
    size_t n, capacity, groups_capacity;
    size_t n_rows;   /* of samples and those that took no part, for messages */
    rk_auc_function *auc; /* NULL: computed here */
    void *auc_context;
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
    for (int i = 0; i < RK_METRIC_COUNT; i++)
        if (strcmp(list[i].name, name) == 0) return i;
    return -1;
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
    rk_free(metrics->samples);
    rk_free(metrics->groups);
    rk_free(metrics);
}

void rk_metrics_set_auc(rk_metrics *metrics, rk_auc_function *auc, void *context) {
    metrics->auc = auc;
    metrics->auc_context = context;
}

void rk_metrics_clear(rk_metrics *metrics) {
    metrics->n = metrics->n_rows = 0;
    metrics->ungrouped = false;
}

static rk_status check_sample(bool binary, sample s, long long row) {
    RK_FAIL_IF(!isfinite(s.prediction), RK_NOT_FINITE, "row %lld: the prediction is %g", row, s.prediction);
    RK_FAIL_IF(!isfinite(s.label), RK_NOT_FINITE, "row %lld: the label is %g", row, s.label);
    RK_FAIL_IF(!isfinite(s.weight), RK_NOT_FINITE, "row %lld: the sample weight is %g", row, s.weight);
    RK_FAIL_IF(s.weight < 0, RK_BAD_DATA, "row %lld: the sample weight %g is negative", row, s.weight);
    if (!binary) return RK_OK;
    RK_FAIL_IF(s.label < 0 || s.label > 1, RK_BAD_DATA, "row %lld: the label %g of a binary task is not between 0 and 1", row, s.label);
    RK_FAIL_IF(s.prediction < 0 || s.prediction > 1, RK_INVALID_ARGUMENT, "row %lld: the prediction %g is no probability", row, s.prediction);
    return RK_OK;
}

static rk_status reserve(void *array, size_t n, size_t *capacity, size_t bytes) {
    if (n <= *capacity) return RK_OK;
    size_t wanted = n > *capacity + *capacity / 2 ? n : *capacity + *capacity / 2;
    RK_TRY(rk_realloc(wanted, bytes, array));
    *capacity = wanted;
    return RK_OK;
}

rk_status rk_metrics_add(rk_metrics *metrics, int64_t n, const float *predictions, const float *labels, int64_t stride, const float *weights,
                         const int64_t *groups) {
    RK_FAIL_IF(n < 0 || stride < 1 || (n && (!predictions || !labels)), RK_INVALID_ARGUMENT, "metrics need predictions and labels");
    size_t before = metrics->n, after = before + (size_t)n;
    RK_FAIL_IF(after > UINT32_MAX, RK_UNSUPPORTED, "metrics take up to %u samples", UINT32_MAX);
    bool grouped = groups && !metrics->ungrouped;
    RK_TRY(reserve(&metrics->samples, after, &metrics->capacity, sizeof *metrics->samples));
    if (grouped) RK_TRY(reserve(&metrics->groups, after, &metrics->groups_capacity, sizeof *metrics->groups));
    size_t at = before;
    for (int64_t i = 0; i < n; i++) {
        sample s = {predictions[i * stride], labels[i * stride], weights ? weights[i] : 1};
        if (metrics->optional && isnan(s.label)) continue;
        RK_TRY(check_sample(metrics->binary, s, (long long)metrics->n_rows + i));
        if (grouped) metrics->groups[at] = groups[i];
        metrics->samples[at++] = s;
    }
    if (at > before && !groups) metrics->ungrouped = true;
    metrics->n = at;
    metrics->n_rows += (size_t)n;
    return RK_OK;
}

/* Sums over samples in the order of their predictions. */
typedef struct curve {
    double positives, negatives; /* weights below the present tie */
    double ordered;              /* weight of the pairs in the right order, ties by half */
    double tie_positives, tie_negatives;
} curve;

static void end_tie(curve *c) {
    c->ordered += c->tie_positives * (c->negatives + 0.5 * c->tie_negatives);
    c->positives += c->tie_positives;
    c->negatives += c->tie_negatives;
    c->tie_positives = c->tie_negatives = 0;
}

/* AUC of items[n], sorted by prediction. A label between 0 and 1 is partly a positive, partly a negative. NaN if either has no weight. */
static double auc_of(const rk_metrics *metrics, const rk_rank_item *items, size_t n) {
    curve c = {0};
    for (size_t i = 0; i < n; i++) {
        sample s = metrics->samples[items[i].index];
        if (i && s.prediction != metrics->samples[items[i - 1].index].prediction) end_tie(&c);
        c.tie_positives += (double)s.weight * s.label;
        c.tie_negatives += (double)s.weight * (1 - (double)s.label);
    }
    end_tie(&c);
    return c.positives > 0 && c.negatives > 0 ? c.ordered / (c.positives * c.negatives) : NAN;
}

/* items sorted by (group, prediction): the groups' AUCs, weighted by the groups' weights; groups of one class are left out. */
static double gauc_of(const rk_metrics *metrics, const rk_rank_item *items) {
    double sum = 0, weights = 0;
    for (size_t first = 0, last; first < metrics->n; first = last) {
        double weight = 0;
        int64_t group = metrics->groups[items[first].index];
        for (last = first; last < metrics->n && metrics->groups[items[last].index] == group; last++)
            weight += (double)metrics->samples[items[last].index].weight;
        double auc = auc_of(metrics, items + first, last - first);
        if (isnan(auc)) continue;
        sum += weight * auc;
        weights += weight;
    }
    return weights > 0 ? sum / weights : NAN;
}

static rk_status compute_ranks_here(const rk_metrics *metrics, bool grouped, double *values) {
    rk_rank_item *items;
    size_t n = metrics->n;
    RK_TRY(rk_alloc(2 * n, sizeof *items, &items)); /* the second half is scratch */
    for (size_t i = 0; i < n; i++) items[i] = (rk_rank_item){rk_rank_key(metrics->samples[i].prediction), (uint32_t)i};
    rk_rank_sort(items, items + n, n);
    values[RK_METRIC_auc] = auc_of(metrics, items, n);
    if (grouped) {
        /* The sort is stable: by the low half of the group, then by the high half. */
        for (int shift = 0; shift <= 32; shift += 32) {
            for (size_t i = 0; i < n; i++) items[i].key = (uint32_t)((uint64_t)metrics->groups[items[i].index] >> shift);
            rk_rank_sort(items, items + n, n);
        }
        values[RK_METRIC_gauc] = gauc_of(metrics, items);
    }
    rk_free(items);
    return RK_OK;
}

static rk_status compute_ranks(const rk_metrics *metrics, double *values) {
    bool grouped = metrics->n && !metrics->ungrouped; /* which needs the order, and so gives the AUC as well */
    if (!metrics->auc || !metrics->n || grouped) return compute_ranks_here(metrics, grouped, values);
    _Static_assert(sizeof *metrics->samples == 3 * sizeof(float), "samples are rows of three");
    rk_status status = metrics->auc(metrics->auc_context, (int64_t)metrics->n, &metrics->samples->prediction, &values[RK_METRIC_auc]);
    return status == RK_NO_MEMORY ? compute_ranks_here(metrics, grouped, values) : status;
}

static double cross_entropy(double label, double p) {
    double inside = fmin(fmax(p, 1e-15), 1 - 1e-15);
    return -(label * log(inside) + (1 - label) * log1p(-inside));
}

static void compute_binary(const rk_metrics *metrics, double *values) {
    double weights = 0, loss = 0, labels = 0, predictions = 0, right = 0;
    for (size_t i = 0; i < metrics->n; i++) {
        sample s = metrics->samples[i];
        weights += s.weight;
        loss += s.weight * cross_entropy(s.label, s.prediction);
        labels += (double)s.weight * s.label;
        predictions += (double)s.weight * s.prediction;
        if ((s.prediction >= 0.5f) == (s.label >= 0.5f)) right += s.weight;
    }
    if (weights <= 0) return;
    double rate = labels / weights;
    values[RK_METRIC_logloss] = loss / weights;
    values[RK_METRIC_accuracy] = right / weights;
    if (labels > 0) values[RK_METRIC_calibration] = predictions / labels;
    if (rate > 0 && rate < 1) values[RK_METRIC_normalized_entropy] = loss / weights / cross_entropy(rate, rate);
}

static void compute_regression(const rk_metrics *metrics, double *values) {
    double weights = 0, squares = 0, distances = 0;
    for (size_t i = 0; i < metrics->n; i++) {
        sample s = metrics->samples[i];
        double error = (double)s.prediction - s.label;
        weights += s.weight;
        squares += s.weight * error * error;
        distances += s.weight * fabs(error);
    }
    if (weights <= 0) return;
    values[RK_METRIC_rmse] = sqrt(squares / weights);
    values[RK_METRIC_mae] = distances / weights;
}

rk_status rk_metrics_compute(rk_metrics *metrics, double *values) {
    double found[RK_METRIC_COUNT];
    for (int i = 0; i < RK_METRIC_COUNT; i++) found[i] = NAN;
    if (metrics->binary) {
        RK_TRY(compute_ranks(metrics, found));
        compute_binary(metrics, found);
    } else {
        compute_regression(metrics, found);
    }
    memcpy(values, found, sizeof found);
    return RK_OK;
}
