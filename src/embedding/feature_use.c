#include "embedding/feature_use.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

/* Room for n elements; content need not be kept. */
static rk_status reserve(void *array, size_t *capacity, size_t n, size_t bytes) {
    if (n <= *capacity) return RK_OK;
    size_t wanted = n + n / 4;
    RK_TRY(rk_realloc(wanted, bytes, array));
    *capacity = wanted;
    return RK_OK;
}

void rk_feature_use_release(rk_feature_use *use) {
    rk_free(use->own_offsets);
    rk_free(use->own_ids);
    rk_free(use->own_coefficients);
    rk_free(use->own_scales);
    rk_free(use->lengths);
    *use = (rk_feature_use){0};
}

/* The offsets of a batch, made where the input is dense. */
static rk_status take_offsets(rk_feature_use *use, const rk_feature_config *feature, int64_t n, const rk_ids *ids) {
    if (ids->offsets) {
        bool ascending = ids->offsets[0] == 0;
        for (int64_t s = 0; s < n; s++) ascending &= ids->offsets[s] <= ids->offsets[s + 1];
        RK_FAIL_IF(!ascending, RK_INVALID_ARGUMENT, "feature '%s': offsets must begin at 0 and never fall", feature->name);
        use->offsets = ids->offsets;
    } else {
        RK_FAIL_IF(ids->ids_per_sample < 0, RK_INVALID_ARGUMENT, "feature '%s': %lld ids a sample", feature->name, (long long)ids->ids_per_sample);
        RK_TRY(reserve(&use->own_offsets, &use->offsets_capacity, (size_t)n + 1, sizeof *use->own_offsets));
        for (int64_t s = 0; s <= n; s++) use->own_offsets[s] = s * ids->ids_per_sample;
        use->offsets = use->own_offsets;
    }
    use->n_ids = use->offsets[n];
    RK_FAIL_IF(use->n_ids > INT32_MAX, RK_INVALID_ARGUMENT, "feature '%s': more than 2^31 ids in one batch", feature->name);
    return RK_OK;
}

static bool is_dropped(const rk_feature_config *feature, int64_t id, const float *weight) {
    if (feature->skip_validation) return false;
    return id < 0 || (weight && feature->combiner != RK_COMBINER_SUM && *weight <= 0);
}

/* The first id that is an error, told with its sample. */
static rk_status check_ids(const rk_feature_use *use, const rk_feature_config *feature, const rk_table *table, const rk_ids *ids, bool *drops) {
    int64_t n_rows = table->config.n_rows;
    bool wrong = false;
    *drops = false;
    for (int64_t i = 0; i < use->n_ids; i++) wrong |= (uint64_t)ids->ids[i] >= (uint64_t)n_rows;
    if (!wrong && !ids->weights) return RK_OK;
    for (int64_t s = 0; s < use->n; s++)
        for (int64_t i = use->offsets[s]; i < use->offsets[s + 1]; i++) {
            int64_t id = ids->ids[i];
            const float *weight = ids->weights ? &ids->weights[i] : NULL;
            RK_FAIL_IF(weight && !isfinite(*weight), RK_BAD_DATA, "feature '%s': sample %lld: the weight of id %lld is not a finite number", feature->name,
                       (long long)s, (long long)id);
            if (is_dropped(feature, id, weight)) {
                *drops = true;
                continue;
            }
            RK_FAIL_IF(id < 0, RK_BAD_DATA, "feature '%s': sample %lld: id %lld is negative", feature->name, (long long)s, (long long)id);
            if (id >= n_rows)
                return rk_error_hint(rk_error(RK_BAD_DATA, "feature '%s': sample %lld: id %lld is beyond the last row %lld of table '%s'", feature->name,
                                              (long long)s, (long long)id, (long long)n_rows - 1, table->config.name),
                                     "give the table more rows, or hash the feature");
            RK_FAIL_IF(weight && feature->skip_validation && feature->combiner != RK_COMBINER_SUM && *weight <= 0, RK_BAD_DATA,
                       "feature '%s': sample %lld: the weight %g of id %lld is not above 0", feature->name, (long long)s, (double)*weight, (long long)id);
        }
    return RK_OK;
}

/* Copies of offsets, ids (and weights into own_coefficients) without what validation drops. */
static rk_status drop_ids(rk_feature_use *use, const rk_feature_config *feature, const rk_ids *ids) {
    const int64_t *from = use->offsets;
    if (from != use->own_offsets) {
        RK_TRY(reserve(&use->own_offsets, &use->offsets_capacity, (size_t)use->n + 1, sizeof *use->own_offsets));
        memcpy(use->own_offsets, from, ((size_t)use->n + 1) * sizeof *from);
    }
    RK_TRY(reserve(&use->own_ids, &use->ids_capacity, (size_t)use->n_ids, sizeof *use->own_ids));
    int64_t kept = 0, begin = 0;
    for (int64_t s = 0; s < use->n; s++) {
        int64_t end = use->own_offsets[s + 1];
        for (int64_t i = begin; i < end; i++) {
            if (is_dropped(feature, ids->ids[i], ids->weights ? &ids->weights[i] : NULL)) continue;
            use->own_ids[kept] = ids->ids[i];
            if (ids->weights) use->own_coefficients[kept] = ids->weights[i];
            kept++;
        }
        begin = end;
        use->own_offsets[s + 1] = kept;
    }
    use->offsets = use->own_offsets;
    use->ids = use->own_ids;
    use->n_ids = kept;
    return RK_OK;
}

/* Positions become bags of one id each, or none. */
static rk_status cut_sequences(rk_feature_use *use, int32_t max_length) {
    int64_t n_bags = use->n * max_length;
    int64_t *offsets = NULL;
    RK_TRY(rk_alloc((size_t)n_bags + 1, sizeof *offsets, &offsets));
    rk_status status = use->ids == use->own_ids ? RK_OK : reserve(&use->own_ids, &use->ids_capacity, (size_t)use->n_ids, sizeof *use->own_ids);
    if (status == RK_OK) status = reserve(&use->lengths, &use->lengths_capacity, (size_t)use->n, sizeof *use->lengths);
    if (status != RK_OK) {
        rk_free(offsets);
        return status;
    }
    int64_t kept = 0;
    for (int64_t s = 0; s < use->n; s++) {
        int64_t begin = use->offsets[s], length = use->offsets[s + 1] - begin;
        if (length > max_length) length = max_length;
        memmove(use->own_ids + kept, use->ids + begin, (size_t)length * sizeof *use->ids);
        for (int32_t p = 0; p < max_length; p++) {
            kept += p < length;
            offsets[s * max_length + p + 1] = kept;
        }
        use->lengths[s] = (int32_t)length;
    }
    rk_free(use->own_offsets);
    use->own_offsets = offsets;
    use->offsets_capacity = (size_t)n_bags + 1;
    use->offsets = offsets;
    use->ids = use->own_ids;
    use->n_ids = kept;
    use->n_bags = n_bags;
    return RK_OK;
}

/* Weights to coefficients: w, w / sum w, w / sqrt(sum w^2); a zero denominator gives zeros. */
static void fold_weights(rk_feature_use *use, rk_combiner combiner) {
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

static rk_status count_scales(rk_feature_use *use, rk_combiner combiner) {
    bool several = false;
    for (int64_t b = 0; b < use->n_bags; b++) several |= use->offsets[b + 1] - use->offsets[b] > 1;
    if (!several) return RK_OK;
    RK_TRY(reserve(&use->own_scales, &use->scales_capacity, (size_t)use->n_bags, sizeof *use->own_scales));
    for (int64_t b = 0; b < use->n_bags; b++) {
        double count = (double)(use->offsets[b + 1] - use->offsets[b]);
        use->own_scales[b] = count > 0 ? (float)(1 / (combiner == RK_COMBINER_MEAN ? count : sqrt(count))) : 0.0f;
    }
    use->scales = use->own_scales;
    return RK_OK;
}

rk_status rk_feature_use_prepare(rk_feature_use *use, const rk_feature_config *feature, const rk_table *table, int64_t n, const rk_ids *ids) {
    use->n = use->n_bags = n;
    use->coefficients = use->scales = NULL;
    RK_FAIL_IF(ids->weights && feature->max_sequence_length, RK_INVALID_ARGUMENT, "feature '%s' is a sequence; it takes no weights", feature->name);
    RK_TRY(take_offsets(use, feature, n, ids));
    use->ids = ids->ids;
    bool drops;
    RK_TRY(check_ids(use, feature, table, ids, &drops));
    if (ids->weights) RK_TRY(reserve(&use->own_coefficients, &use->coefficients_capacity, (size_t)use->n_ids, sizeof *use->own_coefficients));
    if (drops)
        RK_TRY(drop_ids(use, feature, ids));
    else if (ids->weights)
        memcpy(use->own_coefficients, ids->weights, (size_t)use->n_ids * sizeof *ids->weights);
    if (feature->max_sequence_length) return cut_sequences(use, feature->max_sequence_length);
    if (ids->weights)
        fold_weights(use, feature->combiner);
    else if (feature->combiner != RK_COMBINER_SUM)
        return count_scales(use, feature->combiner);
    return RK_OK;
}
