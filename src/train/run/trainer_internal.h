/* Inside a trainer: what setting up, running and saving share. */
#ifndef RK_TRAIN_RUN_TRAINER_INTERNAL_H
#define RK_TRAIN_RUN_TRAINER_INTERNAL_H

#include <stdatomic.h>

#include "base/file/directory_lock.h"
#include "comm/comm.h"
#include "data/dataset/dataset.h"
#include "batch/packed_batch.h"
#include "train/checkpoint/checkpoint.h"
#include "train/evaluate/evaluation.h"
#include "train/source/batch_source.h"
#include "train/run/run_log.h"

struct rk_trainer {
    rk_config *config;
    rk_trainer_options options;
    char *trace_path;
    rk_comm *world; /* of the options, or its own */
    rk_comm *comm;  /* of ranks that train or hold rows: the world, but for readers; on those NULL */
    rk_data_loaders *readers;  /* NULL: there are none, or none that this rank has to do with */
    int32_t n_readers, reader; /* reader: this rank's number among those that only read, or -1 */
    bool owns_comm, is_first;  /* is_first: rank 0, who speaks, logs and decides on paths */
    bool has_warned_of_metric; /* said once */
    bool has_loss;             /* some batch was trained on */
    bool has_run;    /* to an end; the embedding servers still wait for the message that ends them */
    rk_model *model; /* NULL on ranks that only read */
    rk_dataset *train, *valid; /* valid NULL: none */
    rk_batch_source train_source, valid_source;
    rk_state_dict state; /* of the model, but for what is there between some steps only */
    rk_progress progress;
    rk_early_stopping_rules rules;
    rk_input_fingerprints inputs; /* of the first rank, which saves them */
    rk_directory_lock *lock;      /* of the run's directory, held by the first rank */
    rk_run_log log;
    rk_evaluation evaluation;                  /* the last one, for rk_trainer_evaluate and events */
    int64_t saved_step;                        /* of the newest checkpoint; -1: none */
    bool has_best;                             /* the parameters of the best evaluation were read back */
    double started;                            /* seconds, of the run */
    double last_progress;                      /* seconds */
    int64_t last_progress_step, samples_since; /* since the last progress event */
    int64_t first_step;                        /* of this run of the program */
    rk_model_comm_traffic traffic;             /* as it was at the last progress event */
    atomic_int stop;
};

/* Who does what: world, comm, readers. */
rk_status rk_trainer_assign_roles(rk_trainer *trainer);
void rk_trainer_release_ranks(rk_trainer *trainer);
bool rk_trainer_trains(const rk_trainer *trainer); /* this rank; once the model is built */
/* Ends the run on embedding servers and data loaders. */
void rk_trainer_end_other_ranks(rk_trainer *trainer);
/* On a rank that only reads: until trainers leave. */
rk_status rk_trainer_run_data_loader(rk_trainer *trainer);
/* Batches of no more than max_batch_size samples, on a rank that only reads those that are its own. */
rk_status rk_trainer_open_split(rk_trainer *trainer, const char *split, int64_t max_batch_size,
                                rk_dataset **out);
/* The data's first batch, the same on all ranks; the planner counts its loads. */
typedef struct rk_trainer_sample {
    const rk_batch *batch; /* NULL on ranks that only read, but the first */
    bool reads;            /* this rank, whose data is at its start again once the sample is returned */
    rk_all_to_all *all_to_all;
    rk_unpacked_batch unpacked;
} rk_trainer_sample;
rk_status rk_trainer_read_sample(rk_trainer *trainer, rk_trainer_sample *out);
rk_status rk_trainer_release_sample(rk_trainer *trainer,
                                    rk_trainer_sample *sample); /* whatever taking it has come to */

/* Control messages from trainers to embedding servers (train/run/trainer_ranks.c). */
typedef enum rk_control_message {
    RK_CONTROL_SAVE = 1,
    RK_CONTROL_FACTOR,
    RK_CONTROL_LOAD,
    RK_CONTROL_END
} rk_control_message;
rk_status rk_trainer_run_embedding_server(rk_trainer *trainer);
rk_status rk_trainer_scale_learning_rate(rk_trainer *trainer);
rk_status rk_trainer_load_best(rk_trainer *trainer); /* the parameters that rk_checkpoint_find_best finds */
/* Whether any rank was asked to stop; the same on all after each step. */
bool rk_trainer_asked_to_stop(const rk_trainer *trainer);

/* Going on from a checkpoint (train/run/trainer_restore.c): that the configuration may, before anything is
 * built by it; then model, progress and data are put where it was saved. */
rk_status rk_trainer_check_resumable(rk_trainer *trainer, const char *path);
rk_status rk_trainer_restore(rk_trainer *trainer, const char *path);
/* The data's files as they are, to be saved; with start (a checkpoint) they must be those that it was saved
 * with, unless the options allow others. */
rk_status rk_trainer_fingerprint_inputs(rk_trainer *trainer, const char *start);

void rk_trainer_notify(rk_trainer *trainer, rk_event_kind kind, const char *message);
rk_status rk_trainer_write_checkpoint(
    rk_trainer *trainer,
    char **path); /* the checkpoint alone, by all ranks that train or hold rows; of a flushed model */
/* The epoch to speak of, from 0: between two epochs, the one that has just ended. */
int64_t rk_trainer_displayed_epoch(const rk_trainer *trainer);
/* What is likely a mistake (train/run/config_warnings.c); the data is open. */
void rk_trainer_warn_of_config(const rk_trainer *trainer);
void rk_trainer_warn_of_first_loss(const rk_trainer *trainer, double loss);
void rk_trainer_warn_of_no_metric(rk_trainer *trainer);

#endif
