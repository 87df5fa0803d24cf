/* The best candidates of each group by a task's predictions: rows of a file go through the model in its
 * order, and the k best of each group are kept. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"
#include "comm/comm.h"
#include "serve/recommend_internal.h"

typedef struct candidate {
    float score;
    int64_t row, item; /* item: its text's number */
} candidate;

typedef struct group {
    candidate *best; /* [n]: a heap, the worst first */
    size_t n, capacity;
} group;

typedef struct reranking {
    rk_predictor *predictor;
    const rk_rerank_options *options;
    int32_t task;
    size_t k;
    rk_data_section section; /* of which every row counts */
    rk_rows_with_texts *rows;
    rk_vocabulary names, items; /* of the groups, by number; texts of items */
    group *groups;              /* [names.n] */
    size_t n_groups, groups_capacity;
    float *predictions; /* [n, n_tasks] of a batch */
    size_t predictions_capacity;
    rk_ranked_output output;
    /* of an answer, [k] */
    rk_span *item_texts;
    int64_t *row_numbers;
    float *scores;
} reranking;

static void release_reranking(reranking *r) {
    rk_rows_with_texts_free(r->rows);
    for (size_t i = 0; i < r->n_groups; i++) rk_free(r->groups[i].best);
    rk_vocabulary_release(&r->names);
    rk_vocabulary_release(&r->items);
    rk_ranked_output_release(&r->output);
    RK_FREE_ALL(r->groups, r->predictions, r->item_texts, r->row_numbers, r->scores);
}

static bool scores_higher(const candidate *a, const candidate *b) {
    return a->score != b->score ? a->score > b->score : a->row < b->row;
}

static void sift_down_worst(candidate *heap, size_t n) {
    for (size_t at = 0, child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && scores_higher(&heap[child], &heap[child + 1])) child++;
        if (!scores_higher(&heap[at], &heap[child])) return;
        candidate moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

static rk_status push_candidate(group *g, size_t k, candidate c) {
    if (g->n == k) {
        if (!scores_higher(&c, &g->best[0])) return RK_OK;
        g->best[0] = c;
        sift_down_worst(g->best, k);
        return RK_OK;
    }
    RK_TRY(rk_reserve_one_more(&g->best, g->n, &g->capacity, sizeof *g->best));
    size_t at = g->n++;
    for (; at && scores_higher(&g->best[(at - 1) / 2], &c); at = (at - 1) / 2)
        g->best[at] = g->best[(at - 1) / 2];
    g->best[at] = c;
    return RK_OK;
}

static rk_status find_or_add_group(reranking *r, rk_span name, group **out) {
    int64_t number;
    RK_TRY(rk_vocabulary_add(&r->names, name, 1, &number));
    if ((size_t)number == r->n_groups) {
        RK_TRY(rk_reserve_one_more(&r->groups, r->n_groups, &r->groups_capacity, sizeof *r->groups));
        r->groups[r->n_groups++] = (group){0};
    }
    *out = &r->groups[number];
    return RK_OK;
}

/* texts: of the row's group and, where there are names of items, of its item. */
static rk_status add_scored_row(reranking *r, const rk_span *texts, int64_t row, const float *predictions) {
    group *g;
    candidate c = {.score = predictions[r->task], .row = row};
    RK_TRY(rk_predictor_check_predictions_finite(r->predictor, row, predictions));
    RK_TRY(find_or_add_group(r, texts[0], &g));
    if (r->options->item) RK_TRY(rk_vocabulary_add(&r->items, texts[1], 1, &c.item));
    return push_candidate(g, r->k, c);
}

static rk_status add_scored_batch(reranking *r, const rk_batch_with_texts *batch) {
    const size_t n_columns = r->options->item ? 2 : 1;
    const int32_t n_tasks = rk_predictor_n_tasks(r->predictor);
    for (int64_t i = 0; i < batch->batch->n; i++)
        RK_TRY(add_scored_row(r, batch->texts + (size_t)i * n_columns, batch->rows[i],
                              r->predictions + i * n_tasks));
    return RK_OK;
}

static rk_status read_next_batch(reranking *r, rk_batch_with_texts *batch) {
    RK_TRY(rk_predictor_hint_rows_not_skipped(&r->section, r->predictor,
                                              rk_rows_with_texts_next(r->rows, batch)));
    return rk_reserve(&r->predictions, &r->predictions_capacity,
                      (size_t)(batch->batch->n * rk_predictor_n_tasks(r->predictor)), sizeof *r->predictions);
}

static rk_status read_all_candidates(reranking *r) {
    rk_comm *comm = r->predictor->comm;
    rk_batch_with_texts batch;
    rk_status status;
    while ((status = rk_comm_agree_on_status(comm, read_next_batch(r, &batch))) == RK_OK) {
        RK_TRY(rk_model_predict(r->predictor->model, batch.batch, r->predictions));
        RK_TRY(rk_comm_agree_on_status(comm, add_scored_batch(r, &batch)));
    }
    return status == RK_END ? RK_OK : status;
}

static int compare_best_first(const void *a, const void *b) {
    return scores_higher(a, b) ? -1 : 1;
}

static rk_status write_ranked_group(reranking *r, size_t number) {
    group *g = &r->groups[number];
    qsort(g->best, g->n, sizeof *g->best, compare_best_first);
    for (size_t i = 0; i < g->n; i++) {
        r->scores[i] = g->best[i].score;
        r->row_numbers[i] = g->best[i].row;
        if (r->options->item) r->item_texts[i] = rk_vocabulary_text(&r->items, (size_t)g->best[i].item);
    }
    const rk_ranked ranked = {.name = rk_vocabulary_text(&r->names, number),
                              .n = (int64_t)g->n,
                              .items = r->options->item ? r->item_texts : NULL,
                              .rows = r->row_numbers,
                              .scores = r->scores};
    return rk_ranked_output_write(&r->output, &ranked);
}

static rk_status write_ranked_groups(reranking *r) {
    size_t most = 0;
    for (size_t i = 0; i < r->n_groups; i++) most = r->groups[i].n > most ? r->groups[i].n : most;
    RK_TRY(rk_alloc(most, sizeof *r->item_texts, &r->item_texts));
    RK_TRY(rk_alloc(most, sizeof *r->row_numbers, &r->row_numbers));
    RK_TRY(rk_alloc(most, sizeof *r->scores, &r->scores));
    for (size_t i = 0; i < r->n_groups; i++) RK_TRY(write_ranked_group(r, i));
    return rk_ranked_output_commit(&r->output);
}

static rk_status find_ranking_task(const rk_predictor *p, const char *name, int32_t *out) {
    char names[512] = "";
    int32_t n_tasks = rk_predictor_n_tasks(p);
    for (*out = 0; *out < n_tasks; ++*out) {
        const char *task = rk_predictor_task_name(p, *out);
        if (name ? strcmp(name, task) == 0 : n_tasks == 1) return RK_OK;
        if (strlen(names) + strlen(task) + 3 < sizeof names) strcat(strcat(names, *out ? ", " : ""), task);
    }
    rk_status status = name ? rk_error(RK_INVALID_ARGUMENT, "the model has no task '%s'", name)
                            : rk_error(RK_INVALID_ARGUMENT,
                                       "the model has several tasks; candidates are "
                                       "ranked by one of them");
    return rk_error_hint(status, "its tasks are %s; --task says which", names);
}

static rk_status open_candidates(reranking *r, const char *candidates) {
    const rk_rerank_options *o = r->options;
    rk_predictor *p = r->predictor;
    const rk_config *c = p->config;
    const char *columns[] = {o->group ? o->group : c->data.group, o->item};
    RK_FAIL_IF(o->k < 0, RK_INVALID_ARGUMENT, "k must be 1 or more, not %d", o->k);
    r->k = o->k ? (size_t)o->k : 100;
    if (!columns[0])
        return rk_error_hint(rk_error(RK_INVALID_ARGUMENT, "nothing says which candidates belong together"),
                             "--group names their column, of users or queries; by default it is the run's "
                             "'data.group'");
    RK_TRY(find_ranking_task(p, o->task, &r->task));
    rk_predictor_section_without_skips(p, candidates, &r->section);
    const rk_rows_with_texts_options options = {.directory = c->directory,
                                                .split = candidates,
                                                .batch_size = rk_predictor_batch_size(p),
                                                .columns = columns,
                                                .n_columns = o->item ? 2 : 1};
    RK_TRY(rk_rows_with_texts_open(&r->section, c->transforms, &options, &r->rows));
    if (!rk_predictor_is_first_rank(p)) return RK_OK;
    return rk_ranked_output_open(o->output, o->format, "group", o->item ? "row,item" : "row", &r->output);
}

static rk_status rerank_candidates(rk_predictor *p, const char *candidates, const rk_rerank_options *o,
                                   int64_t *n) {
    RK_AUTO(release_reranking) reranking r = {.predictor = p, .options = o};
    RK_TRY(rk_predictor_check_same_on_ranks(p, candidates));
    RK_TRY(rk_comm_agree_on_status(p->comm, open_candidates(&r, candidates)));
    RK_TRY(read_all_candidates(&r));
    RK_TRY(rk_comm_agree_on_status(p->comm, write_ranked_groups(&r)));
    if (n) *n = (int64_t)r.n_groups;
    return RK_OK;
}

rk_status rk_predictor_rerank(rk_predictor *p, const char *candidates, const rk_rerank_options *options,
                              int64_t *n_groups) {
    rk_rerank_options o = RK_RERANK_OPTIONS_INIT;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_rerank_options, output),
                              "rk_rerank_options"));
    rk_status status;
    RK_ON_POOL(p->pool, status = rerank_candidates(p, candidates, &o, n_groups));
    return status;
}
