/* Event{1: wall_time, 2: step, 3: file_version | 5: Summary{1: Value{1: tag, 2: simple_value}}}. */
#include "format/protobuf/tensorboard.h"

#include <string.h>

#include "base/float16.h"
#include "base/memory.h"
#include "format/protobuf/tfrecord.h"
#include "format/protobuf/protobuf_wire.h"

static void write_event_time(rk_buffer *event, double wall_seconds) {
    uint64_t bits;
    memcpy(&bits, &wall_seconds, sizeof bits);
    rk_wire_write_varint(event, 1 << 3 | RK_WIRE_FIXED64);
    rk_buffer_append_u64le(event, bits);
}

static void write_event(const rk_buffer *event, rk_buffer *out) {
    rk_tfrecord_write(event->data, event->n_bytes, out);
    if (out->status == RK_OK) out->status = event->status;
}

void rk_tensorboard_write_header(double wall_seconds, rk_buffer *out) {
    static const char version[] = "brain.Event:2";
    RK_AUTO(rk_buffer_release) rk_buffer event = {0};
    write_event_time(&event, wall_seconds);
    rk_wire_write_bytes(&event, 3, version, sizeof version - 1);
    write_event(&event, out);
}

void rk_tensorboard_write_scalar(const char *tag, double value, int64_t step, double wall_seconds,
                                 rk_buffer *out) {
    RK_AUTO(rk_buffer_release) rk_buffer event = {0}, summary = {0}, inner = {0};
    rk_wire_write_bytes(&inner, 1, tag, strlen(tag));
    rk_wire_write_varint(&inner, 2 << 3 | RK_WIRE_FIXED32);
    rk_buffer_append_u32le(&inner, rk_f32_bits((float)value));
    rk_wire_write_bytes(&summary, 1, inner.data, inner.n_bytes);
    write_event_time(&event, wall_seconds);
    rk_wire_write_number(&event, 2, (uint64_t)step);
    rk_wire_write_bytes(&event, 5, summary.data, summary.n_bytes);
    if (event.status == RK_OK) event.status = summary.status != RK_OK ? summary.status : inner.status;
    write_event(&event, out);
}
