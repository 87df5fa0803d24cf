#include "train/source/batch_source.h"

#include <string.h>

#include "base/memory.h"

static void free_request(rk_batch_source_request *request) {
    rk_all_to_all_free(request->word);
    rk_all_to_all_free(request->answer);
    *request = (rk_batch_source_request){0};
}

void rk_batch_source_release(rk_batch_source *f) {
    for (int i = 0; i < RK_SOURCE_REQUESTS; i++) free_request(&f->requests[i]);
    rk_unpacked_batch_release(&f->rank_batch);
    rk_unpacked_batch_release(&f->whole);
    rk_unpacked_batch_release(&f->ahead);
    *f = (rk_batch_source){0};
}

static rk_batch_source_request *request_slot(rk_batch_source *f, int64_t number) {
    return &f->requests[number % RK_SOURCE_REQUESTS];
}

/* Tell all readers where the stream begins. */
static rk_status begin_loader_stream(rk_batch_source *f) {
    rk_data_loaders *r = f->readers;
    size_t cuts_bytes = ((size_t)r->n_trainers + 1) * sizeof *r->cuts, split_bytes = strlen(f->split) + 1,
           n_bytes = sizeof(rk_read_request) + cuts_bytes + split_bytes;
    RK_AUTOFREE rk_read_request *word = NULL;
    f->has_begun = true;
    f->n_asked = f->n_taken = 0;
    f->next_row = f->position.row;
    f->batch_size = rk_dataset_batch_size(f->dataset) < r->cuts[r->n_trainers]
                        ? rk_dataset_batch_size(f->dataset)
                        : r->cuts[r->n_trainers];
    f->window_rows = rk_dataset_window_rows(f->dataset, f->batch_size);
    if (!r->asks) return RK_OK;
    RK_TRY(rk_alloc(1, n_bytes, &word));
    *word = (rk_read_request){.kind = RK_READ_BEGIN, .stream = f->stream, .position = f->position};
    memcpy(word + 1, r->cuts, cuts_bytes);
    memcpy((char *)(word + 1) + cuts_bytes, f->split, split_bytes);
    for (int32_t i = 0; i < r->n; i++) {
        RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
        RK_TRY(rk_data_loaders_send_request(r, i, word, n_bytes, &all_to_all));
        RK_TRY(rk_all_to_all_wait(all_to_all));
    }
    return RK_OK;
}

static rk_status request_batch(rk_batch_source *f) {
    rk_data_loaders *r = f->readers;
    rk_batch_source_request *request = request_slot(f, f->n_asked);
    int64_t window = f->next_row / f->window_rows, window_end = (window + 1) * f->window_rows;
    free_request(request);
    request->reader = (int32_t)(window % r->n);
    request->asked = (rk_read_request){
        .kind = RK_READ_NEXT, .stream = f->stream, .position = {f->position.epoch, f->next_row}};
    if (r->asks)
        RK_TRY(rk_data_loaders_send_request(r, request->reader, &request->asked, sizeof request->asked,
                                            &request->word));
    RK_TRY(rk_all_to_all_begin(r->comms[request->reader], RK_CHANNEL_BATCHES, r->messages, r->nobody,
                               r->reader, &request->answer));
    f->next_row = f->next_row + f->batch_size < window_end ? f->next_row + f->batch_size : window_end;
    f->n_asked++;
    return RK_OK;
}

/* The oldest answer. */
static rk_status receive_oldest_answer(rk_batch_source *f, const rk_message **out) {
    const rk_batch_source_request *request = request_slot(f, f->n_taken);
    RK_TRY(rk_all_to_all_wait(request->answer));
    if (request->word) RK_TRY(rk_all_to_all_wait(request->word));
    *out = &rk_all_to_all_received_messages(request->answer)[f->readers->n_trainers];
    RK_FAIL_IF((*out)->n_bytes < sizeof(rk_read_head), RK_INTERNAL, "a data loader's message is truncated");
    f->n_taken++;
    return RK_OK;
}

rk_status rk_batch_source_finish_requests(rk_batch_source *f) {
    const rk_message *answer;
    while (f->n_taken < f->n_asked) RK_TRY(receive_oldest_answer(f, &answer));
    f->has_begun = f->is_ahead = false;
    return RK_OK;
}

/* A data loader has ended the epoch; so do those that were asked after it. */
static rk_status end_loader_epoch(rk_batch_source *f) {
    while (f->n_taken < f->n_asked) {
        const rk_message *answer;
        RK_TRY(receive_oldest_answer(f, &answer));
        RK_FAIL_IF(((const rk_read_head *)answer->data)->status != RK_END, RK_INTERNAL,
                   "the data loaders do not agree on where the epoch ends");
    }
    f->n_rows = f->position.row;
    f->position = (rk_dataset_position){f->position.epoch + 1, 0};
    f->next_row = 0;
    return RK_END;
}

/* This rank's samples, and where they end in the answer. */
static rk_status unpack_samples(const rk_message *answer, rk_unpacked_batch *into, rk_rank_batch *out,
                                const char **end) {
    const rk_read_head *head = answer->data;
    size_t n_left = answer->n_bytes - sizeof *head, n_used;
    RK_FAIL_IF(head->n_tasks < 0 || (uint64_t)head->n_tasks > n_left / sizeof(double), RK_INTERNAL,
               "a data loader's message is truncated");
    size_t samples_bytes = (size_t)head->n_tasks * sizeof(double);
    const char *at = (const char *)(head + 1) + samples_bytes;
    RK_TRY(rk_batch_unpack(at, n_left - samples_bytes, into, &n_used));
    bool fits = head->base >= 0 && head->base <= head->total && into->batch.n <= head->total - head->base &&
                into->batch.n_tasks == head->n_tasks;
    RK_FAIL_IF(!fits, RK_INTERNAL, "a data loader's message has other samples than its header says");
    *out = (rk_rank_batch){into->batch, head->total, head->base, (const double *)(head + 1), head->timestamp};
    *end = at + n_used;
    return RK_OK;
}

/* Of an evaluation, labels and groups of all samples. */
static rk_status unpack_whole(rk_batch_source *f, const rk_message *answer, const char *at) {
    const rk_read_head *head = answer->data;
    size_t n_left = answer->n_bytes - (size_t)(at - (const char *)answer->data), n_used;
    RK_TRY(rk_batch_unpack(at, n_left, &f->whole, &n_used));
    bool fits = f->whole.batch.n == head->total && f->whole.batch.n_tasks == head->n_tasks;
    RK_FAIL_IF(!fits, RK_INTERNAL, "a data loader's message has other samples than its header says");
    return RK_OK;
}

static void take_peeked(rk_batch_source *f) {
    rk_unpacked_batch used = f->rank_batch;
    f->rank_batch = f->ahead;
    f->ahead = used;
    f->is_ahead = false;
    f->fed.rank_batch = f->next;
}

static rk_status unpack_answer(rk_batch_source *f, const rk_message *answer) {
    const rk_read_head *head = answer->data;
    const char *end = NULL;
    f->fed = (rk_source_batch){0};
    if (f->is_ahead)
        take_peeked(f);
    else
        RK_TRY(unpack_samples(answer, &f->rank_batch, &f->fed.rank_batch, &end));
    if (f->stream == RK_READ_EVALUATION) RK_TRY(unpack_whole(f, answer, end));
    f->fed.whole = f->whole.batch;
    f->position.row += head->total;
    return RK_OK;
}

static rk_status next_from_loaders(rk_batch_source *f) {
    const rk_message *answer;
    if (!f->has_begun) RK_TRY(begin_loader_stream(f));
    while (f->n_asked - f->n_taken < RK_SOURCE_AHEAD) RK_TRY(request_batch(f));
    int32_t reader = request_slot(f, f->n_taken)->reader;
    RK_TRY(receive_oldest_answer(f, &answer));
    const rk_read_head *head = answer->data;
    if (head->status == RK_END) return end_loader_epoch(f);
    if (head->status != RK_OK)
        return rk_error((rk_status)head->status, "rank %d: %.*s",
                        rk_data_loaders_rank_of_loader(f->readers, reader),
                        (int)(answer->n_bytes - sizeof *head), (const char *)(head + 1));
    RK_TRY(unpack_answer(f, answer));
    return request_batch(f); /* which comes while this one is trained on */
}

/* The next answer, if it is here and has a batch to train on; what is wrong with it is said when it is taken.
 */
static const rk_rank_batch *peek_into_loaders(rk_batch_source *f) {
    const rk_batch_source_request *request = request_slot(f, f->n_taken);
    const char *end;
    bool is_here = false;
    if (f->is_ahead) return &f->next;
    if (f->stream != RK_READ_TRAINING || f->n_taken == f->n_asked ||
        rk_all_to_all_test(request->answer, &is_here) != RK_OK || !is_here)
        return NULL;
    const rk_message *answer = &rk_all_to_all_received_messages(request->answer)[f->readers->n_trainers];
    if (answer->n_bytes < sizeof(rk_read_head) || ((const rk_read_head *)answer->data)->status != RK_OK ||
        unpack_samples(answer, &f->ahead, &f->next, &end) != RK_OK)
        return NULL;
    f->is_ahead = true;
    return &f->next;
}

static rk_dataset_position position_in_loaders(const rk_batch_source *f) {
    return f->position;
}

static rk_status seek_in_loaders(rk_batch_source *f, rk_dataset_position position) {
    RK_TRY(rk_batch_source_finish_requests(f));
    f->position = position;
    return RK_OK;
}

static int64_t n_rows_from_loaders(const rk_batch_source *f) {
    return f->n_rows;
}

static rk_status next_from_dataset(rk_batch_source *f) {
    const rk_batch *batch;
    RK_TRY(rk_dataset_next(f->dataset, &batch));
    f->fed = (rk_source_batch){
        .rank_batch = rk_rank_batch_from_batch(batch, rk_dataset_batch_timestamp(f->dataset)),
        .whole = *batch};
    return RK_OK;
}

static const rk_rank_batch *peek_into_dataset(rk_batch_source *f) {
    const rk_batch *batch = rk_dataset_peek(f->dataset);
    if (batch) f->next = rk_rank_batch_from_batch(batch, RK_NO_TIMESTAMP);
    return batch ? &f->next : NULL;
}

static rk_dataset_position position_in_dataset(const rk_batch_source *f) {
    return rk_dataset_current_position(f->dataset);
}

static rk_status seek_in_dataset(rk_batch_source *f, rk_dataset_position position) {
    return rk_dataset_seek(f->dataset, position);
}

static int64_t n_rows_from_dataset(const rk_batch_source *f) {
    return rk_dataset_n_rows(f->dataset);
}

void rk_batch_source_init(rk_batch_source *f, rk_dataset *dataset, rk_data_loaders *readers,
                          const char *split, bool evaluates) {
    static const rk_batch_source_ops of_dataset = {next_from_dataset, peek_into_dataset, position_in_dataset,
                                                   seek_in_dataset, n_rows_from_dataset},
                                     of_readers = {next_from_loaders, peek_into_loaders, position_in_loaders,
                                                   seek_in_loaders, n_rows_from_loaders};
    *f = (rk_batch_source){.ops = readers ? &of_readers : &of_dataset,
                           .dataset = dataset,
                           .readers = readers,
                           .split = split,
                           .stream = evaluates ? RK_READ_EVALUATION : RK_READ_TRAINING,
                           .n_rows = -1};
}

rk_status rk_batch_source_next(rk_batch_source *f, const rk_source_batch **out) {
    RK_TRY(f->ops->next(f));
    *out = &f->fed;
    return RK_OK;
}

const rk_rank_batch *rk_batch_source_peek(rk_batch_source *f) {
    return f->ops->peek(f);
}

rk_dataset_position rk_batch_source_position(const rk_batch_source *f) {
    return f->ops->position(f);
}

rk_status rk_batch_source_seek(rk_batch_source *f, rk_dataset_position position) {
    return f->ops->seek(f, position);
}

int64_t rk_batch_source_n_rows(const rk_batch_source *f) {
    return f->ops->n_rows(f);
}
