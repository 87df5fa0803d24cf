/* Preloaded: a world that is odd but allowed. ODD=interrupted: every third read, write and sync is broken off
 * by a signal, and others do half of what was asked. ODD=bare: there is no /proc and no /sys. ODD=clock: the
 * time of day jumps by days, back and forth. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define NEXT(type, name) ((type)(size_t)dlsym(RTLD_NEXT, name))
typedef ssize_t (*reader)(int, void *, size_t);
typedef ssize_t (*reader_at)(int, void *, size_t, off_t);
typedef ssize_t (*writer)(int, const void *, size_t);
typedef int (*syncer)(int);
typedef int (*opener)(const char *, int, ...);
typedef FILE *(*stream_opener)(const char *, const char *);
typedef int (*clock_reader)(clockid_t, struct timespec *);

static atomic_int n_calls;

static int is_odd(const char *what) {
    const char *odd = getenv("ODD");
    return odd && strcmp(odd, what) == 0;
}

/* *n_bytes may become fewer. */
static int is_interrupted(size_t *n_bytes) {
    if (!is_odd("interrupted")) return 0;
    int n = atomic_fetch_add(&n_calls, 1);
    errno = EINTR;
    if (n % 3 == 1 && *n_bytes > 1) *n_bytes /= 2;
    return n % 3 == 0;
}

ssize_t read(int descriptor, void *to, size_t n_bytes) {
    return is_interrupted(&n_bytes) ? -1 : NEXT(reader, "read")(descriptor, to, n_bytes);
}

ssize_t pread(int descriptor, void *to, size_t n_bytes, off_t at) {
    return is_interrupted(&n_bytes) ? -1 : NEXT(reader_at, "pread")(descriptor, to, n_bytes, at);
}

ssize_t write(int descriptor, const void *from, size_t n_bytes) {
    return is_interrupted(&n_bytes) ? -1 : NEXT(writer, "write")(descriptor, from, n_bytes);
}

int fsync(int descriptor) {
    size_t none = 0;
    return is_interrupted(&none) ? -1 : NEXT(syncer, "fsync")(descriptor);
}

static int is_hidden(const char *path) {
    if (!is_odd("bare") || (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0)) return 0;
    errno = ENOENT;
    return 1;
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return is_hidden(path) ? -1 : NEXT(opener, "open")(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode) {
    return is_hidden(path) ? NULL : NEXT(stream_opener, "fopen")(path, mode);
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    enum { THREE_DAYS = 259200 };
    int code = NEXT(clock_reader, "clock_gettime")(clock, out);
    if (code == 0 && clock == CLOCK_REALTIME && is_odd("clock"))
        out->tv_sec += atomic_fetch_add(&n_calls, 1) % 2 ? THREE_DAYS : -THREE_DAYS;
    return code;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
