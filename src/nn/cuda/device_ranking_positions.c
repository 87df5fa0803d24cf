#include "nn/cuda/device_ranking_positions.h"

#include "base/error.h"
#include "base/memory.h"
#include "cuda/launch_list.h"
#include "base/integers.h"

/* Of a block of users; device memory. */
typedef struct work {
    rk_device *device;
    rk_stream *stream;
    const rk_ranking_positions *args;
    int64_t block; /* users at once */
    float *items, *users, *scores;
    rk_cuda_item_lists *lists, *host_lists;
    int64_t *masked, *asked;
    uint32_t *places;
    uint64_t *bad;
} work;

/* Where the items of users first .. end-1 begin among a list's, and how many lie between. */
static int64_t first_item_of_users(const rk_item_lists *lists, const int64_t *numbers, int64_t first) {
    return lists->items ? lists->offsets[numbers[first]] : 0;
}
static int64_t count_items_of_users(const rk_item_lists *lists, const int64_t *numbers, int64_t first,
                                    int64_t end) {
    return lists->items ? lists->offsets[numbers[end - 1] + 1] - lists->offsets[numbers[first]] : 0;
}

static int64_t max_items_of_block(const work *w, const rk_item_lists *lists) {
    int64_t most = 1;
    for (int64_t first = 0; first < w->args->n_users; first += w->block) {
        int64_t n = count_items_of_users(lists, w->args->numbers, first,
                                         rk_min_i64(first + w->block, w->args->n_users));
        most = n > most ? n : most;
    }
    return most;
}

enum { N_PIECES = 8 };

static void list_ranking_buffers(work *w, void **pieces[N_PIECES]) {
    void **const all[N_PIECES] = {(void **)&w->items,  (void **)&w->users,  (void **)&w->scores,
                                  (void **)&w->lists,  (void **)&w->masked, (void **)&w->asked,
                                  (void **)&w->places, (void **)&w->bad};
    for (int i = 0; i < N_PIECES; i++) pieces[i] = all[i];
}

static void release_buffers(work *w) {
    void **pieces[N_PIECES];
    list_ranking_buffers(w, pieces);
    for (int i = 0; i < N_PIECES; i++) {
        rk_device_free(w->device, *pieces[i]);
        *pieces[i] = NULL;
    }
    rk_free(w->host_lists);
    w->host_lists = NULL;
}

static rk_status allocate_block_buffers(work *w) {
    const rk_ranking_positions *a = w->args;
    size_t most_asked = (size_t)max_items_of_block(w, &a->asked), block = (size_t)w->block;
    void **pieces[N_PIECES];
    list_ranking_buffers(w, pieces);
    size_t bytes[N_PIECES] = {(size_t)(a->n_items * a->dim) * sizeof *w->items,
                              block * (size_t)a->dim * sizeof *w->users,
                              block * (size_t)a->n_items * sizeof *w->scores,
                              block * sizeof *w->lists,
                              (size_t)max_items_of_block(w, &a->masked) * sizeof *w->masked,
                              most_asked * sizeof *w->asked,
                              most_asked * sizeof *w->places,
                              sizeof *w->bad};
    for (int i = 0; i < N_PIECES; i++) RK_TRY(rk_device_alloc(w->device, bytes[i], pieces[i]));
    return rk_alloc(block, sizeof *w->host_lists, &w->host_lists);
}

/* Of as many users as there is room for. */
static rk_status allocate_buffers(work *w) {
    rk_status status;
    while ((status = allocate_block_buffers(w)) == RK_NO_MEMORY && w->block > 1) {
        release_buffers(w);
        w->block /= 2;
    }
    return status;
}

static rk_status upload_item_lists(work *w, int64_t first, int64_t n) {
    const rk_ranking_positions *a = w->args;
    int64_t masked = first_item_of_users(&a->masked, a->numbers, first),
            asked = first_item_of_users(&a->asked, a->numbers, first);
    int64_t n_masked = count_items_of_users(&a->masked, a->numbers, first, first + n),
            n_asked = count_items_of_users(&a->asked, a->numbers, first, first + n);
    for (int64_t i = 0; i < n; i++) {
        int64_t user = a->numbers[first + i];
        rk_cuda_item_lists *l = &w->host_lists[i];
        *l = (rk_cuda_item_lists){.asked = a->asked.offsets[user] - asked,
                                  .asked_end = a->asked.offsets[user + 1] - asked};
        if (!a->masked.items) continue;
        l->masked = a->masked.offsets[user] - masked;
        l->masked_end = a->masked.offsets[user + 1] - masked;
    }
    RK_TRY(rk_device_upload(w->device, w->lists, w->host_lists, (size_t)n * sizeof *w->lists));
    if (n_masked)
        RK_TRY(rk_device_upload(w->device, w->masked, a->masked.items + masked,
                                (size_t)n_masked * sizeof *w->masked));
    return rk_device_upload(w->device, w->asked, a->asked.items + asked, (size_t)n_asked * sizeof *w->asked);
}

/* What is not finite among the block's scores. */
static rk_status check_scores_finite(work *w, int64_t first) {
    uint64_t bad;
    float score;
    RK_TRY(rk_device_download(w->device, &bad, w->bad, sizeof bad));
    if (bad == UINT64_MAX) return RK_OK;
    int64_t user = (int64_t)(bad >> 32), item = (int64_t)(uint32_t)bad;
    RK_TRY(rk_device_download(w->device, &score, w->scores + user * w->args->n_items + item, sizeof score));
    rk_status status =
        rk_error(RK_NOT_FINITE, "the score of item %lld is %g", (long long)item, (double)score);
    return rk_error_context(status, "user %lld", (long long)w->args->numbers[first + user]);
}

static rk_status rank_block_of_users(work *w, int64_t first, int64_t n) {
    const rk_ranking_positions *a = w->args;
    int64_t asked = first_item_of_users(&a->asked, a->numbers, first),
            n_asked = count_items_of_users(&a->asked, a->numbers, first, first + n);
    RK_TRY(rk_device_upload(w->device, w->users, a->users + first * a->dim,
                            (size_t)(n * a->dim) * sizeof *w->users));
    RK_TRY(upload_item_lists(w, first, n));
    rk_cuda_gemm(w->stream, &(rk_cuda_gemm_args){.m = n,
                                                 .n = a->n_items,
                                                 .k = a->dim,
                                                 .a = w->users,
                                                 .b = w->items,
                                                 .c = w->scores,
                                                 .lda = a->dim,
                                                 .ldb = a->dim,
                                                 .ldc = a->n_items,
                                                 .b_transposed = true,
                                                 .alpha = 1});
    rk_stream_fill(w->stream, w->bad, 0xFF, sizeof *w->bad);
    rk_cuda_ranking_positions(w->stream, &(rk_cuda_ranking_positions_args){.n_users = n,
                                                                           .n_items = a->n_items,
                                                                           .scores = w->scores,
                                                                           .lists = w->lists,
                                                                           .masked = w->masked,
                                                                           .asked = w->asked,
                                                                           .places = w->places,
                                                                           .bad = w->bad});
    RK_TRY(rk_stream_sync(w->stream));
    RK_TRY(check_scores_finite(w, first));
    return rk_device_download(w->device, a->places + asked, w->places, (size_t)n_asked * sizeof *w->places);
}

rk_status rk_device_compute_ranking_positions(rk_device *device, rk_stream *stream,
                                              const rk_ranking_positions *a, int64_t scores_at_once) {
    RK_FAIL_IF(a->n_items < 1 || a->n_items >= UINT32_MAX || a->dim < 1, RK_INVALID_ARGUMENT,
               "cannot rank %lld items with vectors of %lld values", (long long)a->n_items,
               (long long)a->dim);
    if (a->n_users == 0) return RK_OK;
    int64_t fit = (scores_at_once ? scores_at_once : 1 << 26) / a->n_items;
    work w = {
        .device = device, .stream = stream, .args = a, .block = fit < 1 ? 1 : rk_min_i64(fit, a->n_users)};
    rk_status status = allocate_buffers(&w);
    if (status == RK_OK)
        status =
            rk_device_upload(device, w.items, a->items, (size_t)(a->n_items * a->dim) * sizeof *a->items);
    for (int64_t first = 0; first < a->n_users && status == RK_OK; first += w.block)
        status = rank_block_of_users(&w, first, rk_min_i64(w.block, a->n_users - first));
    release_buffers(&w);
    return status;
}
