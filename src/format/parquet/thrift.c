#include "format/parquet/thrift.h"

enum { MOST_DEPTH = 32 };

static void mark_reader_damaged(rk_thrift *t) {
    t->failed = true;
    t->at = t->end;
}

static uint8_t read_byte(rk_thrift *t) {
    if (t->at < t->end) return *t->at++;
    mark_reader_damaged(t);
    return 0;
}

uint64_t rk_thrift_read_varint(rk_thrift *t) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t byte = read_byte(t);
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return value;
    }
    mark_reader_damaged(t);
    return 0;
}

bool rk_thrift_next_field(rk_thrift *t, rk_thrift_field *f) {
    uint8_t head = read_byte(t);
    if (t->failed || head == RK_THRIFT_STOP) return false;
    f->type = (rk_thrift_type)(head & 15);
    int64_t id = head >> 4 ? f->id + (head >> 4) : rk_thrift_unzigzag(rk_thrift_read_varint(t));
    if (f->type == RK_THRIFT_STOP || f->type > RK_THRIFT_STRUCT || id < 0 || id > INT16_MAX)
        mark_reader_damaged(t);
    f->id = (int32_t)id;
    return !t->failed;
}

int64_t rk_thrift_read_int(rk_thrift *t, const rk_thrift_field *f) {
    if (f->type == RK_THRIFT_I8) return (int8_t)read_byte(t);
    if (f->type >= RK_THRIFT_I16 && f->type <= RK_THRIFT_I64)
        return rk_thrift_unzigzag(rk_thrift_read_varint(t));
    mark_reader_damaged(t);
    return 0;
}

bool rk_thrift_read_bool(rk_thrift *t, const rk_thrift_field *f) {
    if (f->type != RK_THRIFT_TRUE && f->type != RK_THRIFT_FALSE) mark_reader_damaged(t);
    return f->type == RK_THRIFT_TRUE;
}

static rk_span read_bytes(rk_thrift *t, uint64_t n) {
    if (n > (uint64_t)(t->end - t->at)) mark_reader_damaged(t);
    if (t->failed) return (rk_span){"", 0};
    rk_span out = {(const char *)t->at, (size_t)n};
    t->at += n;
    return out;
}

rk_span rk_thrift_read_binary(rk_thrift *t, const rk_thrift_field *f) {
    if (f->type != RK_THRIFT_BINARY) mark_reader_damaged(t);
    return read_bytes(t, rk_thrift_read_varint(t));
}

static int64_t read_list_head(rk_thrift *t, rk_thrift_type *element) {
    uint8_t head = read_byte(t);
    uint64_t n = head >> 4 == 15 ? rk_thrift_read_varint(t) : head >> 4;
    *element = (rk_thrift_type)(head & 15);
    if (n > (uint64_t)(t->end - t->at)) mark_reader_damaged(t);
    return t->failed ? 0 : (int64_t)n;
}

int64_t rk_thrift_begin_list(rk_thrift *t, const rk_thrift_field *f, rk_thrift_type element) {
    rk_thrift_type found;
    if (f->type != RK_THRIFT_LIST) mark_reader_damaged(t);
    int64_t n = read_list_head(t, &found);
    if (n && found != element) mark_reader_damaged(t);
    return t->failed ? 0 : n;
}

bool rk_thrift_begin_struct(rk_thrift *t, const rk_thrift_field *f) {
    if (f->type != RK_THRIFT_STRUCT) mark_reader_damaged(t);
    return !t->failed;
}

static void skip_value(rk_thrift *t, rk_thrift_type type, bool in_list, int depth);

static void skip_list(rk_thrift *t, int depth) {
    rk_thrift_type element;
    int64_t n = read_list_head(t, &element);
    for (int64_t i = 0; i < n && !t->failed; i++) skip_value(t, element, true, depth);
}

static void skip_map(rk_thrift *t, int depth) {
    uint64_t n = rk_thrift_read_varint(t);
    uint8_t types = n ? read_byte(t) : 0;
    for (uint64_t i = 0; i < n && !t->failed; i++) {
        skip_value(t, (rk_thrift_type)(types >> 4), true, depth);
        skip_value(t, (rk_thrift_type)(types & 15), true, depth);
    }
}

static void skip_struct(rk_thrift *t, int depth) {
    for (rk_thrift_field f = {0}; rk_thrift_next_field(t, &f);) skip_value(t, f.type, false, depth);
}

static void skip_value(rk_thrift *t, rk_thrift_type type, bool in_list, int depth) {
    if (depth == MOST_DEPTH) {
        mark_reader_damaged(t);
        return;
    }
    switch (type) {
        case RK_THRIFT_TRUE:
        case RK_THRIFT_FALSE:
            if (in_list) read_byte(t);
            return;
        case RK_THRIFT_I8:
            read_byte(t);
            return;
        case RK_THRIFT_I16:
        case RK_THRIFT_I32:
        case RK_THRIFT_I64:
            rk_thrift_read_varint(t);
            return;
        case RK_THRIFT_F64:
            read_bytes(t, 8);
            return;
        case RK_THRIFT_BINARY:
            read_bytes(t, rk_thrift_read_varint(t));
            return;
        case RK_THRIFT_LIST:
        case RK_THRIFT_SET:
            skip_list(t, depth + 1);
            return;
        case RK_THRIFT_MAP:
            skip_map(t, depth + 1);
            return;
        case RK_THRIFT_STRUCT:
            skip_struct(t, depth + 1);
            return;
        default:
            mark_reader_damaged(t);
    }
}

void rk_thrift_skip_field(rk_thrift *t, const rk_thrift_field *f) {
    skip_value(t, f->type, false, 0);
}
