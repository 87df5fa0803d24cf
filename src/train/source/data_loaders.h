/* Data loader ranks (cluster.reader_ranks), and how trainers request batches from them. A stream is a split
 * from some position on, over its epochs. Data loader w mod n reads window w of an epoch. The first trainer
 * requests the next batch of the epoch, and the data loader sends each trainer its samples of it. It answers
 * in the order of the requests. A data loader without more batches of the epoch says so, at every request. */
#ifndef RK_TRAIN_SOURCE_DATA_LOADERS_H
#define RK_TRAIN_SOURCE_DATA_LOADERS_H

#include "comm/comm.h"
#include "data/dataset/dataset.h"
#include "embedding/planner/sharding.h"

typedef enum rk_read_kind { RK_READ_BEGIN = 1, RK_READ_NEXT, RK_READ_LEAVE } rk_read_kind;
enum { RK_READ_TRAINING, RK_READ_EVALUATION, RK_READ_STREAMS };

/* What the first trainer asks. After BEGIN stand the cuts, [n_trainers + 1] int64_t as of
 * rk_model_rank_boundaries, and the split's name. */
typedef struct rk_read_request {
    int32_t kind, stream;
    rk_dataset_position position; /* of the stream's first batch, or of the one that is asked for */
} rk_read_request;

/* What stands before an answer. */
typedef struct rk_read_head {
    int64_t status; /* rk_status. RK_OK: a packed part of a batch, and of an evaluation, the packed labels and
                       groups of all its samples; RK_END; else a message */
    int64_t total, base; /* as in rk_rank_batch */
    int64_t timestamp;   /* likewise */
    int64_t n_tasks;     /* after the head: task_samples [n_tasks], doubles, as in rk_rank_batch */
} rk_read_head;

/* On trainers, all readers; on a reader, itself. */
typedef struct rk_data_loaders {
    int32_t n, n_trainers;
    rk_comm **comms;      /* [n], on a reader [1]: the trainers, and after them the reader */
    int64_t *cuts;        /* [n_trainers + 1], once the model is built */
    rk_message *messages; /* [n_trainers + 1]: scratch */
    bool *trainers, *reader, *first, *nobody; /* [n_trainers + 1]: which ranks take part in an all_to_all */
    bool asks;                                /* this rank is the first trainer */
} rk_data_loaders;

/* Trainers are the first ranks of the world, readers its last ones; all of those call it. */
rk_status rk_data_loaders_create(rk_comm *world, int32_t n_trainers, int32_t n_readers,
                                 rk_data_loaders **out);
void rk_data_loaders_free(rk_data_loaders *readers);

/* On the first trainer: word [n_bytes] stays until the all_to_all is done. */
rk_status rk_data_loaders_send_request(rk_data_loaders *readers, int32_t reader, const rk_read_request *word,
                                       size_t n_bytes, rk_all_to_all **out);
/* Trainers: nothing more will be asked. */
rk_status rk_data_loaders_send_leave(rk_data_loaders *readers);
/* Its rank in the world, for messages. */
int32_t rk_data_loaders_rank_of_loader(const rk_data_loaders *readers, int32_t reader);

#endif
