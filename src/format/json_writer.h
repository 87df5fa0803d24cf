/* JSON, written piece by piece. */
#ifndef RK_FORMAT_JSON_WRITER_H
#define RK_FORMAT_JSON_WRITER_H

#include "base/buffer.h"
#include "base/text/text.h"

/* A JSON string, in quotes. RK_INVALID_ARGUMENT: the text is not UTF-8. */
rk_status rk_json_write_string(rk_buffer *out, const char *text);
/* The same of any bytes: each that is no part of a character becomes U+FFFD. */
void rk_json_write_string_repaired(rk_buffer *out, rk_span text);

#endif
