/* The keys of an export's dynamic tables where its files have them. */
#ifndef RK_TRAIN_CHECKPOINT_MAPPED_KEYS_H
#define RK_TRAIN_CHECKPOINT_MAPPED_KEYS_H

#include "embedding/sorted_keys.h"
#include "train/checkpoint/stored_tensors.h"

/* Maps them and reads them once; *out is NULL where no table has keys. Needs none of the tensors afterwards,
 * but that their files keep their bytes. RK_BAD_DATA: a table's keys do not ascend. */
rk_status rk_mapped_keys_create(const rk_stored_tensors *tensors, rk_key_tables **out);

#endif
