#include "format/json_text.h"

#include <jansson.h>
#include <stdlib.h>

rk_status rk_json_text_string(rk_buffer *out, const char *text) {
    json_t *string = json_string(text);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    json_decref(string);
    RK_FAIL_IF(!quoted, RK_INVALID_ARGUMENT, "the name '%s' is not UTF-8", text);
    rk_buffer_text(out, quoted);
    free(quoted);
    return out->status;
}
