#include "embedding/local/feature_bags.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

void rk_feature_bags_release(rk_feature_bags *use) {
    RK_FREE_ALL(use->own_offsets, use->own_positions, use->own_ids, use->own_coefficients, use->own_scales,
                use->lengths, use->rows);
    *use = (rk_feature_bags){0};
}

/* Offsets are made where the input is dense. */
rk_status rk_feature_bags_set_ids(rk_feature_bags *use, const rk_feature_config *feature, int64_t n,
                                  const rk_ids *ids) {
    use->n = use->n_bags = n;
    use->n_ids = 0;
    use->ids = ids->ids;
    use->coefficients = use->scales = NULL;
    atomic_store_explicit(&use->strays, false, memory_order_relaxed);
    RK_FAIL_IF(ids->weights && feature->max_sequence_length, RK_INVALID_ARGUMENT,
               "feature '%s' is a sequence and cannot have weights", feature->name);
    if (ids->offsets) {
        bool ascending = ids->offsets[0] == 0;
        for (int64_t s = 0; s < n; s++) ascending &= ids->offsets[s] <= ids->offsets[s + 1];
        RK_FAIL_IF(!ascending, RK_INVALID_ARGUMENT,
                   "feature '%s': offsets must start at 0 and must not decrease", feature->name);
        RK_FAIL_IF(ids->offsets[n] > INT32_MAX, RK_INVALID_ARGUMENT,
                   "feature '%s': 2^31 ids or more in one batch", feature->name);
        use->offsets = ids->offsets;
    } else {
        int64_t k = ids->ids_per_sample;
        RK_FAIL_IF(k < 0, RK_INVALID_ARGUMENT, "feature '%s': ids_per_sample must be 0 or more, not %lld",
                   feature->name, (long long)k);
        RK_FAIL_IF(n > 0 && k > INT32_MAX / n, RK_INVALID_ARGUMENT,
                   "feature '%s': 2^31 ids or more in one batch", feature->name);
        RK_TRY(
            rk_reserve(&use->own_offsets, &use->offsets_capacity, (size_t)n + 1, sizeof *use->own_offsets));
        bool filled = use->filled_step == k && use->n_filled > n;
        for (int64_t s = 0; s <= n && !filled; s++) use->own_offsets[s] = s * k;
        if (!filled) use->n_filled = n + 1;
        use->filled_step = k;
        use->offsets = use->own_offsets;
    }
    RK_FAIL_IF(use->offsets[n] > 0 && !ids->ids, RK_INVALID_ARGUMENT, "feature '%s' has no ids",
               feature->name);
    use->n_ids = use->offsets[n];
    return RK_OK;
}

void rk_feature_bags_scan_ids(rk_feature_bags *use, const rk_table *table, int64_t first, int64_t last) {
    bool strays;
    rk_ids_check(use->ids + first, last - first, table->config.n_rows, &strays);
    if (strays) atomic_store_explicit(&use->strays, true, memory_order_relaxed);
}

/* All keys of a dynamic table are legal. */
static bool is_negative_id(const rk_table *table, int64_t id) {
    return id < 0 && !rk_table_is_dynamic(table);
}

static bool is_id_dropped(const rk_feature_config *feature, const rk_table *table, int64_t id,
                          const float *weight) {
    if (feature->skip_validation) return false;
    return is_negative_id(table, id) || (weight && feature->combiner != RK_COMBINER_SUM && *weight <= 0);
}

rk_status rk_feature_bags_check_id(const rk_feature_config *feature, const rk_table *table, int64_t sample,
                                   int64_t id, const float *weight, bool *drops) {
    long long s = sample, last = table->config.n_rows - 1;
    RK_FAIL_IF(weight && !isfinite(*weight), RK_BAD_DATA,
               "feature '%s': sample %lld: the weight of id %lld is not a finite number", feature->name, s,
               (long long)id);
    if (is_id_dropped(feature, table, id, weight)) {
        *drops = true;
        return RK_OK;
    }
    if (is_negative_id(table, id))
        return rk_error_hint(rk_error(RK_BAD_DATA, "feature '%s': sample %lld: id %lld is negative",
                                      feature->name, s, (long long)id),
                             "to drop negative ids instead, turn validation on");
    if (id > last && !rk_table_is_dynamic(table))
        return rk_error_hint(
            rk_error(RK_BAD_DATA,
                     "feature '%s': sample %lld: id %lld is beyond the last row %lld of table '%s'",
                     feature->name, s, (long long)id, last, table->config.name),
            "give the table more rows, or hash the feature");
    if (weight && feature->combiner != RK_COMBINER_SUM && *weight <= 0)
        return rk_error_hint(
            rk_error(RK_BAD_DATA, "feature '%s': sample %lld: the weight %g of id %lld is not above 0",
                     feature->name, s, (double)*weight, (long long)id),
            "to drop such ids instead, turn validation on");
    return RK_OK;
}

rk_status rk_feature_bags_check_ids(const rk_feature_bags *use, const rk_feature_config *feature,
                                    const rk_table *table, const rk_ids *ids, bool *drops) {
    *drops = false;
    if (!ids->weights && !atomic_load_explicit(&use->strays, memory_order_relaxed)) return RK_OK;
    for (int64_t s = 0; s < use->n; s++)
        for (int64_t i = use->offsets[s]; i < use->offsets[s + 1]; i++)
            RK_TRY(rk_feature_bags_check_id(feature, table, s, ids->ids[i],
                                            ids->weights ? &ids->weights[i] : NULL, drops));
    return RK_OK;
}

/* Copies of offsets, ids (and weights into own_coefficients) without what validation drops. */
static rk_status drop_invalid_ids(rk_feature_bags *use, const rk_feature_config *feature,
                                  const rk_table *table, const rk_ids *ids) {
    RK_TRY(
        rk_reserve(&use->own_offsets, &use->offsets_capacity, (size_t)use->n + 1, sizeof *use->own_offsets));
    RK_TRY(rk_reserve(&use->own_ids, &use->ids_capacity, (size_t)use->n_ids, sizeof *use->own_ids));
    int64_t kept = 0, begin = 0;
    for (int64_t s = 0; s < use->n; s++) {
        int64_t end = use->offsets[s + 1]; /* read before own_offsets, which may be the same, is written */
        for (int64_t i = begin; i < end; i++) {
            if (is_id_dropped(feature, table, ids->ids[i], ids->weights ? &ids->weights[i] : NULL)) continue;
            use->own_ids[kept] = ids->ids[i];
            if (ids->weights) use->own_coefficients[kept] = ids->weights[i];
            kept++;
        }
        begin = end;
        use->own_offsets[s + 1] = kept;
    }
    use->own_offsets[0] = 0;
    use->n_filled = 0;
    use->offsets = use->own_offsets;
    use->ids = use->own_ids;
    use->n_ids = kept;
    return RK_OK;
}

/* Positions become bags of one id each, or none. Ids are copied only where one is cut off. */
static rk_status truncate_sequences(rk_feature_bags *use, int32_t max_length) {
    int64_t n_bags = use->n * max_length, kept = 0;
    RK_TRY(rk_reserve(&use->own_positions, &use->positions_capacity, (size_t)n_bags + 1,
                      sizeof *use->own_positions));
    RK_TRY(rk_reserve(&use->lengths, &use->lengths_capacity, (size_t)use->n, sizeof *use->lengths));
    bool cuts = false;
    for (int64_t s = 0; s < use->n; s++) cuts |= use->offsets[s + 1] - use->offsets[s] > max_length;
    if (cuts) RK_TRY(rk_reserve(&use->own_ids, &use->ids_capacity, (size_t)use->n_ids, sizeof *use->own_ids));
    use->own_positions[0] = 0;
    for (int64_t s = 0; s < use->n; s++) {
        int64_t begin = use->offsets[s], length = use->offsets[s + 1] - begin;
        if (length > max_length) length = max_length;
        if (cuts) memmove(use->own_ids + kept, use->ids + begin, (size_t)length * sizeof *use->ids);
        for (int32_t p = 0; p < max_length; p++) {
            kept += p < length;
            use->own_positions[s * max_length + p + 1] = kept;
        }
        use->lengths[s] = (int32_t)length;
    }
    if (cuts) use->ids = use->own_ids;
    use->offsets = use->own_positions;
    use->n_ids = kept;
    use->n_bags = n_bags;
    return RK_OK;
}

/* Weights to coefficients: w, w / sum w, w / sqrt(sum w^2); a zero denominator gives zeros. */
static void weights_to_coefficients(rk_feature_bags *use, rk_combiner combiner) {
    for (int64_t b = 0; b < use->n_bags && combiner != RK_COMBINER_SUM; b++) {
        double below = 0;
        for (int64_t i = use->offsets[b]; i < use->offsets[b + 1]; i++) {
            double w = use->own_coefficients[i];
            below += combiner == RK_COMBINER_MEAN ? w : w * w;
        }
        if (combiner == RK_COMBINER_SQRTN) below = sqrt(below);
        for (int64_t i = use->offsets[b]; i < use->offsets[b + 1]; i++)
            use->own_coefficients[i] = below != 0 ? (float)(use->own_coefficients[i] / below) : 0.0f;
    }
    use->coefficients = use->own_coefficients;
}

/* Without weights the denominator is one number a bag, and none at all where no bag has two ids. */
static rk_status compute_bag_scales(rk_feature_bags *use, rk_combiner combiner) {
    bool several = false;
    for (int64_t b = 0; b < use->n_bags; b++) several |= use->offsets[b + 1] - use->offsets[b] > 1;
    if (!several) return RK_OK;
    RK_TRY(rk_reserve(&use->own_scales, &use->scales_capacity, (size_t)use->n_bags, sizeof *use->own_scales));
    for (int64_t b = 0; b < use->n_bags; b++) {
        double count = (double)(use->offsets[b + 1] - use->offsets[b]);
        use->own_scales[b] =
            count > 0 ? (float)(1 / (combiner == RK_COMBINER_MEAN ? count : sqrt(count))) : 0.0f;
    }
    use->scales = use->own_scales;
    return RK_OK;
}

static bool has_one_id_per_bag(const rk_feature_bags *use) {
    bool single = !use->coefficients && use->n_ids == use->n_bags;
    if (use->offsets == use->own_offsets && use->n_filled && use->filled_step == 1)
        return single; /* dense input of one id a sample */
    for (int64_t b = 0; single && b < use->n_bags; b++) single = use->offsets[b + 1] == b + 1;
    return single;
}

rk_status rk_feature_bags_prepare(rk_feature_bags *use, const rk_feature_config *feature,
                                  const rk_table *table, const rk_ids *ids) {
    bool drops;
    RK_TRY(rk_feature_bags_check_ids(use, feature, table, ids, &drops));
    if (ids->weights)
        RK_TRY(rk_reserve(&use->own_coefficients, &use->coefficients_capacity, (size_t)use->n_ids,
                          sizeof *use->own_coefficients));
    if (drops)
        RK_TRY(drop_invalid_ids(use, feature, table, ids));
    else if (ids->weights && use->n_ids)
        memcpy(use->own_coefficients, ids->weights, (size_t)use->n_ids * sizeof *ids->weights);
    if (feature->max_sequence_length)
        RK_TRY(truncate_sequences(use, feature->max_sequence_length));
    else if (ids->weights)
        weights_to_coefficients(use, feature->combiner);
    else if (feature->combiner != RK_COMBINER_SUM)
        RK_TRY(compute_bag_scales(use, feature->combiner));
    use->single = has_one_id_per_bag(use);
    return RK_OK;
}
