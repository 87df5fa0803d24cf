#include "base/file/directory_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"

#define FILE_NAME ".lock"
enum { TELL_BYTES = 512, HOLDER_BYTES = 256, TRIES = 100 };

struct rk_directory_lock {
    char *directory, *path;
    int descriptor;
    bool made_directory;
};

/* Who holds it: a process, its host, when it began, in ticks since that host did (0: not known), and in
 * words. */
typedef struct holder {
    long pid;
    char host[HOLDER_BYTES];
    unsigned long long began;
    char since[64];
} holder;

/* The 22nd field of /proc/PID/stat: with it a process is told from a later one of the same number. 0: not
 * known. */
static unsigned long long process_start_time(long pid) {
    char path[64], text[1024];
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *at = strrchr(text, ')'); /* of the command's name, which may hold anything */
    if (!at ||
        sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks) != 1)
        return 0;
    return ticks;
}

static void get_host_name(char host[HOLDER_BYTES]) {
    if (gethostname(host, HOLDER_BYTES) != 0) snprintf(host, HOLDER_BYTES, "unknown");
    host[HOLDER_BYTES - 1] = 0;
}

static bool read_holder(int descriptor, holder *out) {
    char text[TELL_BYTES];
    ssize_t n = pread(descriptor, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return sscanf(text, "pid %ld\nhost %255[^\n]\nbegan %llu\nsince %63[^\n]\nend", &out->pid, out->host,
                  &out->began, out->since) == 4 &&
           strstr(text, "\nend\n");
}

static rk_status write_holder(const rk_directory_lock *lock) {
    char text[TELL_BYTES], host[HOLDER_BYTES], since[64];
    time_t now = time(NULL);
    struct tm utc;
    get_host_name(host);
    strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &utc));
    int n = snprintf(text, sizeof text, "pid %ld\nhost %s\nbegan %llu\nsince %s\nend\n", (long)getpid(), host,
                     process_start_time((long)getpid()), since);
    bool written = ftruncate(lock->descriptor, 0) == 0 && pwrite(lock->descriptor, text, (size_t)n, 0) == n;
    return written ? RK_OK : rk_error_errno(RK_IO, errno, "could not write '%s'", lock->path);
}

static rk_status in_use_error(const rk_directory_lock *lock, const holder *by, const char *hint) {
    if (by)
        (void)rk_error(RK_BUSY, "'%s' is in use: process %ld on host %s writes there since %s",
                       lock->directory, by->pid, by->host, by->since);
    else
        (void)rk_error(RK_BUSY, "'%s' is in use by another process", lock->directory);
    return rk_error_hint(RK_BUSY, "%s", hint);
}

/* The kernel has refused. Whoever holds it may not have said so yet. */
static rk_status in_use_error_naming_holder(const rk_directory_lock *lock) {
    static const char hint[] = "wait until it has ended, or stop it, or write to another directory";
    holder by;
    for (int i = 0; i < TRIES; i++) {
        if (read_holder(lock->descriptor, &by)) return in_use_error(lock, &by, hint);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return in_use_error(lock, NULL, hint);
}

/* Whether the process may still be there; of other hosts nobody knows. */
static bool holder_may_be_running(const holder *by) {
    char host[HOLDER_BYTES];
    get_host_name(host);
    if (strcmp(by->host, host) != 0) return true;
    if (kill((pid_t)by->pid, 0) != 0 && errno == ESRCH) return false;
    return by->began == 0 || process_start_time(by->pid) == 0 || process_start_time(by->pid) == by->began;
}

/* A file system without locks: what the file says counts. */
static rk_status acquire_without_flock(const rk_directory_lock *lock) {
    holder by;
    if (read_holder(lock->descriptor, &by) && holder_may_be_running(&by)) {
        char hint[PATH_MAX + 100];
        snprintf(hint, sizeof hint,
                 "the file system has no locks, so '%s' counts; if that process has ended, remove the file",
                 lock->path);
        return in_use_error(lock, &by, hint);
    }
    rk_log(RK_LOG_WARNING,
           "'%s' cannot be locked: its file system does not support locks. Two runs that start there at the "
           "same moment would overwrite each other",
           lock->directory);
    return RK_OK;
}

/* Whether the file is still the one of that name: its last holder may have removed it. */
static bool is_file_at_path(const rk_directory_lock *lock) {
    struct stat own, named;
    return fstat(lock->descriptor, &own) == 0 && stat(lock->path, &named) == 0 &&
           own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

static void close_lock_file(rk_directory_lock *lock) {
    if (lock->descriptor >= 0) close(lock->descriptor);
    lock->descriptor = -1;
}

/* Not taken, though nobody has it: its last holder has just removed the file, or the directory. */
static rk_status try_acquire_lock(rk_directory_lock *lock, bool *taken) {
    RK_TRY(rk_make_directories(lock->directory));
    lock->descriptor = open(lock->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (lock->descriptor < 0)
        return errno == ENOENT ? RK_OK : rk_error_errno(RK_IO, errno, "could not open '%s'", lock->path);
    int failed = flock(lock->descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (failed == EINTR || !is_file_at_path(lock)) return RK_OK;
    if (failed == EWOULDBLOCK) return in_use_error_naming_holder(lock);
    if (failed) RK_TRY(acquire_without_flock(lock));
    RK_TRY(write_holder(lock));
    *taken = true;
    return RK_OK;
}

static rk_status acquire_lock(rk_directory_lock *lock) {
    bool taken = false;
    for (int i = 0; i < TRIES && !taken; i++) {
        close_lock_file(lock);
        RK_TRY(try_acquire_lock(lock, &taken));
    }
    if (!taken && lock->descriptor < 0) /* a link that leads nowhere, or a directory that takes no files */
        return rk_error_errno(RK_IO, ENOENT, "could not open '%s'", lock->path);
    return taken ? RK_OK
                 : in_use_error(lock, NULL,
                                "runs begin and end there without pause; write to another directory");
}

rk_status rk_directory_lock_acquire(const char *directory, rk_directory_lock **out) {
    rk_directory_lock *lock;
    RK_TRY(rk_alloc(1, sizeof *lock, &lock));
    lock->descriptor = -1;
    lock->made_directory = !rk_file_exists(directory);
    rk_status status;
    RK_GOTO(rk_strdup(directory, &lock->directory));
    RK_GOTO(rk_path_join(directory, FILE_NAME, &lock->path));
    RK_GOTO(acquire_lock(lock));
    *out = lock;
    return RK_OK;
done:
    close_lock_file(lock);
    RK_FREE_ALL(lock->directory, lock->path, lock);
    return status;
}

void rk_directory_lock_free(rk_directory_lock *lock) {
    if (!lock) return;
    if (is_file_at_path(lock)) unlink(lock->path);
    if (lock->made_directory) rmdir(lock->directory); /* which fails where there is something in it */
    close_lock_file(lock);
    RK_FREE_ALL(lock->directory, lock->path, lock);
}
