/* Making, searching and describing an index. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"
#include "batch/ids.h"
#include "index/index_internal.h"
#include "index/id_set.h"

void rk_index_free(rk_index *x) {
    if (!x) return;
    rk_index_base_release(&x->base);
    RK_FREE_ALL(x->added, x->added_ids, x->removed, x);
}

/* Of squares: products of vectors that pass stay finite. */
rk_status rk_index_check_vectors(const float *vectors, int64_t n, int32_t dim, const char *what) {
    const double most = 1e38;
    for (int64_t i = 0; i < n; i++, vectors += dim) {
        double square = 0;
        for (int32_t d = 0; d < dim; d++) square += (double)vectors[d] * (double)vectors[d];
        RK_FAIL_IF(!(square <= most), RK_NOT_FINITE, "%s %lld is not finite, or longer than 1e19", what,
                   (long long)i);
    }
    return RK_OK;
}

static rk_status check_build_options(int64_t n, int32_t dim, const rk_index_options *o) {
    RK_FAIL_IF(n < 1 || n > UINT32_MAX, RK_INVALID_ARGUMENT,
               "an index of %lld vectors: it needs 1 to 2^32 - 1 of them", (long long)n);
    RK_FAIL_IF(dim < 1 || dim > RK_INDEX_MAX_DIM, RK_INVALID_ARGUMENT,
               "an index of vectors of %d numbers: they must have 1 to %d", dim, RK_INDEX_MAX_DIM);
    RK_FAIL_IF(o->kind != RK_INDEX_EXACT && o->kind != RK_INDEX_IVF, RK_INVALID_ARGUMENT,
               "%d is no kind of an index", (int)o->kind);
    RK_FAIL_IF(o->codes != RK_INDEX_INT8 && o->codes != RK_INDEX_F32, RK_INVALID_ARGUMENT,
               "%d are no codes of an index", (int)o->codes);
    RK_FAIL_IF(o->kind == RK_INDEX_IVF && o->codes == RK_INDEX_F32, RK_UNSUPPORTED,
               "an ivf index has int8 codes\nhint: its answers have the same bits as without codes");
    RK_FAIL_IF(o->n_lists < 0 || o->n_lists > n, RK_INVALID_ARGUMENT,
               "n_lists must be 1 to %lld, the number of vectors, not %lld", (long long)n,
               (long long)o->n_lists);
    RK_FAIL_IF(o->n_probe < 0, RK_INVALID_ARGUMENT, "n_probe must be 1 or more, not %lld",
               (long long)o->n_probe);
    return RK_OK;
}

static int64_t default_list_count(int64_t n) {
    int64_t n_lists = (int64_t)(2.5 * sqrt((double)n));
    return n_lists < n / 8 ? n_lists : n / 8 > 1 ? n / 8 : 1;
}

static rk_status lay_out_lists(rk_index *x, const rk_index_rows *rows, int64_t n_lists) {
    RK_AUTOFREE float *centroids = NULL;
    if (x->kind == RK_INDEX_IVF) {
        RK_TRY(rk_alloc((size_t)(n_lists * x->dim), sizeof *centroids, &centroids));
        RK_TRY(rk_index_train_centroids(rows, n_lists, x->seed, centroids));
        RK_TRY(rk_index_assign_to_lists(rows, 0, centroids, n_lists));
    }
    return rk_index_lay_out_lists(rows, centroids, n_lists, x->codes == RK_INDEX_INT8, &x->base);
}

static rk_status build_index(const float *vectors, const int64_t *ids, int64_t n, int32_t dim,
                             const rk_index_options *o, rk_index **out) {
    rk_index_rows rows = {0};
    rk_index *x = NULL;
    rk_status status;
    int64_t n_lists = o->kind == RK_INDEX_EXACT ? 1 : o->n_lists ? o->n_lists : default_list_count(n);
    RK_GOTO(rk_index_rows_create(n, dim, &rows));
    for (int64_t i = 0; i < n; i++) {
        rows.vectors[i] = (const rk_loose_f32 *)vectors + i * dim;
        rows.ids[i] = ids ? ids[i] : i;
    }
    RK_GOTO(rk_alloc(1, sizeof *x, &x));
    *x = (rk_index){.kind = o->kind,
                    .codes = o->codes,
                    .dim = dim,
                    .seed = o->seed,
                    .pool = o->pool,
                    .n_probe = o->n_probe         ? o->n_probe
                               : n_lists / 16 > 1 ? n_lists / 16
                                                  : 1};
    if (x->n_probe > n_lists) x->n_probe = n_lists;
    RK_GOTO(lay_out_lists(x, &rows, n_lists));
    *out = x;
    x = NULL;
done:
    rk_index_rows_release(&rows);
    rk_index_free(x);
    return status;
}

rk_status rk_index_build(const float *vectors, const int64_t *ids, int64_t n, int32_t dim,
                         const rk_index_options *options, rk_index **out) {
    rk_index_options o = RK_INDEX_OPTIONS_INIT;
    rk_id_set set = {0};
    rk_status status;
    RK_TRY(
        rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_index_options, pool), "rk_index_options"));
    RK_TRY(check_build_options(n, dim, &o));
    RK_TRY(rk_index_check_vectors(vectors, n, dim, "vector"));
    if (ids) {
        RK_TRY(rk_id_set_create(ids, n, &set));
        status = rk_id_set_check_unique(&set);
        rk_id_set_release(&set);
        RK_TRY(status);
    }
    RK_ON_POOL(o.pool, status = build_index(vectors, ids, n, dim, &o, out));
    return status;
}

static rk_status check_ids_ascending(const int64_t *ids, int64_t n, const char *what) {
    for (int64_t i = 1; i < n; i++)
        RK_FAIL_IF(ids[i] < ids[i - 1], RK_INVALID_ARGUMENT, "%s are not in ascending order at id %lld", what,
                   (long long)ids[i]);
    return RK_OK;
}

rk_status rk_index_check_excluded_ids(const rk_ids *excluded, int64_t n) {
    for (int64_t q = 0; q < n; q++) {
        int64_t first = rk_ids_begin_of_sample(excluded, q), end = rk_ids_begin_of_sample(excluded, q + 1);
        RK_FAIL_IF(first < 0 || end < first, RK_INVALID_ARGUMENT,
                   "the excluded ids of query %lld end before they begin", (long long)q);
        RK_TRY(check_ids_ascending(excluded->ids + first, end - first, "excluded ids"));
    }
    return RK_OK;
}

static rk_status check_search_options(const rk_index *x, const float *queries, int64_t n, int32_t k,
                                      const rk_index_search_options *o) {
    RK_FAIL_IF(n < 0, RK_INVALID_ARGUMENT, "a search for %lld queries", (long long)n);
    RK_FAIL_IF(k < 1, RK_INVALID_ARGUMENT, "k must be 1 or more, not %d", k);
    RK_FAIL_IF(o->ids && o->bits, RK_INVALID_ARGUMENT, "a search takes ids or bits, not both");
    RK_FAIL_IF(o->n_ids < 0 || o->n_bits < 0 || o->n_probe < 0, RK_INVALID_ARGUMENT,
               "n_ids, n_bits and n_probe of a search must be 0 or more");
    if (o->ids) RK_TRY(check_ids_ascending(o->ids, o->n_ids, "the ids of a search"));
    if (o->excluded) RK_TRY(rk_index_check_excluded_ids(o->excluded, n));
    return rk_index_check_vectors(queries, n, x->dim, "query");
}

static rk_status search_index(const rk_index *x, const float *queries, int64_t n, int32_t k,
                              const rk_index_search_options *o, int64_t *ids, float *scores) {
    RK_AUTOFREE int64_t *found = NULL;
    RK_AUTOFREE float *found_scores = NULL;
    size_t n_found = (size_t)n * (size_t)k;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_found, found), RK_ARRAY(n_found, found_scores)));
    RK_TRY(rk_index_search_all_queries(&(rk_index_search_call){
        .index = x, .options = o, .queries = queries, .n = n, .k = k, .ids = found, .scores = found_scores}));
    memcpy(ids, found, n_found * sizeof *found);
    if (scores) memcpy(scores, found_scores, n_found * sizeof *found_scores);
    return RK_OK;
}

rk_status rk_index_search(const rk_index *x, const float *queries, int64_t n, int32_t k,
                          const rk_index_search_options *options, int64_t *ids, float *scores) {
    rk_index_search_options o = RK_INDEX_SEARCH_OPTIONS_INIT;
    rk_status status;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_index_search_options, pool),
                              "rk_index_search_options"));
    RK_TRY(check_search_options(x, queries, n, k, &o));
    bool alone = o.pool ? false : rk_parallel_set_serial(true);
    RK_ON_POOL(o.pool, status = search_index(x, queries, n, k, &o, ids, scores));
    if (!o.pool) rk_parallel_set_serial(alone);
    return status;
}

rk_status rk_index_get_info(const rk_index *x, rk_index_info *out) {
    rk_index_info info = {.kind = x->kind,
                          .codes = x->codes,
                          .dim = x->dim,
                          .n = rk_index_count(x),
                          .n_lists = x->base.n_lists,
                          .n_probe = x->n_probe,
                          .n_added = x->n_added,
                          .n_removed = x->n_removed,
                          .asked_recall = x->asked_recall,
                          .recall = x->recall,
                          .tuned_k = x->tuned_k,
                          .tuned_queries = x->tuned_queries};
    return rk_options_copy_out(out, out->struct_size, &info, sizeof info,
                               RK_SIZE_WITH(rk_index_info, tuned_queries), "rk_index_info");
}
