/* Rows of a collection over ranks and their optimizers' slots, read and written by their numbers in whole
 * tables. */
#include <string.h>

#include "base/memory.h"
#include "embedding/collection/sharded_embeddings.h"

/* What a shard has of a range of its table: *n_here of its rows from *first_here on, of which the k-th is the
 * range's row *at + k * n_parts. */
static void intersect_range_with_shard(const rk_table_shard *shard, const rk_row_range *range,
                                       int64_t *first_here, int64_t *n_here, int64_t *at) {
    int64_t first = range->first, n = range->n,
            before = (first - shard->part + shard->n_parts - 1) / shard->n_parts,
            until = (first + n - shard->part + shard->n_parts - 1) / shard->n_parts;
    if (first <= shard->part) before = 0;
    if (first + n <= shard->part) until = 0;
    *first_here = before;
    *n_here = until - before;
    *at = before * shard->n_parts + shard->part - first;
}

/* Of a row's values: those of the shard's columns, or the one of a slot that has one a row. */
static int32_t values_per_row(const rk_sharded *s, const rk_table_shard *shard, const rk_row_range *range) {
    return range->width == s->trainer_tables->tables[range->table].config.dim ? shard->dim : range->width;
}

static rk_row_range local_range_of_shard(const rk_sharded *s, const rk_table_shard *shard,
                                         const rk_row_range *range, int64_t *at) {
    rk_row_range own = {
        .table = shard->stored, .slot = range->slot, .width = values_per_row(s, shard, range)};
    intersect_range_with_shard(shard, range, &own.first, &own.n, at);
    return own;
}

/* What this rank sends of the rows, or has of them itself. */
static rk_status pack_rows(const rk_sharded *s, const rk_row_range *range, float *to) {
    for (int32_t h = 0; h < s->n_shards; h++) {
        const rk_table_shard *shard = &s->shards[h];
        int64_t at;
        if (shard->table != range->table || shard->stored < 0) continue;
        rk_row_range own = local_range_of_shard(s, shard, range, &at);
        RK_TRY(s->store->ops->read_rows(s->store, &own, to));
        to += own.n * own.width;
    }
    return RK_OK;
}

static bool rank_has_shard_of_range(const rk_table_shard *shard, const rk_row_range *range, int32_t rank) {
    return shard->table == range->table && (shard->owner < 0 || shard->owner == rank);
}

/* Rank r's, of n_values. */
static size_t count_values_of_rank(const rk_sharded *s, const rk_row_range *range, int32_t r) {
    size_t n_values = 0;
    for (int32_t h = 0; h < s->n_shards; h++) {
        int64_t at;
        if (!rank_has_shard_of_range(&s->shards[h], range, r)) continue;
        rk_row_range theirs = local_range_of_shard(s, &s->shards[h], range, &at);
        n_values += (size_t)theirs.n * (size_t)theirs.width;
    }
    return n_values;
}

/* Where the k-th row of a shard stands among the values of the range. */
static int64_t value_offset(const rk_table_shard *shard, const rk_row_range *range, int32_t width, int64_t at,
                            int64_t k) {
    return (at + k * shard->n_parts) * range->width + (width < range->width ? shard->first_column : 0);
}

static void unpack_rows(const rk_sharded *s, const rk_row_range *range, int32_t r, const float *from,
                        float *out) {
    for (int32_t h = 0; h < s->n_shards; h++) {
        const rk_table_shard *shard = &s->shards[h];
        int64_t at;
        if (!rank_has_shard_of_range(shard, range, r)) continue;
        rk_row_range theirs = local_range_of_shard(s, shard, range, &at);
        for (int64_t k = 0; k < theirs.n; k++, from += theirs.width)
            memcpy(out + value_offset(shard, range, theirs.width, at, k), from,
                   (size_t)theirs.width * sizeof *from);
    }
}

rk_status rk_sharded_embeddings_read_rows(const rk_embeddings *e, const rk_row_range *range, float *out) {
    const rk_sharded *s = rk_sharded_embeddings_store(e);
    size_t n_values = count_values_of_rank(s, range, s->rank);
    RK_AUTOFREE float *own = NULL;
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    rk_status status = rk_alloc(n_values, sizeof *own, &own);
    if (status == RK_OK) status = pack_rows(s, range, own);
    RK_TRY(rk_comm_agree_on_status(s->comm, status));
    RK_TRY(rk_comm_all_gather(s->comm, RK_CHANNEL_VALUES, own, n_values * sizeof *own, &all_to_all));
    for (int32_t r = 0; r < s->size; r++) {
        const void *theirs;
        size_t n_bytes = count_values_of_rank(s, range, r) * sizeof *own;
        RK_TRY(rk_all_to_all_get_message(all_to_all, r, n_bytes, &theirs));
        if (n_bytes) unpack_rows(s, range, r, theirs, out);
    }
    return RK_OK;
}

/* A row at a time, as it stands among the given ones: what needs no memory cannot fail on one rank alone. */
static rk_status write_rows_of_shard(rk_sharded *s, const rk_table_shard *shard, const rk_row_range *range,
                                     const float *rows) {
    int64_t at;
    const rk_row_range own = local_range_of_shard(s, shard, range, &at);
    for (int64_t k = 0; k < own.n; k++) {
        rk_row_range row = own;
        row.first += k;
        row.n = 1;
        RK_TRY(
            s->store->ops->write_rows(s->store, &row, rows + value_offset(shard, range, own.width, at, k)));
    }
    return RK_OK;
}

/* Each rank is given them all. */
rk_status rk_sharded_embeddings_write_rows(rk_embeddings *e, const rk_row_range *range, const float *rows) {
    rk_sharded *s = rk_sharded_embeddings_store(e);
    for (int32_t h = 0; h < s->n_shards; h++)
        if (s->shards[h].table == range->table && s->shards[h].stored >= 0)
            RK_TRY(write_rows_of_shard(s, &s->shards[h], range, rows));
    return RK_OK;
}

/* All parts of a table have taken the same steps; a rank may have none of them. */
rk_status rk_sharded_embeddings_read_step(const rk_embeddings *e, int32_t table, int64_t *out) {
    const rk_sharded *s = rk_sharded_embeddings_store(e);
    int64_t own = -1, most = -1;
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    for (int32_t h = 0; h < s->n_shards; h++)
        if (s->shards[h].table == table && s->shards[h].stored >= 0)
            own = s->store->tables[s->shards[h].stored].step;
    RK_TRY(rk_comm_all_gather(s->comm, RK_CHANNEL_VALUES, &own, sizeof own, &all_to_all));
    for (int32_t r = 0; r < s->size; r++) {
        int64_t theirs;
        RK_TRY(rk_all_to_all_copy_message(all_to_all, r, sizeof theirs, &theirs));
        if (theirs > most) most = theirs;
    }
    *out = most;
    return RK_OK;
}

void rk_sharded_embeddings_write_step(rk_embeddings *e, int32_t table, int64_t step) {
    rk_sharded *s = rk_sharded_embeddings_store(e);
    for (int32_t h = 0; h < s->n_shards; h++)
        if (s->shards[h].table == table && s->shards[h].stored >= 0)
            s->store->tables[s->shards[h].stored].step = step;
}
