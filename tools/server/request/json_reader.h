/* JSON (RFC 8259) read in one pass from memory, without a tree: the caller asks for what it wants next.
 * Nothing is copied but texts with escapes. NaN and Infinity are no JSON, and refused. */
#ifndef RK_SERVER_JSON_READER_H
#define RK_SERVER_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/text/text.h"

typedef enum rk_json_kind {
    RK_JSON_NULL,
    RK_JSON_FALSE,
    RK_JSON_TRUE,
    RK_JSON_NUMBER,
    RK_JSON_TEXT,
    RK_JSON_ARRAY,
    RK_JSON_OBJECT
} rk_json_kind;

typedef struct rk_json {
    const char *begin, *at, *end;
    int depth, max_depth; /* of arrays and objects that are open */
    bool first;           /* of the innermost open one, no value has been read */
    rk_status status;     /* of the last rk_json_next_key or rk_json_next_item */
    rk_buffer texts;      /* of texts with escapes; kept until rk_json_release */
} rk_json;

/* text outlives the reader. A zeroed reader may be given, or one that was used before: its memory serves
 * again. */
void rk_json_begin_document(rk_json *json, rk_span text, int max_depth);
/* The same of a value that stands in a text; errors name bytes of the text. */
void rk_json_begin_part(rk_json *json, rk_span text, rk_span part, int max_depth);
void rk_json_release(rk_json *json);

/* Errors of all: RK_BAD_DATA, naming the byte; RK_NO_MEMORY. */

/* What comes next, without reading it. */
rk_status rk_json_peek_kind(rk_json *json, rk_json_kind *kind);
/* Into an object; then its keys, one by one, each followed by a read of its value. False: it has ended, or
 * what follows is no key, as json->status says then. */
rk_status rk_json_open_object(rk_json *json);
bool rk_json_next_key(rk_json *json, rk_span *key);
/* Into an array; then before each of its values, likewise. */
rk_status rk_json_open_array(rk_json *json);
bool rk_json_next_item(rk_json *json);
/* A text without its quotes and escapes, UTF-8, valid until rk_json_release or the next
 * rk_json_begin_document. */
rk_status rk_json_read_text(rk_json *json, rk_span *text);
/* {"b64": ...}: the bytes that the base64 text means, valid as long. */
rk_status rk_json_read_base64(rk_json *json, rk_span *bytes);
/* A number as it stands. */
rk_status rk_json_read_number(rk_json *json, rk_span *text);
rk_status rk_json_read_i64(rk_json *json, int64_t *value);
rk_status rk_json_read_bool(rk_json *json, bool *value);
/* Any value, which is checked all the same. value: where it stands, to be read later; may be NULL. */
rk_status rk_json_skip_value(rk_json *json, rk_span *value);
/* Nothing but spaces may be left behind what has ended. */
rk_status rk_json_check_end(rk_json *json);

rk_status rk_json_error(const rk_json *json, const char *what);

#endif
