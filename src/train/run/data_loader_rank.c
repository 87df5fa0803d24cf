/* A data loader rank. */
#include <string.h>

#include "base/memory.h"
#include "base/thread/trace.h"
#include "batch/packed_batch.h"
#include "nn/loss.h"
#include "train/run/trainer_internal.h"

/* Batches from where trainers said. */
typedef struct stream {
    rk_dataset *dataset;
    char *split;
    int64_t *cuts; /* [n_trainers + 1]; NULL: not begun */
} stream;

typedef struct reading {
    rk_trainer *trainer;
    rk_data_loaders *readers;
    stream streams[RK_READ_STREAMS]; /* the training data is the trainer's own */
    rk_buffer *answers;              /* [n_trainers] */
    double *task_samples;            /* [labels]: of a batch */
} reading;

/* Of a stream that there is, and that was begun. */
static rk_status check_request(const reading *r, const rk_read_request *word) {
    bool known = word->kind >= RK_READ_BEGIN && word->kind <= RK_READ_LEAVE && word->stream >= 0 &&
                 word->stream < RK_READ_STREAMS;
    RK_FAIL_IF(!known, RK_INTERNAL, "a trainer sent an unknown request to a data loader");
    RK_FAIL_IF(word->kind == RK_READ_NEXT && !r->streams[word->stream].cuts, RK_INTERNAL,
               "a trainer asked for a batch before it started an epoch");
    return RK_OK;
}

static rk_status receive_request(const reading *r, rk_all_to_all **out) {
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    const rk_read_request *word;
    size_t left;
    RK_TRY(rk_all_to_all_begin(r->readers->comms[0], RK_CHANNEL_VALUES, r->readers->messages,
                               r->readers->nobody, r->readers->first, &all_to_all));
    RK_TRY(rk_all_to_all_wait(all_to_all));
    RK_TRY(rk_all_to_all_split_message(all_to_all, 0, sizeof *word, &word, &left));
    RK_TRY(check_request(r, word));
    *out = all_to_all;
    all_to_all = NULL;
    return RK_OK;
}

/* Of the split that is evaluated, which stays open: what it keeps in memory serves the next time. */
static rk_status open_evaluation_dataset(reading *r, const char *split, stream *s) {
    if (s->dataset && strcmp(s->split, split) == 0) return RK_OK;
    rk_dataset_free(s->dataset);
    s->dataset = NULL;
    rk_free(s->split);
    s->split = NULL;
    RK_TRY(rk_strdup(split, &s->split));
    return rk_trainer_open_split(r->trainer, split, s->cuts[r->readers->n_trainers], &s->dataset);
}

static rk_status begin_requested_stream(reading *r, const rk_read_request *word, size_t n_bytes) {
    size_t n_cuts = (size_t)r->readers->n_trainers + 1;
    stream *s = &r->streams[word->stream];
    RK_FAIL_IF(n_bytes <= sizeof *word + n_cuts * sizeof *s->cuts || ((const char *)word)[n_bytes - 1],
               RK_INTERNAL, "a trainer's request is truncated");
    if (!s->cuts) RK_TRY(rk_alloc(n_cuts, sizeof *s->cuts, &s->cuts));
    memcpy(s->cuts, word + 1, n_cuts * sizeof *s->cuts);
    for (size_t i = 0; i + 1 < n_cuts; i++)
        RK_FAIL_IF(s->cuts[i] < 0 || s->cuts[i + 1] < s->cuts[i], RK_INTERNAL,
                   "a trainer asked for a batch whose parts are not ascending");
    if (word->stream == RK_READ_EVALUATION)
        RK_TRY(open_evaluation_dataset(r, (const char *)(word + 1) + n_cuts * sizeof *s->cuts, s));
    return rk_dataset_seek(s->dataset, word->position);
}

static void write_answer_header(rk_buffer *out, const rk_read_head *head) {
    rk_buffer_clear(out);
    rk_buffer_append(out, head, sizeof *head);
}

/* A trainer learns from its samples; of an evaluation it predicts its samples and measures all. */
static void write_local_batch(const stream *s, bool trains, const rk_batch *batch, const double *task_samples,
                              int32_t trainer, rk_buffer *out) {
    int64_t first = s->cuts[trainer] < batch->n ? s->cuts[trainer] : batch->n,
            last = s->cuts[trainer + 1] < batch->n ? s->cuts[trainer + 1] : batch->n;
    write_answer_header(out, &(rk_read_head){.status = RK_OK,
                                             .total = batch->n,
                                             .base = first,
                                             .timestamp = rk_dataset_batch_timestamp(s->dataset),
                                             .n_tasks = batch->n_tasks});
    rk_buffer_append(out, task_samples, (size_t)batch->n_tasks * sizeof *task_samples);
    rk_batch_pack(batch, first, last - first, trains ? RK_PACK_INPUT | RK_PACK_LABELS : RK_PACK_INPUT, out);
    if (!trains) rk_batch_pack(batch, 0, batch->n, RK_PACK_LABELS | RK_PACK_GROUPS, out);
}

static rk_status send_answers(reading *r) {
    rk_data_loaders *readers = r->readers;
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    for (int32_t t = 0; t < readers->n_trainers; t++) {
        RK_TRY(r->answers[t].status);
        readers->messages[t] = (rk_message){r->answers[t].data, r->answers[t].n_bytes};
    }
    RK_TRY(rk_all_to_all_begin(readers->comms[0], RK_CHANNEL_BATCHES, readers->messages, readers->trainers,
                               readers->nobody, &all_to_all));
    return rk_all_to_all_wait(all_to_all);
}

static rk_status send_batch_answer(reading *r, int32_t number, const rk_batch *batch) {
    uint64_t begin = rk_trace_begin();
    const rk_label_section *labels = r->trainer->config->data.labels;
    for (int32_t t = 0; t < batch->n_tasks; t++)
        r->task_samples[t] = rk_loss_sum_weights(
            batch->n, batch->sample_weights, labels[t].optional ? batch->labels + t : NULL, batch->n_tasks);
    for (int32_t t = 0; t < r->readers->n_trainers; t++)
        write_local_batch(&r->streams[number], number == RK_READ_TRAINING, batch, r->task_samples, t,
                          &r->answers[t]);
    rk_trace_end(begin, "pack");
    return send_answers(r);
}

/* Trainers that learn of a failure report it and end the run on all ranks. A data loader waits for that, so
 * as not to end the run before they have reported. It no longer answers requests. */
static void wait_for_run_end(reading *r) {
    for (bool goes_on = true; goes_on;) {
        RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
        if (receive_request(r, &all_to_all) != RK_OK) return;
        const rk_read_request *word = rk_all_to_all_received_messages(all_to_all)[0].data;
        goes_on = word->kind != RK_READ_LEAVE;
    }
}

/* The end of an epoch, or why there is no batch. */
static rk_status send_status_answer(reading *r, rk_status found) {
    char reason[4096] = "";
    if (found != RK_END) rk_error_copy(reason, sizeof reason);
    for (int32_t t = 0; t < r->readers->n_trainers; t++) {
        write_answer_header(&r->answers[t], &(rk_read_head){.status = found});
        rk_buffer_append(&r->answers[t], reason, strlen(reason));
    }
    RK_TRY(send_answers(r));
    if (found == RK_END) return RK_OK;
    wait_for_run_end(r);
    return rk_error(found, "%s", reason);
}

/* The next batch of the epoch, which may be over for this reader, asked again or not yet asked. */
static rk_status next_batch_of_epoch(rk_dataset *dataset, int64_t epoch, const rk_batch **out) {
    if (rk_dataset_current_position(dataset).epoch > epoch) return RK_END;
    while (rk_dataset_current_position(dataset).epoch < epoch) {
        rk_status status = rk_dataset_next(dataset, out);
        RK_FAIL_IF(status == RK_OK, RK_INTERNAL, "a data loader has batches left when the epoch is over");
        if (status != RK_END) return status;
    }
    return rk_dataset_next(dataset, out);
}

/* `begun`: the error of the stream's start, which is sent with its first batch. */
static rk_status answer_request(reading *r, int32_t number, int64_t epoch, rk_status begun) {
    const rk_batch *batch;
    uint64_t begin = rk_trace_begin();
    rk_status status =
        begun == RK_OK ? next_batch_of_epoch(r->streams[number].dataset, epoch, &batch) : begun;
    rk_trace_end(begin, "read");
    return status == RK_OK ? send_batch_answer(r, number, batch) : send_status_answer(r, status);
}

static rk_status serve_requests(reading *r) {
    for (;;) {
        rk_all_to_all *all_to_all;
        RK_TRY(receive_request(r, &all_to_all));
        const rk_message *message = &rk_all_to_all_received_messages(all_to_all)[0];
        const rk_read_request *word = message->data;
        int32_t kind = word->kind, number = word->stream;
        int64_t epoch = word->position.epoch;
        rk_status status = RK_OK;
        if (kind == RK_READ_BEGIN) status = begin_requested_stream(r, word, message->n_bytes);
        rk_all_to_all_free(all_to_all);
        if (kind == RK_READ_LEAVE) return RK_OK;
        if (kind == RK_READ_NEXT || status != RK_OK) RK_TRY(answer_request(r, number, epoch, status));
    }
}

rk_status rk_trainer_run_data_loader(rk_trainer *t) {
    reading r = {
        .trainer = t, .readers = t->readers, .streams = {[RK_READ_TRAINING] = {.dataset = t->train}}};
    rk_status status = rk_alloc((size_t)r.readers->n_trainers, sizeof *r.answers, &r.answers);
    if (status == RK_OK)
        status = rk_alloc((size_t)t->config->data.n_labels, sizeof *r.task_samples, &r.task_samples);
    if (status == RK_OK) status = serve_requests(&r);
    for (int32_t i = 0; i < r.readers->n_trainers && r.answers; i++) rk_buffer_release(&r.answers[i]);
    RK_FREE_ALL(r.answers, r.task_samples);
    for (int i = 0; i < RK_READ_STREAMS; i++) {
        if (i != RK_READ_TRAINING) rk_dataset_free(r.streams[i].dataset);
        RK_FREE_ALL(r.streams[i].split, r.streams[i].cuts);
    }
    return status;
}
