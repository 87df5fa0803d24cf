/* Where a trainer's batches come from: a dataset that it reads itself, or data loader ranks. */
#ifndef RK_TRAIN_SOURCE_BATCH_SOURCE_H
#define RK_TRAIN_SOURCE_BATCH_SOURCE_H

#include "batch/packed_batch.h"
#include "model/model.h"
#include "train/source/data_loaders.h"

/* One batch, as much of it as is here. */
typedef struct rk_source_batch {
    rk_rank_batch rank_batch; /* to train on or to predict */
    rk_batch whole;           /* for evaluation: labels, weights and groups of all samples */
} rk_source_batch;

/* A batch that was asked for. */
typedef struct rk_batch_source_request {
    rk_read_request asked;
    int32_t reader;
    rk_all_to_all *word, *answer; /* word NULL: another rank asked */
} rk_batch_source_request;

/* Batches asked for before they are needed (readers make more of them ahead), and the one in use. */
enum { RK_SOURCE_AHEAD = 2, RK_SOURCE_REQUESTS = RK_SOURCE_AHEAD + 1 };

typedef struct rk_batch_source rk_batch_source;

/* As rk_dataset_next, current_position, seek, n_rows: of the dataset, or of data loaders. */
typedef struct rk_batch_source_ops {
    rk_status (*next)(rk_batch_source *source); /* into `fed` */
    const rk_rank_batch *(*peek)(rk_batch_source *source);
    rk_dataset_position (*position)(const rk_batch_source *source);
    rk_status (*seek)(rk_batch_source *source, rk_dataset_position position);
    int64_t (*n_rows)(const rk_batch_source *source);
} rk_batch_source_ops;

struct rk_batch_source {
    const rk_batch_source_ops *ops;
    rk_dataset *dataset;
    rk_data_loaders *readers; /* of data loaders, in whose place nothing is read of the dataset */
    const char *split;
    int32_t stream;
    bool has_begun; /* readers know the stream */
    rk_dataset_position position;
    int64_t batch_size, window_rows; /* as readers cut */
    int64_t next_row;                /* of the epoch: where the next batch to be asked for begins */
    int64_t n_rows;                  /* of an epoch, as far as readers have said; else -1 */
    rk_batch_source_request requests[RK_SOURCE_REQUESTS]; /* request i is requests[i % RK_SOURCE_REQUESTS] */
    int64_t n_asked, n_taken;                   /* of the stream so far; the one taken last is still in use */
    rk_unpacked_batch rank_batch, whole, ahead; /* ahead: of the next one, where it was peeked into */
    bool is_ahead;                              /* it was */
    rk_source_batch fed;
    rk_rank_batch next; /* what peek shows */
};

/* dataset, readers and split must outlive it; readers may be NULL. */
void rk_batch_source_init(rk_batch_source *source, rk_dataset *dataset, rk_data_loaders *readers,
                          const char *split, bool evaluates);
/* Batches that were asked for and not taken come here and are dropped; before trainers do anything else with
 * readers, and before the end unless a rank has failed. */
rk_status rk_batch_source_finish_requests(rk_batch_source *source);
void rk_batch_source_release(rk_batch_source *source);

/* As rk_dataset_next, current_position, seek, n_rows; all trainers make the same calls. */
rk_status rk_batch_source_next(rk_batch_source *source, const rk_source_batch **out);
/* This rank's samples of the batch after this one, if they are here already; else NULL. */
const rk_rank_batch *rk_batch_source_peek(rk_batch_source *source);
rk_dataset_position rk_batch_source_position(const rk_batch_source *source);
rk_status rk_batch_source_seek(rk_batch_source *source, rk_dataset_position position);
int64_t rk_batch_source_n_rows(const rk_batch_source *source);

#endif
