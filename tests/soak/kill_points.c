/* Preloaded: counts the calls by which a process changes files, and kills it at one of them. KILL_AT: its
 * number, from 1; KILL_LOG: a file to which each is added; KILL_IN: those alone that are of a path with this
 * text. A write is half done by then. NO_EXCHANGE, NO_LOCKS: a file system that has none. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags);
int flock(int descriptor, int operation);

#define NEXT(type, name) ((type)(size_t)dlsym(RTLD_NEXT, name))
typedef int (*one_path)(const char *);
typedef int (*two_paths)(const char *, const char *);
typedef int (*one_descriptor)(int);
typedef ssize_t (*writer)(int, const void *, size_t);
typedef ssize_t (*placed_writer)(int, const void *, size_t, off_t);
typedef int (*cutter)(const char *, off_t);
typedef int (*open_cutter)(int, off_t);
typedef int (*exchanger)(int, const char *, int, const char *, unsigned);
typedef int (*maker)(const char *, mode_t);
typedef int (*locker)(int, int);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the count and the log */
static int n_calls;

static void log_call(const char *log, const char *call, const char *path) {
    FILE *file = log ? fopen(log, "a") : NULL;
    if (!file) return;
    fprintf(file, "%d %s %s\n", n_calls, call, path);
    fclose(file);
}

/* Whether this is the one. The log has every call that was counted before it, whichever thread's it was. */
static int is_hit(const char *call, const char *path) {
    const char *at = getenv("KILL_AT"), *in = getenv("KILL_IN");
    if (in && !strstr(path, in)) return 0;
    pthread_mutex_lock(&mutex);
    int number = ++n_calls;
    log_call(getenv("KILL_LOG"), call, path);
    pthread_mutex_unlock(&mutex);
    return at && atoi(at) == number;
}

static int is_hit_of(const char *call, int descriptor) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    return is_hit(call, path);
}

static void end(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static void hit(const char *call, const char *path) {
    if (is_hit(call, path)) end();
}

int rename(const char *from, const char *to) {
    hit("rename", to);
    return NEXT(two_paths, "rename")(from, to);
}

int renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned flags) {
    if (getenv("NO_EXCHANGE")) {
        errno = EINVAL;
        return -1;
    }
    hit("exchange", to);
    return NEXT(exchanger, "renameat2")(from_directory, from, to_directory, to, flags);
}

int link(const char *from, const char *to) {
    hit("link", to);
    return NEXT(two_paths, "link")(from, to);
}

int unlink(const char *path) {
    hit("unlink", path);
    return NEXT(one_path, "unlink")(path);
}

int rmdir(const char *path) {
    hit("rmdir", path);
    return NEXT(one_path, "rmdir")(path);
}

int mkdir(const char *path, mode_t mode) {
    hit("mkdir", path);
    return NEXT(maker, "mkdir")(path, mode);
}

int truncate(const char *path, off_t n_bytes) {
    hit("truncate", path);
    return NEXT(cutter, "truncate")(path, n_bytes);
}

/* By both of its names: which one a program has depends on what it was compiled with. */
int ftruncate(int descriptor, off_t n_bytes) {
    if (is_hit_of("ftruncate", descriptor)) end();
    return NEXT(open_cutter, "ftruncate")(descriptor, n_bytes);
}

int ftruncate64(int descriptor, off_t n_bytes) {
    return ftruncate(descriptor, n_bytes);
}

int fsync(int descriptor) {
    if (is_hit_of("fsync", descriptor)) end();
    return NEXT(one_descriptor, "fsync")(descriptor);
}

ssize_t write(int descriptor, const void *data, size_t n_bytes) {
    writer next = NEXT(writer, "write");
    if (descriptor > 2 && is_hit_of("write", descriptor)) {
        (void)!next(descriptor, data, n_bytes / 2);
        end();
    }
    return next(descriptor, data, n_bytes);
}

ssize_t pwrite(int descriptor, const void *data, size_t n_bytes, off_t offset) {
    placed_writer next = NEXT(placed_writer, "pwrite");
    if (is_hit_of("pwrite", descriptor)) {
        (void)!next(descriptor, data, n_bytes / 2, offset);
        end();
    }
    return next(descriptor, data, n_bytes, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t n_bytes, off_t offset) {
    return pwrite(descriptor, data, n_bytes, offset);
}

int flock(int descriptor, int operation) {
    if (getenv("NO_LOCKS")) {
        errno = ENOLCK;
        return -1;
    }
    return NEXT(locker, "flock")(descriptor, operation);
}
