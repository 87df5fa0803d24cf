/* TensorBoard event files: TFRecord frames of Event messages. docs/formats/tensorboard.md. Pure. */
#ifndef RK_FORMAT_PROTOBUF_TENSORBOARD_H
#define RK_FORMAT_PROTOBUF_TENSORBOARD_H

#include <stdint.h>

#include "base/buffer.h"

/* The first record of a file. */
void rk_tensorboard_write_header(double wall_seconds, rk_buffer *out);
void rk_tensorboard_write_scalar(const char *tag, double value, int64_t step, double wall_seconds,
                                 rk_buffer *out);

#endif
