#include "embedding/planner/table_statistics.h"

#include <math.h>
#include <string.h>

/* Ranks are summed one by one up to here, and beyond it as an integral over the logarithm of the rank. */
enum { HEAD = 256, STEPS = 512 };

static double integral_of_power(double from, double to, double exponent) {
    return exponent == 1 ? log(to / from)
                         : (pow(to, 1 - exponent) - pow(from, 1 - exponent)) / (1 - exponent);
}

double rk_zipf_expected_distinct(int64_t n_rows, double exponent, double n_ids) {
    int64_t head = n_rows < HEAD ? n_rows : HEAD;
    double total = 0, distinct = 0, from = (double)head + 0.5, to = (double)n_rows + 0.5;
    for (int64_t k = 1; k <= head; k++) total += pow((double)k, -exponent);
    if (n_rows > head) total += integral_of_power(from, to, exponent);
    for (int64_t k = 1; k <= head; k++) distinct += -expm1(-n_ids * pow((double)k, -exponent) / total);
    double width = log(to / from) / STEPS;
    for (int i = 0; n_rows > head && i < STEPS; i++) {
        double k = from * exp(width * (i + 0.5));
        distinct += -expm1(-n_ids * pow(k, -exponent) / total) * k * width;
    }
    return fmin(distinct, fmin((double)n_rows, n_ids));
}

rk_table_statistics rk_table_statistics_assume(int64_t n_rows, double ids, int64_t batch_size,
                                               int32_t n_trainers) {
    double n = ids * (double)batch_size;
    return (rk_table_statistics){
        .ids = ids,
        .batch_rows = rk_zipf_expected_distinct(n_rows, RK_ASSUMED_EXPONENT, n),
        .local_rows = rk_zipf_expected_distinct(n_rows, RK_ASSUMED_EXPONENT, n / n_trainers)};
}

double rk_assumed_ids_per_sample(const char *table, const rk_feature_config *features, int32_t n_features) {
    double ids = 0;
    for (int32_t f = 0; f < n_features; f++)
        if (strcmp(features[f].table, table) == 0)
            ids += features[f].max_sequence_length ? features[f].max_sequence_length : 1;
    return ids;
}
