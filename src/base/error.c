#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <reckon/version.h>

#include "base/text/text.h"

enum { MAX_ERROR_BYTES = 4096 };
static _Thread_local char last_error[MAX_ERROR_BYTES];

const char *rk_status_name(rk_status status) {
    switch (status) {
#define RK_STATUS_NAME(name, value, text) \
    case RK_##name:                       \
        return "RK_" #name;
        RK_STATUS_LIST(RK_STATUS_NAME)
#undef RK_STATUS_NAME
    }
    return "RK_UNKNOWN";
}

const char *rk_status_text(rk_status status) {
    switch (status) {
#define RK_STATUS_TEXT(name, value, text) \
    case RK_##name:                       \
        return text;
        RK_STATUS_LIST(RK_STATUS_TEXT)
#undef RK_STATUS_TEXT
    }
    return "no such status";
}

const char *rk_last_error(void) {
    return last_error;
}

const char *rk_version(void) {
#define RK_TEXT(number)  #number
#define RK_DIGITS(macro) RK_TEXT(macro)
    return RK_DIGITS(RK_VERSION_MAJOR) "." RK_DIGITS(RK_VERSION_MINOR) "." RK_DIGITS(RK_VERSION_PATCH);
#undef RK_DIGITS
#undef RK_TEXT
}

/* The message may name the old one (%s of rk_last_error()), so it is written aside first. */
static void set_last_error(const char *text) {
    snprintf(last_error, sizeof last_error, "%s", text);
}

rk_status rk_error(rk_status status, const char *format, ...) {
    char text[MAX_ERROR_BYTES];
    va_list list;
    va_start(list, format);
    rk_vsnprintf(text, sizeof text, format, list);
    va_end(list);
    set_last_error(text);
    return status;
}

rk_status rk_error_errno(rk_status status, int errno_value, const char *format, ...) {
    char text[MAX_ERROR_BYTES], reason[256];
    va_list list;
    va_start(list, format);
    int n = rk_vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *message = strerror_r(errno_value, reason, sizeof reason);
    if (n >= 0 && (size_t)n < sizeof text) snprintf(text + n, sizeof text - (size_t)n, ": %s", message);
    set_last_error(text);
    return status;
}

rk_status rk_error_context(rk_status status, const char *format, ...) {
    char text[MAX_ERROR_BYTES];
    va_list list;
    va_start(list, format);
    int n = rk_vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (n >= 0 && (size_t)n + 3 < sizeof text) {
        memcpy(text + n, ": ", 2);
        memcpy(text + n + 2, last_error, sizeof text - (size_t)n - 2);
        text[sizeof text - 1] = 0;
    }
    set_last_error(text);
    return status;
}

rk_status rk_error_hint(rk_status status, const char *format, ...) {
    char text[MAX_ERROR_BYTES];
    int n = snprintf(text, sizeof text, "%s\nhint: ", last_error);
    va_list list;
    va_start(list, format);
    if (n >= 0 && (size_t)n < sizeof text) rk_vsnprintf(text + n, sizeof text - (size_t)n, format, list);
    va_end(list);
    set_last_error(text);
    return status;
}

void rk_error_copy(char *text, unsigned long text_bytes) {
    snprintf(text, text_bytes, "%s", last_error);
}
