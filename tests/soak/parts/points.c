/* Ends the process, or tells it to, at the n-th call of one kind: RK_POINT=KIND:N:SIGNAL (0: the call fails,
 * as on a full or broken disk), of the rank RK_POINT_RANK alone if that is set. Memory that is unmapped
 * stays, unreadable, so that whoever uses it still is found. Each call that was done goes to the file
 * RK_POINTS as "KIND [PATH]", for the n of a later run to be drawn from. Of writes those to regular files
 * count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum kind { WRITE, RENAME, UNLINK, RMDIR, MKDIR, FSYNC, CLOCK, N_KINDS };
static const char *const names[N_KINDS] = {"write", "rename", "unlink", "rmdir", "mkdir", "fsync", "clock"};

static atomic_long counts[N_KINDS];
static long at[N_KINDS];
static int signal_number, log_file = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static ssize_t (*real_write)(int, const void *, size_t);

static void begin(void) {
    const char *point = getenv("RK_POINT"), *path = getenv("RK_POINTS"), *wanted = getenv("RK_POINT_RANK"),
               *rank = getenv("OMPI_COMM_WORLD_RANK");
    *(void **)(&real_write) = dlsym(RTLD_NEXT, "write");
    if (wanted && rank && strcmp(wanted, rank) != 0) return;
    if (path) log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    for (int k = 0; point && k < N_KINDS; k++) {
        size_t n = strlen(names[k]);
        if (strncmp(point, names[k], n) == 0 && point[n] == ':')
            sscanf(point + n, ":%ld:%d", &at[k], &signal_number);
    }
}

/* Whether the call is to fail. */
static bool before(enum kind kind) {
    pthread_once(&once, begin);
    if (atomic_fetch_add(&counts[kind], 1) + 1 != at[kind]) return false;
    errno = kind == WRITE ? ENOSPC : EIO;
    if (signal_number == 0) return true;
    kill(getpid(), signal_number);
    while (signal_number == SIGKILL) pause();
    return false;
}

static void done(enum kind kind, int result, const char *path) {
    char line[1100];
    if (log_file < 0 || result < 0) return;
    int n = snprintf(line, sizeof line, "%s %.1000s\n", names[kind], path);
    if (real_write(log_file, line, (size_t)n) != n) abort();
}

/* A function of the C library, put before: what it counts as, and the path that it makes or takes away. */
#define WRAP(kind, name, path, parameters, ...)      \
    int name parameters {                            \
        int(*real) parameters;                       \
        *(void **)(&real) = dlsym(RTLD_NEXT, #name); \
        if (before(kind)) return -1;                 \
        int result = real(__VA_ARGS__);              \
        done(kind, result, path);                    \
        return result;                               \
    }
WRAP(RENAME, rename, to, (const char *from, const char *to), from, to)
WRAP(RENAME, renameat, to, (int a, const char *from, int b, const char *to), a, from, b, to)
WRAP(RENAME, renameat2, to, (int a, const char *from, int b, const char *to, unsigned flags), a, from, b, to,
     flags)
WRAP(RENAME, link, to, (const char *from, const char *to), from, to)
WRAP(UNLINK, unlink, path, (const char *path), path)
WRAP(UNLINK, unlinkat, path, (int a, const char *path, int flags), a, path, flags)
WRAP(UNLINK, remove, path, (const char *path), path)
WRAP(RMDIR, rmdir, path, (const char *path), path)
WRAP(MKDIR, mkdir, path, (const char *path, mode_t mode), path, mode)
WRAP(FSYNC, fsync, "", (int file), file)
WRAP(FSYNC, fdatasync, "", (int file), file)
WRAP(FSYNC, ftruncate, "", (int file, off_t bytes), file, bytes)
WRAP(CLOCK, clock_gettime, "", (clockid_t clock, struct timespec *out), clock, out)

ssize_t write(int file, const void *bytes, size_t n) {
    struct stat about;
    pthread_once(&once, begin);
    if (file <= 2 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return real_write(file, bytes, n);
    if (before(WRITE)) return -1;
    ssize_t result = real_write(file, bytes, n);
    done(WRITE, result < 0 ? -1 : 0, "");
    return result;
}

int munmap(void *data, size_t n_bytes) {
    return mprotect(data, n_bytes, PROT_NONE);
}
