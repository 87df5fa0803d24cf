/* The rows of an export's tables where its files have them: a source (embedding/row_source.h) that maps the
 * files, so that all who do share the system's copy of them, and rows that nobody looks up take no memory. */
#ifndef RK_TRAIN_CHECKPOINT_MAPPED_ROWS_H
#define RK_TRAIN_CHECKPOINT_MAPPED_ROWS_H

#include "embedding/row_source.h"
#include "train/checkpoint/stored_tensors.h"

/* Needs none of the tensors afterwards, but that their files keep their bytes: one that is cut ends the
 * program (SIGBUS). Tables whose rows do not stand so that kernels read them are not in it. */
rk_status rk_mapped_rows_create(const rk_stored_tensors *tensors, rk_row_source **out);

#endif
