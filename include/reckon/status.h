/* Status codes, the last error of a thread, and the log.
 *
 * Every public function that can fail returns an rk_status. Results go through trailing out-parameters, which
 * a failed call leaves untouched. The reason, with the context added on the way up, is in rk_last_error() of
 * the calling thread.
 * Stable (docs/api.md). */
#ifndef RECKON_STATUS_H
#define RECKON_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RK_API               __attribute__((visibility("default")))
#define RK_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define RK_MUST_USE          __attribute__((warn_unused_result))
#else
#define RK_API
#define RK_PRINTF(fmt, args)
#define RK_MUST_USE
#endif

/* The one table that yields the enum, the names and the texts. A value never changes its meaning; a new one
 * is added with the next free number. X(name, value, text) */
#define RK_STATUS_LIST(X)                                                    \
    X(OK, 0, "ok")                                                           \
    X(INVALID_ARGUMENT, 1, "an argument is not one that the function takes") \
    X(CONFIG, 2, "the configuration is wrong")                               \
    X(NOT_FOUND, 3, "something that was named does not exist")               \
    X(BAD_DATA, 4, "input data is cut, corrupt or of the wrong shape")       \
    X(IO, 5, "a file could not be read or written")                          \
    X(NO_MEMORY, 6, "memory ran out")                                        \
    X(NOT_FINITE, 7, "a value is not a finite number")                       \
    X(UNSUPPORTED, 8, "this build or machine cannot do it")                  \
    X(INTERRUPTED, 9, "a signal or a caller asked to stop")                  \
    X(PEER_LOST, 10, "another rank ended, hangs or cannot be reached")       \
    X(END, 11, "there is no more data")                                      \
    X(INTERNAL, 12, "a defect in the library")                               \
    X(BUSY, 13, "another process has it in use")                             \
    X(UNAVAILABLE, 14, "a service that it needs cannot be reached")

typedef enum rk_status {
#define RK_STATUS_ENUM(name, value, text) RK_##name = value,
    RK_STATUS_LIST(RK_STATUS_ENUM)
#undef RK_STATUS_ENUM
} rk_status;

/* "RK_OK", "RK_CONFIG", ...; "RK_UNKNOWN" for a number that is no status. */
RK_API const char *rk_status_name(rk_status status);

/* One sentence on what the code means; never NULL. */
RK_API const char *rk_status_text(rk_status status);

/* The reason of the last failure on this thread, outermost context first; possibly several lines, the last of
 * which may begin with "hint: ". Owned by the library, valid until the next failing call on this thread. ""
 * if none. */
RK_API const char *rk_last_error(void);

typedef enum rk_log_level { RK_LOG_DEBUG, RK_LOG_INFO, RK_LOG_WARNING, RK_LOG_ERROR } rk_log_level;

/* The library never prints. Messages of at least `level` go to `callback` (NULL: nowhere, the default), which
 * may be called from any thread, one call at a time. `message` has no newline at its end and is valid during
 * the call only. */
typedef void (*rk_log_callback)(void *user, rk_log_level level, const char *message);
RK_API void rk_log_set(rk_log_callback callback, void *user, rk_log_level level);

#ifdef __cplusplus
}
#endif
#endif
