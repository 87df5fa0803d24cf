/* How every function of the library reports failure. See docs/errors.md. */
#ifndef RK_BASE_ERROR_H
#define RK_BASE_ERROR_H

#include <reckon/status.h>

/* Replace this thread's last error; returns `status`, so that `return rk_error(RK_IO, "...")` reads well.
 * Messages: lower case, the subject in 'quotes', an optional last line "hint: ...". Never allocates; long
 * ones are cut. */
rk_status rk_error(rk_status status, const char *format, ...) RK_PRINTF(2, 3);

/* As rk_error, and appends ": strerror(errno_value)" to the first line. */
rk_status rk_error_errno(rk_status status, int errno_value, const char *format, ...) RK_PRINTF(3, 4);

/* Put "context: " before this thread's last error; returns `status`. */
rk_status rk_error_context(rk_status status, const char *format, ...) RK_PRINTF(2, 3);

/* Append "\nhint: ..." to this thread's last error; returns `status`. */
rk_status rk_error_hint(rk_status status, const char *format, ...) RK_PRINTF(2, 3);

/* Carry one thread's error to another: copy it out there, set it here. `text` is owned by the caller. */
void rk_error_copy(char *text, unsigned long text_bytes);

/* Return early with the failure of `expr`. */
#define RK_TRY(expr)                                        \
    do {                                                    \
        rk_status rk_try_status_ = (expr);                  \
        if (rk_try_status_ != RK_OK) return rk_try_status_; \
    } while (0)

/* For functions with one `done:` that cleans up; needs a local `rk_status status`. */
#define RK_GOTO(expr)                   \
    do {                                \
        status = (expr);                \
        if (status != RK_OK) goto done; \
    } while (0)

#define RK_FAIL_IF(condition, code, ...)                     \
    do {                                                     \
        if (condition) return rk_error((code), __VA_ARGS__); \
    } while (0)

#define RK_NO_MEMORY_ERROR(bytes) rk_error(RK_NO_MEMORY, "could not allocate %zu bytes", (size_t)(bytes))

#endif
