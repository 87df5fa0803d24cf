/* A model for prediction whose tensors are read whole row by whole row: an export's, or a checkpoint's with
 * its rows rounded as an export would round them. */
#ifndef RK_TRAIN_CHECKPOINT_MODEL_READER_H
#define RK_TRAIN_CHECKPOINT_MODEL_READER_H

#include "embedding/row_source.h"
#include "model/model.h"
#include "train/checkpoint/external_rows.h"
#include "train/checkpoint/stored_tensors.h"

/* Of a dynamic table of an export, whose model is over ranks: the place of each key among all, in the order
 * of buckets. */
typedef struct rk_key_places {
    char *table;
    int64_t *places; /* [keys] */
} rk_key_places;

typedef struct rk_model_reader {
    rk_stored_tensors tensors;
    rk_export_rows rows; /* what tables' rows are rounded to; RK_EXPORT_ROWS_TRAINED: they stay as stored */
    char *stored, *written;
    float *values;
    size_t stored_capacity, written_capacity, values_capacity;
    rk_key_places *placed; /* [n_placed] */
    size_t n_placed, placed_capacity;
} rk_model_reader;

/* path: a checkpoint or an export. */
rk_status rk_model_reader_open(const char *path, rk_export_rows rows, rk_model_reader *out);
void rk_model_reader_close(rk_model_reader *model);

/* Where rows are that are read as they are stored; NULL: all are to be in the model's memory. path: of the
 * model. alone: it predicts in one process, on the CPU. Errors: RK_UNSUPPORTED, where rows are elsewhere and
 * cannot be read so; those of rk_redis_row_source_open. */
rk_status rk_model_reader_row_source(const rk_model_reader *model, const char *path, bool alone,
                                     const rk_row_reading *reading, rk_row_source **out);

/* The dtype that a table needs to hold its rows: an rk_model_options.row_dtype. */
rk_dtype rk_model_reader_row_dtype(const void *model, const char *table, rk_dtype configured);

/* Gives the model's dynamic tables the keys, before the state that read gets is made of it. over_ranks: so is
 * the model. Memory: the keys of a table; of an export over ranks 8 bytes a key of all tables, and 32 of one.
 * Errors: RK_BAD_DATA, a key is there twice, or those of an export do not ascend. */
rk_status rk_model_reader_load_keys(rk_model_reader *reader, bool over_ranks, rk_model *model);

/* Each tensor of the state, or the part of it that the state has, but for counters and rows that are only
 * read. Memory: some MiB. Errors: RK_CONFIG where one is not there, or of another shape or dtype;
 * RK_NOT_FINITE names a table and the row that int8 or int4 cannot hold. */
rk_status rk_model_reader_read_state(rk_model_reader *model, const rk_state_dict *state);

#endif
