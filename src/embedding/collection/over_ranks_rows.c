/* Rows of a collection over ranks, read and written by their numbers in whole tables. */
#include <string.h>

#include "base/memory.h"
#include "embedding/collection/over_ranks.h"

/* The rows first .. first+n-1 of a table that a shard has: *n_here of them from *first_here on, of which the
 * k-th is row *at + k * n_parts of those. */
static void rows_of_shard(const rk_table_shard *shard, int64_t first, int64_t n, int64_t *first_here,
                          int64_t *n_here, int64_t *at) {
    int64_t before = (first - shard->part + shard->n_parts - 1) / shard->n_parts,
            until = (first + n - shard->part + shard->n_parts - 1) / shard->n_parts;
    if (first <= shard->part) before = 0;
    if (first + n <= shard->part) until = 0;
    *first_here = before;
    *n_here = until - before;
    *at = before * shard->n_parts + shard->part - first;
}

static const char *stored_name(const rk_sharded *s, const rk_table_shard *shard) {
    return s->store->tables[shard->stored].config.name;
}

/* What this rank sends of the rows, or has of them itself. */
static rk_status pack_rows(const rk_sharded *s, int32_t t, int64_t first, int64_t n, float *to) {
    for (int32_t h = 0; h < s->n_shards; h++) {
        const rk_table_shard *shard = &s->shards[h];
        int64_t first_here, n_here, at;
        if (shard->table != t || shard->stored < 0) continue;
        rows_of_shard(shard, first, n, &first_here, &n_here, &at);
        RK_TRY(rk_embeddings_read_rows(s->store, stored_name(s, shard), first_here, n_here, to));
        to += n_here * shard->dim;
    }
    return RK_OK;
}

/* Rank r's, of n_values. */
static size_t count_values(const rk_sharded *s, int32_t t, int32_t r, int64_t first, int64_t n) {
    size_t n_values = 0;
    for (int32_t h = 0; h < s->n_shards; h++) {
        const rk_table_shard *shard = &s->shards[h];
        int64_t first_here, n_here, at;
        if (shard->table != t || (shard->owner >= 0 && shard->owner != r)) continue;
        rows_of_shard(shard, first, n, &first_here, &n_here, &at);
        n_values += (size_t)n_here * (size_t)shard->dim;
    }
    return n_values;
}

static void unpack_rows(const rk_sharded *s, int32_t t, int32_t r, int64_t first, int64_t n,
                        const float *from, float *out) {
    int32_t dim = s->trainer_tables->tables[t].config.dim;
    for (int32_t h = 0; h < s->n_shards; h++) {
        const rk_table_shard *shard = &s->shards[h];
        int64_t first_here, n_here, at;
        if (shard->table != t || (shard->owner >= 0 && shard->owner != r)) continue;
        rows_of_shard(shard, first, n, &first_here, &n_here, &at);
        for (int64_t k = 0; k < n_here; k++, from += shard->dim)
            memcpy(out + (at + k * shard->n_parts) * dim + shard->first_column, from,
                   (size_t)shard->dim * sizeof *from);
    }
}

rk_status rk_over_ranks_read_rows(const rk_embeddings *e, int32_t t, int64_t first, int64_t n, float *out) {
    const rk_sharded *s = rk_over_ranks_of(e);
    size_t n_values = count_values(s, t, s->rank, first, n);
    RK_AUTOFREE float *own = NULL;
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    rk_status status = rk_alloc(n_values, sizeof *own, &own);
    if (status == RK_OK) status = pack_rows(s, t, first, n, own);
    RK_TRY(rk_over_ranks_end(s, status));
    RK_TRY(rk_comm_gather(s->comm, RK_CHANNEL_VALUES, own, n_values * sizeof *own, &all_to_all));
    for (int32_t r = 0; r < s->size; r++) {
        const void *theirs;
        size_t n_bytes = count_values(s, t, r, first, n) * sizeof *own;
        RK_TRY(rk_all_to_all_take(all_to_all, r, n_bytes, &theirs));
        if (n_bytes) unpack_rows(s, t, r, first, n, theirs, out);
    }
    return RK_OK;
}

static rk_status write_shard(rk_sharded *s, const rk_table_shard *shard, int64_t first, int64_t n,
                             const float *rows) {
    int64_t first_here, n_here, at;
    int32_t dim = s->trainer_tables->tables[shard->table].config.dim;
    RK_AUTOFREE float *here = NULL;
    rows_of_shard(shard, first, n, &first_here, &n_here, &at);
    RK_TRY(rk_alloc((size_t)n_here * (size_t)shard->dim, sizeof *here, &here));
    for (int64_t k = 0; k < n_here; k++)
        memcpy(here + k * shard->dim, rows + (at + k * shard->n_parts) * dim + shard->first_column,
               (size_t)shard->dim * sizeof *here);
    return rk_embeddings_write_rows(s->store, stored_name(s, shard), first_here, n_here, here);
}

/* Each rank is given them all. */
rk_status rk_over_ranks_write_rows(rk_embeddings *e, int32_t t, int64_t first, int64_t n, const float *rows) {
    rk_sharded *s = rk_over_ranks_of(e);
    for (int32_t h = 0; h < s->n_shards; h++)
        if (s->shards[h].table == t && s->shards[h].stored >= 0)
            RK_TRY(rk_over_ranks_end(s, write_shard(s, &s->shards[h], first, n, rows)));
    return RK_OK;
}
