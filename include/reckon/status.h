/* Status codes, the last error of a thread, and the log.
 *
 * Every public function that can fail returns an rk_status. Results go through trailing out-parameters, which
 * a failed call leaves untouched. The reason, with the context added on the way up, is in rk_last_error() of
 * the calling thread. */
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

/* The one table that yields the enum, the names and the texts. X(name, text) */
#define RK_STATUS_LIST(X)                                                 \
    X(OK, "ok")                                                           \
    X(INVALID_ARGUMENT, "an argument is not one that the function takes") \
    X(CONFIG, "the configuration is wrong")                               \
    X(NOT_FOUND, "something that was named does not exist")               \
    X(BAD_DATA, "input data is cut, corrupt or of the wrong shape")       \
    X(IO, "a file could not be read or written")                          \
    X(NO_MEMORY, "memory ran out")                                        \
    X(NOT_FINITE, "a value is not a finite number")                       \
    X(UNSUPPORTED, "this build or machine cannot do it")                  \
    X(INTERRUPTED, "a signal or a caller asked to stop")                  \
    X(PEER_LOST, "another rank ended, hangs or cannot be reached")        \
    X(END, "there is no more data")                                       \
    X(INTERNAL, "a defect in the library")                                \
    X(BUSY, "another process has it in use")

typedef enum rk_status {
#define RK_STATUS_ENUM(name, text) RK_##name,
    RK_STATUS_LIST(RK_STATUS_ENUM)
#undef RK_STATUS_ENUM
        RK_STATUS_COUNT
} rk_status;

/* "RK_OK", "RK_CONFIG", ...; never NULL. */
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

/* The library's version, "major.minor.patch". */
RK_API const char *rk_version(void);

#ifdef __cplusplus
}
#endif
#endif
