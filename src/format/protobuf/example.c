/* tf.train.Example: Example{1: Features{1: map<string, Feature>}}, Feature{1: BytesList | 2: FloatList | 3:
 * Int64List}, each list {1: repeated}. */
#include "base/float16.h"
#include "base/memory.h"
#include "format/protobuf/tfrecord.h"
#include "format/protobuf/protobuf_wire.h"

#define DAMAGED rk_error(RK_BAD_DATA, "the record is not a tf.train.Example")

size_t rk_example_max_values(rk_example_kind kind, rk_span list) {
    return kind == RK_EXAMPLE_FLOAT
               ? list.n_bytes / 4
               : list.n_bytes; /* a number takes a byte at least, and so does an empty text's length */
}

/* The numbers of a list that holds them packed, in less than 128 bytes. */
static inline bool find_short_packed_list(rk_span list, rk_span *packed) {
    const uint8_t *at = (const uint8_t *)list.data;
    if (list.n_bytes < 2 || list.n_bytes > 129 || at[0] != (1 << 3 | RK_WIRE_BYTES) ||
        at[1] != list.n_bytes - 2)
        return false;
    *packed = (rk_span){list.data + 2, list.n_bytes - 2};
    return true;
}

static inline bool read_varints(rk_span packed, int64_t *out, size_t *n) {
    rk_wire wire = rk_wire_from_bytes(packed);
    uint64_t number;
    while (wire.at < wire.end) {
        if (!rk_wire_read_varint(&wire, &number)) return false;
        out[(*n)++] = (int64_t)number;
    }
    return true;
}

/* The next element of a list: a text or packed numbers (*bytes), or one number. false at its end or where it
 * is damaged (*ok). */
static inline bool read_list_element(rk_wire *wire, uint32_t number_type, uint32_t *type, uint64_t *number,
                                     rk_span *bytes, bool *ok) {
    uint32_t field;
    while (wire->at < wire->end) {
        *ok = rk_wire_read_field(wire, &field, type, number, bytes);
        if (*ok && field != 1) continue;
        *ok = *ok && (*type == RK_WIRE_BYTES || *type == number_type);
        return *ok;
    }
    return false;
}

rk_status rk_example_read_i64(rk_span list, int64_t *out, size_t *n) {
    rk_wire wire = rk_wire_from_bytes(list);
    uint32_t type;
    uint64_t number;
    rk_span bytes;
    bool ok = true;
    size_t n_values = 0;
    if (find_short_packed_list(list, &bytes)) {
        ok = read_varints(bytes, out, &n_values);
        wire.at = wire.end;
    }
    while (read_list_element(&wire, RK_WIRE_VARINT, &type, &number, &bytes,
                             &ok)) { /* numbers stand one a field or packed in bytes */
        if (type == RK_WIRE_VARINT) out[n_values++] = (int64_t)number;
        if (!read_varints(bytes, out, &n_values)) return DAMAGED;
    }
    *n = n_values;
    return ok ? RK_OK : DAMAGED;
}

rk_status rk_example_read_f32(rk_span list, float *out, size_t *n) {
    rk_wire wire = rk_wire_from_bytes(list);
    uint32_t type;
    uint64_t number;
    rk_span bytes;
    bool ok = true;
    size_t n_values = 0;
    while (read_list_element(&wire, RK_WIRE_FIXED32, &type, &number, &bytes, &ok)) {
        if (type == RK_WIRE_FIXED32) out[n_values++] = rk_f32_from_bits((uint32_t)number);
        if (bytes.n_bytes % sizeof *out) return DAMAGED;
        if (bytes.n_bytes) memcpy(out + n_values, bytes.data, bytes.n_bytes);
        n_values += bytes.n_bytes / sizeof *out;
    }
    *n = n_values;
    return ok ? RK_OK : DAMAGED;
}

rk_status rk_example_read_bytes(rk_span list, rk_span *out, size_t *n) {
    rk_wire wire = rk_wire_from_bytes(list);
    uint32_t type;
    uint64_t number;
    bool ok = true;
    size_t n_values = 0;
    while (read_list_element(&wire, RK_WIRE_BYTES, &type, &number, &out[n_values], &ok)) n_values++;
    *n = n_values;
    return ok ? RK_OK : DAMAGED;
}

static rk_status read_feature(rk_span name, rk_span feature, const rk_example_visitor *v) {
    rk_wire wire = rk_wire_from_bytes(feature);
    while (wire.at < wire.end) {
        uint32_t field, type;
        uint64_t number;
        rk_span bytes;
        if (!rk_wire_read_field(&wire, &field, &type, &number, &bytes)) return DAMAGED;
        if (field < 1 || field > 3) continue;
        if (type != RK_WIRE_BYTES) return DAMAGED;
        RK_TRY(v->feature(v->context, name, (rk_example_kind)(field - 1), bytes));
    }
    return RK_OK;
}

/* An entry as every writer makes them: name, then a feature of one list, each length in one byte. Its parts
 * are found by their places alone. */
static inline bool parse_short_feature_entry(rk_span entry, rk_span *name, rk_example_kind *kind,
                                             rk_span *list) {
    const uint8_t *at = (const uint8_t *)entry.data;
    if (entry.n_bytes < 6 || entry.n_bytes > 127 || at[0] != (1 << 3 | RK_WIRE_BYTES)) return false;
    size_t n_name = at[1], n_rest = entry.n_bytes - 2 - n_name;
    if (n_name > entry.n_bytes - 6) return false;
    const uint8_t *rest = at + 2 + n_name;
    if (rest[0] != (2 << 3 | RK_WIRE_BYTES) || rest[1] != n_rest - 2 || rest[3] != n_rest - 4 ||
        (rest[2] & 7) != RK_WIRE_BYTES || rest[2] >> 3 < 1 || rest[2] >> 3 > 3)
        return false;
    *name = (rk_span){entry.data + 2, n_name};
    *kind = (rk_example_kind)((rest[2] >> 3) - 1);
    *list = (rk_span){(const char *)rest + 4, n_rest - 4};
    return true;
}

static rk_status read_feature_entry(rk_span entry, const rk_example_visitor *v) {
    rk_span plain_name, list;
    rk_example_kind kind;
    if (parse_short_feature_entry(entry, &plain_name, &kind, &list))
        return v->feature(v->context, plain_name, kind, list);
    rk_span name = {"", 0}, feature = {"", 0};
    rk_wire wire = rk_wire_from_bytes(entry);
    while (wire.at < wire.end) {
        uint32_t field, type;
        uint64_t number;
        rk_span bytes;
        if (!rk_wire_read_field(&wire, &field, &type, &number, &bytes)) return DAMAGED;
        if (field <= 2 && type != RK_WIRE_BYTES) return DAMAGED;
        if (field == 1) name = bytes;
        if (field == 2) feature = bytes;
    }
    return read_feature(name, feature, v);
}

rk_status rk_example_parse(const void *data, size_t n_bytes, const rk_example_visitor *v) {
    return rk_example_parse_known(data, n_bytes, v, NULL);
}

rk_status rk_example_parse_known(const void *data, size_t n_bytes, const rk_example_visitor *v,
                                 rk_example_known known) {
    rk_wire example = rk_wire_from_bytes((rk_span){data, n_bytes});
    while (example.at < example.end) {
        uint32_t field, type;
        uint64_t number;
        rk_span features, entry;
        if (!rk_wire_read_field(&example, &field, &type, &number, &features)) return DAMAGED;
        if (field != 1) continue;
        if (type != RK_WIRE_BYTES) return DAMAGED;
        rk_wire map = rk_wire_from_bytes(features);
        while (map.at < map.end) {
            if (known)
                map.at += known(v->context, (rk_span){(const char *)map.at, (size_t)(map.end - map.at)});
            if (map.at == map.end) break;
            if (!rk_wire_read_field(&map, &field, &type, &number, &entry)) return DAMAGED;
            if (field != 1) continue;
            if (type != RK_WIRE_BYTES) return DAMAGED;
            RK_TRY(read_feature_entry(entry, v));
        }
    }
    return RK_OK;
}

static size_t encoded_varint_bytes(uint64_t value) {
    size_t n = 1;
    for (; value >= 128; value >>= 7) n++;
    return n;
}

/* Of a field whose number takes one byte, as all of an Example do. */
static size_t encoded_field_bytes(size_t n_bytes) {
    return 1 + encoded_varint_bytes(n_bytes) + n_bytes;
}

/* writer->list holds the inner list; wrap it as Feature, as a map entry, and append it to
 * writer->features. */
static void write_feature(rk_example_writer *w, const char *name, rk_example_kind kind) {
    rk_buffer *out = &w->features;
    size_t n_name = strlen(name), n_feature = encoded_field_bytes(w->list.n_bytes);
    rk_wire_write_bytes_header(out, 1, encoded_field_bytes(n_name) + encoded_field_bytes(n_feature));
    rk_wire_write_bytes(out, 1, name, n_name);
    rk_wire_write_bytes_header(out, 2, n_feature);
    rk_wire_write_bytes(out, (uint32_t)kind + 1, w->list.data, w->list.n_bytes);
    if (out->status == RK_OK) out->status = w->list.status;
    rk_buffer_clear(&w->list);
}

void rk_example_add_i64(rk_example_writer *w, const char *name, const int64_t *values, size_t n) {
    size_t n_bytes = 0;
    for (size_t i = 0; i < n; i++) n_bytes += encoded_varint_bytes((uint64_t)values[i]);
    if (n) rk_wire_write_bytes_header(&w->list, 1, n_bytes);
    for (size_t i = 0; i < n; i++) rk_wire_write_varint(&w->list, (uint64_t)values[i]);
    write_feature(w, name, RK_EXAMPLE_INT64);
}

void rk_example_add_f32(rk_example_writer *w, const char *name, const float *values, size_t n) {
    if (n) rk_wire_write_bytes_header(&w->list, 1, n * sizeof *values);
    for (size_t i = 0; i < n; i++) rk_buffer_append_u32le(&w->list, rk_f32_bits(values[i]));
    write_feature(w, name, RK_EXAMPLE_FLOAT);
}

void rk_example_add_bytes(rk_example_writer *w, const char *name, const rk_span *values, size_t n) {
    for (size_t i = 0; i < n; i++) rk_wire_write_bytes(&w->list, 1, values[i].data, values[i].n_bytes);
    write_feature(w, name, RK_EXAMPLE_BYTES);
}

rk_status rk_example_finish(rk_example_writer *w, rk_buffer *out) {
    rk_status status = w->features.status;
    if (status == RK_OK) {
        rk_wire_write_bytes(out, 1, w->features.data, w->features.n_bytes);
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
