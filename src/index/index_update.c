/* Adding and removing: what is added is searched beside the lists until there is much of it, what is removed
 * is marked; then all that is there is laid out anew. */
#include <string.h>

#include "base/memory.h"
#include "base/integers.h"
#include "base/thread/parallel.h"
#include "index/id_set.h"
#include "index/index_internal.h"

enum { FEW = 4096, PART = 8 }; /* as many, or that part of the others, are searched beside the lists */

rk_status rk_index_make_compacted_base(const rk_index *x, rk_index_base *out) {
    rk_index_rows rows = {0};
    rk_status status;
    int64_t n = 0, n_listed, list = 0;
    RK_GOTO(rk_index_rows_create(rk_index_count(x), x->dim, &rows));
    for (int64_t p = 0; p < x->base.n; p++) {
        while (p >= x->base.offsets[list + 1]) list++;
        if (rk_index_is_removed(x, p)) continue;
        rows.vectors[n] = rk_index_vector(x, p);
        rows.ids[n] = rk_index_id(x, p);
        rows.lists[n++] = (uint32_t)list;
    }
    n_listed = n;
    for (int64_t p = x->base.n; p < x->base.n + x->n_added; p++) {
        if (rk_index_is_removed(x, p)) continue;
        rows.vectors[n] = rk_index_vector(x, p);
        rows.ids[n++] = rk_index_id(x, p);
    }
    if (x->base.centroids)
        RK_GOTO(rk_index_assign_to_lists(&rows, n_listed, x->base.centroids, x->base.n_lists));
    status =
        rk_index_lay_out_lists(&rows, x->base.centroids, x->base.n_lists, x->codes == RK_INDEX_INT8, out);
done:
    rk_index_rows_release(&rows);
    return status;
}

static rk_status compact_index(rk_index *x) {
    rk_index_base base;
    RK_TRY(rk_index_make_compacted_base(x, &base));
    rk_index_base_release(&x->base);
    x->base = base;
    x->n_added = x->n_removed = 0;
    if (x->removed) memset(x->removed, 0, x->removed_words * sizeof *x->removed);
    return RK_OK;
}

/* Of the set, those that are there: marked if `remove`, else that is an error. */
static rk_status find_or_remove_ids(rk_index *x, const rk_id_set *set, bool remove, int64_t *n_found) {
    for (int64_t p = 0; p < x->base.n + x->n_added; p++) {
        int64_t id = rk_index_id(x, p);
        if (!rk_sorted_contains(set->ids, set->n, id) || rk_index_is_removed(x, p)) continue;
        RK_FAIL_IF(!remove, RK_INVALID_ARGUMENT, "id %lld is in the index already", (long long)id);
        x->removed[p / 64] |= (uint64_t)1 << (p % 64);
        ++*n_found;
    }
    return RK_OK;
}

static rk_status append_vectors(rk_index *x, const float *vectors, const rk_id_set *set, const int64_t *ids,
                                int64_t n) {
    int64_t all = x->n_added + n, dim = x->dim;
    RK_TRY(rk_id_set_check_unique(set));
    RK_TRY(find_or_remove_ids(x, set, false, NULL));
    RK_TRY(rk_reserve(&x->added, &x->added_capacity, (size_t)(all * dim), sizeof *x->added));
    RK_TRY(rk_reserve(&x->added_ids, &x->added_ids_capacity, (size_t)all, sizeof *x->added_ids));
    memcpy(x->added + x->n_added * dim, vectors, (size_t)(n * dim) * sizeof *vectors);
    memcpy(x->added_ids + x->n_added, ids, (size_t)n * sizeof *ids);
    x->n_added = all;
    if (all <= FEW || all <= x->base.n / PART) return RK_OK;
    rk_status status = compact_index(x);
    if (status != RK_OK) x->n_added -= n;
    return status;
}

rk_status rk_index_add(rk_index *x, const float *vectors, const int64_t *ids, int64_t n) {
    rk_id_set set;
    rk_status status;
    RK_FAIL_IF(n < 0 || n > UINT32_MAX - x->base.n - x->n_added, RK_INVALID_ARGUMENT,
               "%lld vectors cannot be added: an index has fewer than 2^32", (long long)n);
    RK_TRY(rk_index_check_vectors(vectors, n, x->dim, "vector"));
    RK_TRY(rk_id_set_create(ids, n, &set));
    RK_ON_POOL(x->pool, status = append_vectors(x, vectors, &set, ids, n));
    rk_id_set_release(&set);
    return status;
}

/* A bit for each position that there is. */
static rk_status reserve_removed_bits(rk_index *x) {
    size_t words = (size_t)(x->base.n + x->n_added) / 64 + 1;
    if (words <= x->removed_words) return RK_OK;
    RK_TRY(rk_realloc(words, sizeof *x->removed, &x->removed));
    memset(x->removed + x->removed_words, 0, (words - x->removed_words) * sizeof *x->removed);
    x->removed_words = words;
    return RK_OK;
}

rk_status rk_index_remove(rk_index *x, const int64_t *ids, int64_t n, int64_t *n_removed) {
    rk_id_set set;
    int64_t n_found = 0;
    RK_FAIL_IF(n < 0, RK_INVALID_ARGUMENT, "%lld ids cannot be removed", (long long)n);
    RK_TRY(reserve_removed_bits(x));
    RK_TRY(rk_id_set_create(ids, n, &set));
    rk_status status = find_or_remove_ids(x, &set, true, &n_found);
    rk_id_set_release(&set);
    RK_TRY(status);
    x->n_removed += n_found;
    if (n_removed) *n_removed = n_found;
    return RK_OK;
}

rk_status rk_index_save(const rk_index *x, const char *path) {
    rk_index_base base;
    rk_status status;
    if (!x->n_added && !x->n_removed) return rk_index_file_write(x, &x->base, path);
    RK_ON_POOL(x->pool, status = rk_index_make_compacted_base(x, &base));
    RK_TRY(status);
    status = rk_index_file_write(x, &base, path);
    rk_index_base_release(&base);
    return status;
}
