/* From a batch's ids to what lookups and updates read: everything checked, bags made ready, the uses of each
 * row sorted. */
#include "base/thread/parallel_failure.h"
#include "base/thread/parallel.h"
#include "embedding/local/collection_internal.h"
#include "base/memory.h"

enum {
    SCAN_IDS = 65536,
    AT_ONCE = 8, /* a table with at most 1/8 of a thread's part of the uses is not cut */
    PIECES_PER_THREAD = 16,
    LEAST_PIECE_USES = 1024,
    MOST_PIECE_USES = 8192
};

typedef struct dedup_job {
    const rk_embeddings *embeddings;
    rk_batch_context *batch_context;
    const rk_ids *ids;
    int64_t n;
    const int64_t *counts;       /* [n_features], or NULL: n of all */
    bool finds;                  /* keys of dynamic tables become the rows that they have; else they stay */
    rk_parallel_failure failure; /* of the first feature that is refused */
} dedup_job;

static const rk_table *table_of_feature(const rk_embeddings *e, size_t feature) {
    return &e->tables[e->feature_tables[feature]];
}

static void set_ids_of_feature(void *context, size_t f, int thread) {
    (void)thread;
    dedup_job *l = context;
    rk_parallel_failure_record(
        &l->failure, (int64_t)f,
        rk_feature_bags_set_ids(&l->batch_context->uses[f], &l->embeddings->features[f],
                                l->counts ? l->counts[f] : l->n, &l->ids[f]));
}

static void scan_id_block(void *context, size_t task, int thread) {
    (void)thread;
    const dedup_job *l = context;
    const size_t *begins = l->batch_context->task_begins;
    size_t f = rk_partition_find_item(begins, (size_t)l->embeddings->n_features, task);
    rk_feature_bags *use = &l->batch_context->uses[f];
    int64_t first = (int64_t)(task - begins[f]) * SCAN_IDS,
            last = first + SCAN_IDS < use->n_ids ? first + SCAN_IDS : use->n_ids;
    rk_feature_bags_scan_ids(use, table_of_feature(l->embeddings, f), first, last);
}

static void prepare_bags_of_feature(void *context, size_t f, int thread) {
    (void)thread;
    dedup_job *l = context;
    const rk_embeddings *e = l->embeddings;
    rk_feature_bags *use = &l->batch_context->uses[f];
    const rk_table *table = table_of_feature(e, f);
    rk_status status = rk_feature_bags_prepare(use, &e->features[f], table, &l->ids[f]);
    bool finds = table->sorted_keys || (table->dynamic && l->finds);
    if (status == RK_OK && finds) status = rk_dynamic_rows_find(table, use);
    rk_parallel_failure_record(&l->failure, (int64_t)f, status);
}

static rk_status prepare_bags_of_features(dedup_job *l, bool checks) {
    const rk_embeddings *e = l->embeddings;
    const rk_feature_bags *uses = l->batch_context->uses;
    size_t n_features = (size_t)e->n_features, *begins = l->batch_context->task_begins;
    rk_parallel_for_work(n_features, (uint64_t)l->n * n_features, set_ids_of_feature, l);
    RK_TRY(rk_parallel_failure_status(&l->failure));
    uint64_t n_ids = 0;
    for (size_t f = 0; f < n_features; f++) {
        bool scans =
            (checks ||
             e->features[f].max_sequence_length) && /* which cuts ids off, so that no lookup would see them */
            !rk_table_is_dynamic(table_of_feature(e, f));
        begins[f + 1] = begins[f] + (scans ? rk_block_count((size_t)uses[f].n_ids, SCAN_IDS) : 0);
        n_ids += (uint64_t)uses[f].n_ids;
    }
    rk_parallel_for_work(begins[n_features], n_ids, scan_id_block, l);
    rk_parallel_for_work(n_features, n_ids, prepare_bags_of_feature, l);
    return rk_parallel_failure_status(&l->failure);
}

static rk_status check_and_prepare_bags(const rk_embeddings *e, rk_batch_context *batch_context, int64_t n,
                                        const int64_t *counts, const rk_ids *ids, bool checks, bool finds) {
    RK_FAIL_IF(n < 0, RK_INVALID_ARGUMENT, "a lookup of %lld samples", (long long)n);
    RK_FAIL_IF(e->n_features > 0 && !ids, RK_INVALID_ARGUMENT, "a lookup needs ids");
    dedup_job l = {.embeddings = e,
                   .batch_context = batch_context,
                   .ids = ids,
                   .n = n,
                   .counts = counts,
                   .finds = finds && !e->takes_rows,
                   .failure = RK_FAILURE_INIT};
    RK_TRY(prepare_bags_of_features(&l, checks));
    return l.finds ? rk_dynamic_rows_load_from_disk(e, batch_context) : RK_OK;
}

rk_status rk_batch_context_prepare_bags(const rk_embeddings *e, rk_batch_context *batch_context, int64_t n,
                                        const int64_t *counts, const rk_ids *ids, bool checks) {
    return check_and_prepare_bags(e, batch_context, n, counts, ids, checks, true);
}

/* The plan of an update is made here, since it needs the ids alone. */
typedef struct planning {
    rk_embeddings *embeddings;
    rk_batch_context *batch_context;
    int64_t n_uses; /* of all tables */
} planning;

static bool is_sorted_in_parallel(const planning *p, int32_t t) {
    return rk_table_takes_updates(p->embeddings, t) && !p->batch_context->plans[t].at_once;
}

/* Run `task` for each piece of each table that is cut, all tables in one loop, so that small ones fill the
 * gaps of large ones. */
static void parallel_for_pieces(planning *p, size_t (*n_pieces)(const rk_row_uses *plan), rk_task task) {
    int32_t n_tables = p->embeddings->n_tables;
    size_t *begins = p->batch_context->task_begins;
    for (int32_t t = 0; t < n_tables; t++)
        begins[t + 1] = begins[t] + (is_sorted_in_parallel(p, t) ? n_pieces(&p->batch_context->plans[t]) : 0);
    rk_parallel_for_work(begins[n_tables], (uint64_t)p->n_uses, task, p);
}

static size_t chunks_of_plan(const rk_row_uses *plan) {
    return plan->n_chunks;
}
static size_t parts_of_plan(const rk_row_uses *plan) {
    return plan->n_parts;
}

static int32_t locate_table_piece(const planning *p, size_t task, size_t *piece) {
    const size_t *begins = p->batch_context->task_begins;
    size_t table = rk_partition_find_item(begins, (size_t)p->embeddings->n_tables, task);
    *piece = task - begins[table];
    return (int32_t)table;
}

static rk_row_use *sort_scratch_of_thread(const planning *p, int thread) {
    return p->embeddings->scratch + (size_t)thread * RK_USES_SCRATCH;
}

/* Its uses are still in the caches when they are scattered and sorted. */
static void sort_uses_of_table(void *context, size_t task, int thread) {
    const planning *p = context;
    int32_t t = (int32_t)task;
    if (rk_table_takes_updates(p->embeddings, t) && p->batch_context->plans[t].at_once)
        rk_row_uses_sort_all(p->embeddings, p->batch_context, t, sort_scratch_of_thread(p, thread));
}

static void count_uses_of_chunk(void *context, size_t task, int thread) {
    (void)thread;
    const planning *p = context;
    size_t chunk;
    int32_t t = locate_table_piece(p, task, &chunk);
    rk_row_uses_count_chunk(p->embeddings, p->batch_context, t, chunk);
}

static void scatter_uses_of_chunk(void *context, size_t task, int thread) {
    (void)thread;
    const planning *p = context;
    size_t chunk;
    int32_t t = locate_table_piece(p, task, &chunk);
    rk_row_uses_scatter_chunk(p->embeddings, p->batch_context, t, chunk);
}

static void prefix_sum_counts_of_table(void *context, size_t task, int thread) {
    (void)thread;
    const planning *p = context;
    if (is_sorted_in_parallel(p, (int32_t)task)) rk_row_uses_prefix_sum(&p->batch_context->plans[task]);
}

static void sort_uses_of_part(void *context, size_t task, int thread) {
    const planning *p = context;
    size_t part;
    int32_t t = locate_table_piece(p, task, &part);
    rk_row_uses_sort_part(&p->batch_context->plans[t], (uint32_t)part, sort_scratch_of_thread(p, thread));
}

/* Each piece waits for its first rows, so they are as long as threads can still share them evenly. */
static int64_t choose_piece_uses(int64_t n_uses, size_t n_threads) {
    int64_t wanted = n_uses / (int64_t)(PIECES_PER_THREAD * n_threads);
    return wanted < LEAST_PIECE_USES ? LEAST_PIECE_USES : wanted > MOST_PIECE_USES ? MOST_PIECE_USES : wanted;
}

static rk_status sort_uses_by_row(rk_embeddings *e, rk_batch_context *batch_context) {
    planning p = {e, batch_context, 0};
    size_t n_threads = (size_t)rk_parallel_threads(), n_tables = (size_t)e->n_tables;
    RK_TRY(rk_reserve(&e->scratch, &e->scratch_capacity, n_threads * RK_USES_SCRATCH, sizeof *e->scratch));
    for (int32_t t = 0; t < e->n_tables; t++) {
        if (!rk_table_takes_updates(e, t)) continue;
        RK_TRY(rk_row_uses_prepare(e, batch_context, t));
        p.n_uses += batch_context->plans[t].n;
    }
    for (int32_t t = 0; t < e->n_tables; t++) {
        rk_row_uses *plan = &batch_context->plans[t];
        plan->at_once = plan->n <= p.n_uses / (int64_t)(AT_ONCE * n_threads);
        plan->piece_uses = choose_piece_uses(p.n_uses, n_threads);
    }
    rk_parallel_for_work(n_tables, (uint64_t)p.n_uses, sort_uses_of_table, &p);
    parallel_for_pieces(&p, chunks_of_plan, count_uses_of_chunk);
    rk_parallel_for_work(n_tables, (uint64_t)p.n_uses, prefix_sum_counts_of_table, &p);
    parallel_for_pieces(&p, chunks_of_plan, scatter_uses_of_chunk);
    parallel_for_pieces(&p, parts_of_plan, sort_uses_of_part);
    return RK_OK;
}

rk_status rk_batch_context_dedup(rk_embeddings *e, rk_batch_context *batch_context, int64_t n,
                                 const int64_t *counts, const rk_ids *ids) {
    batch_context->is_deduped = false;
    RK_TRY(check_and_prepare_bags(e, batch_context, n, counts, ids, true, false));
    if (!e->takes_rows) RK_TRY(rk_dynamic_rows_assign_batch(e, batch_context));
    RK_TRY(sort_uses_by_row(e, batch_context));
    batch_context->is_deduped = true;
    return RK_OK;
}

rk_status rk_embeddings_dedup(rk_embeddings *e, int64_t n, const rk_ids *ids, bool training) {
    return training ? rk_batch_context_dedup(e, &e->batch_contexts[e->now], n, NULL, ids)
                    : rk_batch_context_prepare_bags(e, &e->eval_batch, n, NULL, ids, true);
}
