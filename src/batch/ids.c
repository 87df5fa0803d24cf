#include "batch/ids.h"

#include <string.h>

#include "base/memory.h"

/* Offsets [n+1] that begin at `begin`. */
static void rebase_offsets(int64_t *to, const int64_t *from, int64_t n, int64_t begin) {
    int64_t shift = begin - from[0];
    for (int64_t i = 0; i <= n; i++) to[i] = from[i] + shift;
}

rk_ids rk_ids_slice(const rk_ids *ids, int64_t first, int64_t n, int64_t *offsets) {
    rk_ids out = *ids;
    if (first == 0) return out;
    int64_t begin = rk_ids_begin_of_sample(ids, first);
    if (out.ids) out.ids += begin;
    if (out.weights) out.weights += begin;
    if (!out.offsets) return out;
    rebase_offsets(offsets, ids->offsets + first, n, 0);
    out.offsets = offsets;
    return out;
}

rk_batch rk_batch_slice(const rk_batch *batch, int64_t first, int64_t n) {
    rk_batch out = *batch;
    out.n = n;
    out.features = NULL;
    out.first_row += first;
    if (out.dense) out.dense += first * out.n_dense;
    if (out.labels) out.labels += first * out.n_tasks;
    if (out.sample_weights) out.sample_weights += first;
    if (out.groups) out.groups += first;
    return out;
}

void rk_id_list_release(rk_id_list *list) {
    RK_FREE_ALL(list->offsets, list->ids, list->weights);
    *list = (rk_id_list){0};
}

rk_ids rk_id_list_view(const rk_id_list *list) {
    bool alike = list->ids_per_sample >= 0;
    return (rk_ids){.offsets = alike ? NULL : list->offsets,
                    .ids_per_sample = alike ? list->ids_per_sample : 0,
                    .ids = list->ids,
                    .weights = list->weights};
}

/* Where all ids of the samples so far end. */
static int64_t end_of_ids_in_samples(const rk_id_list *list) {
    return list->ids_per_sample >= 0 ? list->n * list->ids_per_sample : list->offsets[list->n];
}

void rk_id_list_truncate(rk_id_list *list, int64_t n) {
    if (list->n > n) list->n = n;
    if (list->n == 0) list->ids_per_sample = 0;
    list->n_ids = (size_t)end_of_ids_in_samples(list);
}

rk_status rk_id_list_reserve(rk_id_list *list, size_t n, bool weighted) {
    size_t wanted = list->n_ids + n;
    if (wanted == 0) wanted = 1; /* empty is not absent */
    RK_TRY(rk_reserve(&list->ids, &list->ids_capacity, wanted, sizeof *list->ids));
    return weighted ? rk_reserve(&list->weights, &list->weights_capacity, wanted, sizeof *list->weights)
                    : RK_OK;
}

/* Offsets of the samples so far, and room for those of n more. */
static rk_status reserve_offsets(rk_id_list *list, int64_t n) {
    RK_TRY(rk_reserve(&list->offsets, &list->offsets_capacity, (size_t)(list->n + n) + 1,
                      sizeof *list->offsets));
    for (int64_t i = 0; list->ids_per_sample >= 0 && i <= list->n; i++)
        list->offsets[i] = i * list->ids_per_sample;
    list->ids_per_sample = -1;
    return RK_OK;
}

rk_status rk_id_list_end_uniform_samples(rk_id_list *list, int64_t n, int64_t k) {
    if (list->n == 0) list->ids_per_sample = k;
    if (list->ids_per_sample != k) {
        RK_TRY(reserve_offsets(list, n));
        for (int64_t i = list->n; i < list->n + n; i++) list->offsets[i + 1] = list->offsets[i] + k;
    }
    list->n += n;
    return RK_OK;
}

rk_status rk_id_list_end_ragged_samples(rk_id_list *list, int64_t n, const int64_t *offsets) {
    if (list->n == 0) list->ids_per_sample = 0;
    RK_TRY(reserve_offsets(list, n));
    rebase_offsets(list->offsets + list->n, offsets, n, list->offsets[list->n]);
    list->n += n;
    return RK_OK;
}

rk_status rk_id_list_end_sample(rk_id_list *list) {
    return rk_id_list_end_uniform_samples(list, 1,
                                          (int64_t)list->n_ids - (list->n ? end_of_ids_in_samples(list) : 0));
}

/* Behind the list's ids, for which there is room. */
static void copy_ids(rk_id_list *list, const rk_ids *from, int64_t begin, int64_t n) {
    if (n) memcpy(list->ids + list->n_ids, from->ids + begin, (size_t)n * sizeof *list->ids);
    if (n && from->weights)
        memcpy(list->weights + list->n_ids, from->weights + begin, (size_t)n * sizeof *list->weights);
    list->n_ids += (size_t)n;
}

rk_status rk_id_list_append(rk_id_list *list, const rk_ids *from, int64_t first, int64_t n) {
    int64_t begin = rk_ids_begin_of_sample(from, first),
            n_ids = rk_ids_begin_of_sample(from, first + n) - begin;
    RK_TRY(rk_id_list_reserve(list, (size_t)n_ids, from->weights));
    copy_ids(list, from, begin, n_ids);
    return from->offsets ? rk_id_list_end_ragged_samples(list, n, from->offsets + first)
                         : rk_id_list_end_uniform_samples(list, n, from->ids_per_sample);
}

rk_status rk_id_list_repeat(rk_id_list *list, int64_t n) {
    const rk_ids last = rk_id_list_view(list);
    int64_t begin = rk_ids_begin_of_sample(&last, list->n - 1), each = (int64_t)list->n_ids - begin;
    RK_FAIL_IF(each > 0 && n > INT64_MAX / 8 / each, RK_UNSUPPORTED, "%lld ids in each of %lld samples",
               (long long)each, (long long)n);
    RK_TRY(rk_id_list_reserve(list, (size_t)(n * each), list->weights));
    const rk_ids from = rk_id_list_view(list); /* where it is now */
    for (int64_t i = 0; i < n && each; i++) copy_ids(list, &from, begin, each);
    return rk_id_list_end_uniform_samples(list, n, each);
}

static rk_status gather_ragged(rk_id_list *list, const rk_ids *from, const uint32_t *order, int64_t n) {
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total += rk_ids_begin_of_sample(from, order[i] + (int64_t)1) - rk_ids_begin_of_sample(from, order[i]);
    RK_TRY(rk_id_list_reserve(list, (size_t)total, from->weights));
    for (int64_t i = 0; i < n; i++) {
        int64_t begin = rk_ids_begin_of_sample(from, order[i]),
                n_ids = rk_ids_begin_of_sample(from, order[i] + (int64_t)1) - begin;
        for (int64_t k = 0; k < n_ids; k++) list->ids[list->n_ids + (size_t)k] = from->ids[begin + k];
        for (int64_t k = 0; from->weights && k < n_ids; k++)
            list->weights[list->n_ids + (size_t)k] = from->weights[begin + k];
        list->n_ids += (size_t)n_ids;
        RK_TRY(rk_id_list_end_uniform_samples(list, 1, n_ids));
    }
    return RK_OK;
}

rk_status rk_id_list_gather(rk_id_list *list, const rk_ids *from, const uint32_t *order, int64_t n) {
    if (from->offsets || from->weights) return gather_ragged(list, from, order, n);
    int64_t k = from->ids_per_sample;
    RK_TRY(rk_id_list_reserve(list, (size_t)(n * k), false));
    int64_t *to = list->ids + list->n_ids;
    for (int64_t i = 0; k == 1 && i < n; i++) to[i] = from->ids[order[i]];
    for (int64_t i = 0; k > 1 && i < n; i++)
        for (int64_t j = 0; j < k; j++) to[i * k + j] = from->ids[order[i] * k + j];
    list->n_ids += (size_t)(n * k);
    return rk_id_list_end_uniform_samples(list, n, k);
}

rk_status rk_id_list_slice(rk_id_list *list, const rk_ids *from, int64_t first, int64_t n, rk_ids *out) {
    if (first && from->offsets) {
        rk_id_list_truncate(list, 0);
        RK_TRY(reserve_offsets(list, n));
    }
    *out = rk_ids_slice(from, first, n, list->offsets);
    return RK_OK;
}
