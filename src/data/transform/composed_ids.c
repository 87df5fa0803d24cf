/* Several ids of each value, for fewer rows: by hash functions of the feature's own into a table that
 * features may share (Unified Embedding: Coleman et al. 2023), or by quotient and remainder (Shi et al.
 * 2019). */
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "data/transform/transforms_internal.h"

int64_t rk_first_remainder_id(const rk_data_feature *f, int64_t n) {
    return n / f->quotient_remainder + (n % f->quotient_remainder != 0);
}

int64_t rk_count_composed_rows(const rk_data_feature *f, int64_t n) {
    return f->hash_functions ? f->hash : rk_first_remainder_id(f, n) + f->quotient_remainder;
}

int64_t rk_quotient_remainder_id(const rk_data_feature *f, int64_t n, const int64_t *ids) {
    return ids[0] * f->quotient_remainder + ids[1] - rk_first_remainder_id(f, n);
}

void rk_hash_function_seeds(const rk_data_feature *f, uint64_t *seeds) {
    uint64_t name = rk_hash_bytes(f->name, strlen(f->name), (uint64_t)f->hash_seed);
    for (int64_t j = 0; j < f->hash_functions; j++) seeds[j] = rk_hash_combine(name, (uint64_t)j);
}

/* The whole id is the value's hash, which each function mixes with its seed. */
static void hash_ids_by_each_function(const rk_data_feature *f, const rk_id_list *whole, int64_t *to) {
    uint64_t seeds[RK_MAX_HASH_FUNCTIONS];
    int64_t n_parts = f->hash_functions;
    rk_hash_function_seeds(f, seeds);
    for (size_t i = 0; i < whole->n_ids; i++)
        for (int64_t j = 0; j < n_parts; j++)
            *to++ = (int64_t)rk_hash_bucket(rk_hash_combine((uint64_t)whole->ids[i], seeds[j]),
                                            (uint64_t)f->hash);
}

/* Rows of remainders stand behind those of quotients. */
static void split_ids_by_quotient_remainder(const rk_data_feature *f, int64_t n, const rk_id_list *whole,
                                            int64_t *to) {
    int64_t divisor = f->quotient_remainder, first_remainder = rk_first_remainder_id(f, n);
    for (size_t i = 0; i < whole->n_ids; i++) {
        *to++ = whole->ids[i] / divisor;
        *to++ = first_remainder + whole->ids[i] % divisor;
    }
}

static rk_status check_single_valued(const rk_data_feature *f, const rk_id_list *whole) {
    const rk_ids ids = rk_id_list_view(whole);
    for (int64_t i = 0; i < whole->n; i++) {
        int64_t n = rk_ids_begin_of_sample(&ids, i + 1) - rk_ids_begin_of_sample(&ids, i);
        if (n > 1)
            return rk_error_hint(
                rk_error(RK_BAD_DATA, "feature '%s': %lld values in one row, whose rows are not pooled",
                         f->name, (long long)n),
                "use compose: pool");
    }
    return RK_OK;
}

/* As many samples as `whole` has, each with n_parts times its ids. */
static rk_status end_composed_samples(const rk_id_list *whole, int64_t n_parts, rk_id_list *out) {
    if (whole->ids_per_sample >= 0)
        return rk_id_list_end_uniform_samples(out, whole->n, n_parts * whole->ids_per_sample);
    for (int64_t i = 0; i < whole->n; i++)
        RK_TRY(rk_id_list_end_uniform_samples(out, 1, n_parts * (whole->offsets[i + 1] - whole->offsets[i])));
    return RK_OK;
}

rk_status rk_compose_ids(const rk_data_feature *f, int64_t n, const rk_id_list *whole, rk_id_list *out) {
    size_t n_parts = (size_t)rk_feature_n_parts(f);
    if (f->compose != RK_COMPOSE_POOL) RK_TRY(check_single_valued(f, whole));
    RK_TRY(rk_id_list_reserve(out, n_parts * whole->n_ids, f->weights != NULL));
    if (f->hash_functions)
        hash_ids_by_each_function(f, whole, out->ids + out->n_ids);
    else
        split_ids_by_quotient_remainder(f, n, whole, out->ids + out->n_ids);
    for (size_t i = 0; f->weights && i < n_parts * whole->n_ids; i++)
        out->weights[out->n_ids + i] = whole->weights[i / n_parts];
    out->n_ids += n_parts * whole->n_ids;
    return end_composed_samples(whole, (int64_t)n_parts, out);
}
