/* Former values of rows (embedding/local/state/row_before_images.h) of a checkpoint that is converted. */
#ifndef RK_TRAIN_RUN_CONVERT_BEFORE_IMAGE_H
#define RK_TRAIN_RUN_CONVERT_BEFORE_IMAGE_H

#include "model/model.h"

/* Into the model, whose table may have its rows in another order: ids are keys now, keys are ids, or buckets
 * are others. Its keys and rows are there already. Errors: those of rk_model_read_before_images. */
rk_status rk_convert_before_image(rk_model *model, const char *name, int64_t n, int64_t record_bytes,
                                  const void *records);

#endif
