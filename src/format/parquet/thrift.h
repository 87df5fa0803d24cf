/* Thrift's compact protocol, as far as Parquet's headers need it: read out of bytes that others may have
 * written. The first thing that cannot be sticks in `failed`; from there on everything is at its end, so that
 * a struct is checked once. */
#ifndef RK_FORMAT_PARQUET_THRIFT_H
#define RK_FORMAT_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/text.h"

typedef enum rk_thrift_type {
    RK_THRIFT_STOP,
    RK_THRIFT_TRUE, /* a bool's value is its type; in lists either of the two is a byte */
    RK_THRIFT_FALSE,
    RK_THRIFT_I8,
    RK_THRIFT_I16,
    RK_THRIFT_I32,
    RK_THRIFT_I64,
    RK_THRIFT_F64,
    RK_THRIFT_BINARY,
    RK_THRIFT_LIST,
    RK_THRIFT_SET,
    RK_THRIFT_MAP,
    RK_THRIFT_STRUCT
} rk_thrift_type;

typedef struct rk_thrift {
    const uint8_t *at, *end;
    bool failed;
} rk_thrift;

/* A field of the struct that is being read; id is that of the field before, 0 at first. False: it has no
 * more, or failed. */
typedef struct rk_thrift_field {
    int32_t id;
    rk_thrift_type type;
} rk_thrift_field;
bool rk_thrift_next_field(rk_thrift *thrift, rk_thrift_field *field);

/* The field's value; one of another type fails. */
int64_t rk_thrift_read_int(rk_thrift *thrift, const rk_thrift_field *field);
bool rk_thrift_read_bool(rk_thrift *thrift, const rk_thrift_field *field);
rk_span rk_thrift_read_binary(rk_thrift *thrift, const rk_thrift_field *field); /* stands in the bytes */
/* A list's length, which is no more than the bytes that are left; its elements, all of the type, follow. */
int64_t rk_thrift_begin_list(rk_thrift *thrift, const rk_thrift_field *field, rk_thrift_type element);
/* True, and the struct's fields follow; false: failed. */
bool rk_thrift_begin_struct(rk_thrift *thrift, const rk_thrift_field *field);
void rk_thrift_skip_field(rk_thrift *thrift, const rk_thrift_field *field);

/* The next unsigned number of 7 bits a byte, which Parquet's encodings have too. */
uint64_t rk_thrift_read_varint(rk_thrift *thrift);
static inline int64_t rk_thrift_unzigzag(uint64_t value) {
    return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}

#endif
