/* tf.train.Example: Example{1: Features{1: map<string, Feature>}}, Feature{1: BytesList | 2: FloatList | 3: Int64List}, each list {1: repeated}. */
#include "base/float16.h"
#include "format/tfrecord.h"
#include "format/wire.h"

#define DAMAGED rk_error(RK_BAD_DATA, "the record is not a tf.train.Example")

static rk_status give(const rk_example_visitor *v, rk_example_kind kind, uint64_t number, rk_span bytes) {
    rk_example_value value = {.bytes = bytes};
    if (kind == RK_EXAMPLE_FLOAT) value.number = rk_f32_from_bits((uint32_t)number);
    if (kind == RK_EXAMPLE_INT64) value.integer = (int64_t)number;
    return v->value(v->context, kind, &value);
}

/* Numbers stand one a field or packed in bytes. */
static rk_status read_packed(rk_span bytes, rk_example_kind kind, const rk_example_visitor *v) {
    rk_wire wire = rk_wire_of(bytes);
    if (kind == RK_EXAMPLE_FLOAT && bytes.n_bytes % 4) return DAMAGED;
    while (wire.at < wire.end) {
        uint64_t number = 0;
        if (kind == RK_EXAMPLE_INT64) {
            if (!rk_wire_varint(&wire, &number)) return DAMAGED;
        } else {
            for (int i = 0; i < 4; i++) number |= (uint64_t)wire.at[i] << (8 * i);
            wire.at += 4;
        }
        RK_TRY(give(v, kind, number, (rk_span){0}));
    }
    return RK_OK;
}

static rk_status read_list(rk_span list, rk_example_kind kind, const rk_example_visitor *v) {
    rk_wire wire = rk_wire_of(list);
    while (wire.at < wire.end) {
        uint32_t field, type;
        uint64_t number = 0;
        rk_span bytes;
        if (!rk_wire_field(&wire, &field, &type, &number, &bytes)) return DAMAGED;
        if (field != 1) continue;
        if (kind == RK_EXAMPLE_BYTES) {
            if (type != RK_WIRE_BYTES) return DAMAGED;
            RK_TRY(give(v, kind, 0, bytes));
        } else if (type == RK_WIRE_BYTES) {
            RK_TRY(read_packed(bytes, kind, v));
        } else {
            if (type != (kind == RK_EXAMPLE_FLOAT ? RK_WIRE_FIXED32 : RK_WIRE_VARINT)) return DAMAGED;
            RK_TRY(give(v, kind, number, bytes));
        }
    }
    return RK_OK;
}

static rk_status read_feature(rk_span name, rk_span feature, const rk_example_visitor *v) {
    rk_wire wire = rk_wire_of(feature);
    while (wire.at < wire.end) {
        uint32_t field, type;
        uint64_t number;
        rk_span bytes;
        if (!rk_wire_field(&wire, &field, &type, &number, &bytes)) return DAMAGED;
        if (field < 1 || field > 3) continue;
        if (type != RK_WIRE_BYTES) return DAMAGED;
        rk_example_kind kind = (rk_example_kind)(field - 1);
        RK_TRY(v->feature(v->context, name, kind));
        RK_TRY(read_list(bytes, kind, v));
    }
    return RK_OK;
}

static rk_status read_entry(rk_span entry, const rk_example_visitor *v) {
    rk_span name = {"", 0}, feature = {"", 0};
    rk_wire wire = rk_wire_of(entry);
    while (wire.at < wire.end) {
        uint32_t field, type;
        uint64_t number;
        rk_span bytes;
        if (!rk_wire_field(&wire, &field, &type, &number, &bytes)) return DAMAGED;
        if (field <= 2 && type != RK_WIRE_BYTES) return DAMAGED;
        if (field == 1) name = bytes;
        if (field == 2) feature = bytes;
    }
    return read_feature(name, feature, v);
}

rk_status rk_example_parse(const void *data, size_t n_bytes, const rk_example_visitor *v) {
    rk_wire example = rk_wire_of((rk_span){data, n_bytes});
    while (example.at < example.end) {
        uint32_t field, type;
        uint64_t number;
        rk_span features, entry;
        if (!rk_wire_field(&example, &field, &type, &number, &features)) return DAMAGED;
        if (field != 1) continue;
        if (type != RK_WIRE_BYTES) return DAMAGED;
        rk_wire map = rk_wire_of(features);
        while (map.at < map.end) {
            if (!rk_wire_field(&map, &field, &type, &number, &entry)) return DAMAGED;
            if (field != 1) continue;
            if (type != RK_WIRE_BYTES) return DAMAGED;
            RK_TRY(read_entry(entry, v));
        }
    }
    return RK_OK;
}

/* writer->list holds the inner list; wrap it as Feature, as a map entry, and append it to writer->features. */
static void end_feature(rk_example_writer *w, const char *name, rk_example_kind kind) {
    rk_buffer feature = {0}, entry = {0};
    rk_wire_put_bytes(&feature, (uint32_t)kind + 1, w->list.data, w->list.n_bytes);
    rk_wire_put_bytes(&entry, 1, name, strlen(name));
    rk_wire_put_bytes(&entry, 2, feature.data, feature.n_bytes);
    rk_wire_put_bytes(&w->features, 1, entry.data, entry.n_bytes);
    if (w->features.status == RK_OK) w->features.status = w->list.status != RK_OK ? w->list.status : feature.status != RK_OK ? feature.status : entry.status;
    rk_buffer_release(&feature);
    rk_buffer_release(&entry);
    rk_buffer_clear(&w->list);
}

void rk_example_add_i64(rk_example_writer *w, const char *name, const int64_t *values, size_t n) {
    rk_buffer packed = {0};
    for (size_t i = 0; i < n; i++) rk_wire_put_varint(&packed, (uint64_t)values[i]);
    if (n) rk_wire_put_bytes(&w->list, 1, packed.data, packed.n_bytes);
    if (w->list.status == RK_OK) w->list.status = packed.status;
    rk_buffer_release(&packed);
    end_feature(w, name, RK_EXAMPLE_INT64);
}

void rk_example_add_f32(rk_example_writer *w, const char *name, const float *values, size_t n) {
    rk_buffer packed = {0};
    for (size_t i = 0; i < n; i++) rk_buffer_u32le(&packed, rk_f32_bits(values[i]));
    if (n) rk_wire_put_bytes(&w->list, 1, packed.data, packed.n_bytes);
    if (w->list.status == RK_OK) w->list.status = packed.status;
    rk_buffer_release(&packed);
    end_feature(w, name, RK_EXAMPLE_FLOAT);
}

void rk_example_add_bytes(rk_example_writer *w, const char *name, const rk_span *values, size_t n) {
    for (size_t i = 0; i < n; i++) rk_wire_put_bytes(&w->list, 1, values[i].data, values[i].n_bytes);
    end_feature(w, name, RK_EXAMPLE_BYTES);
}

rk_status rk_example_finish(rk_example_writer *w, rk_buffer *out) {
    rk_status status = w->features.status;
    if (status == RK_OK) {
        rk_wire_put_bytes(out, 1, w->features.data, w->features.n_bytes);
        status = out->status;
    }
    rk_buffer_clear(&w->features);
    rk_buffer_clear(&w->list);
    return status;
}

void rk_example_writer_release(rk_example_writer *w) {
    rk_buffer_release(&w->features);
    rk_buffer_release(&w->list);
}
