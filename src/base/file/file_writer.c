/* Writes files that appear whole or not at all. Outputs that are no files (devices, pipes) are written
 * directly. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"

enum { WRITER_BUFFER_BYTES = 1 << 20 };

static atomic_llong bytes_before_failure = -1;

void rk_file_fail_after(int64_t n_bytes) {
    atomic_store(&bytes_before_failure, n_bytes);
}

/* write(2), except that the test hook can make the disk full. */
static ssize_t write_or_inject_failure(int descriptor, const char *data, size_t n_bytes) {
    long long left = atomic_load(&bytes_before_failure);
    if (left < 0) return write(descriptor, data, n_bytes);
    if (left == 0) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t n = write(descriptor, data, (long long)n_bytes < left ? n_bytes : (size_t)left);
    if (n > 0) atomic_store(&bytes_before_failure, left - n);
    return n;
}

static rk_status write_all(rk_writer *writer, const char *data, size_t n_bytes) {
    while (n_bytes) {
        ssize_t n = write_or_inject_failure(writer->descriptor, data, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return rk_error_errno(RK_IO, errno, "could not write '%s'", writer->path);
        data += n;
        n_bytes -= (size_t)n;
    }
    return RK_OK;
}

/* The directory part of a path. */
static rk_status parent_directory_of(const char *path, char **out) {
    const char *slash = strrchr(path, '/');
    return slash ? rk_strndup(path, slash == path ? 1 : (size_t)(slash - path), out) : rk_strdup(".", out);
}

/* The number of an open file that the path names, whatever that is; -1: it names none. */
static int parse_descriptor_path(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(folders[i]);
        if (strncmp(path, folders[i], n) == 0 && path[n] &&
            strspn(path + n, "0123456789") == strlen(path + n))
            return atoi(path + n);
    }
    return -1;
}

/* The path in place of *path that it links to, if it is a link. */
static rk_status follow_link(char **path, bool *followed) {
    char target[PATH_MAX], *next;
    RK_AUTOFREE char *parent = NULL;
    ssize_t n = readlink(*path, target, sizeof target - 1);
    *followed = n > 0;
    if (n <= 0) return RK_OK;
    target[n] = 0;
    RK_TRY(parent_directory_of(*path, &parent));
    RK_TRY(rk_path_join(parent, target, &next));
    rk_free(*path);
    *path = next;
    return RK_OK;
}

/* What is to be replaced, which need not be there: a link stays, and leads to the new file. */
static rk_status follow_links(char **path) {
    enum { MOST = 40 }; /* as Linux */
    bool followed = true;
    for (int i = 0; i < MOST && followed && parse_descriptor_path(*path) < 0; i++)
        RK_TRY(follow_link(path, &followed));
    RK_FAIL_IF(followed && parse_descriptor_path(*path) < 0, RK_IO, "'%s': symbolic links in a loop", *path);
    return RK_OK;
}

/* A file beside `path` that takes its place, and its permissions. */
static rk_status open_temporary_file(rk_writer *writer, const struct stat *replaced) {
    RK_TRY(rk_alloc(strlen(writer->path) + sizeof ".tmp", 1, &writer->temporary_path));
    sprintf(writer->temporary_path, "%s.tmp", writer->path);
    unlink(writer->temporary_path); /* of a crash; and what it may link to is left alone */
    writer->descriptor = open(writer->temporary_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (writer->descriptor >= 0 && replaced) (void)!fchmod(writer->descriptor, replaced->st_mode & 07777);
    return RK_OK;
}

static rk_status open_target(rk_writer *writer) {
    struct stat info;
    RK_TRY(follow_links(&writer->path));
    bool there = stat(writer->path, &info) == 0;
    RK_FAIL_IF(there && S_ISDIR(info.st_mode), RK_IO, "could not write '%s': it is a directory",
               writer->path);
    int own = parse_descriptor_path(writer->path);
    if (own >= 0)
        writer->descriptor = fcntl(own, F_DUPFD_CLOEXEC, 0);
    else if (there && !S_ISREG(info.st_mode))
        writer->descriptor = open(writer->path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    else
        RK_TRY(open_temporary_file(writer, there ? &info : NULL));
    return writer->descriptor >= 0 ? RK_OK
                                   : rk_error_errno(RK_IO, errno, "could not create '%s'", writer->path);
}

rk_status rk_writer_open(const char *path, rk_writer *out) {
    RK_TRY(rk_path_check(path));
    rk_writer writer = {.descriptor = -1};
    rk_status status;
    RK_GOTO(rk_strdup(path, &writer.path));
    RK_GOTO(rk_alloc(WRITER_BUFFER_BYTES, 1, &writer.buffer));
    RK_GOTO(open_target(&writer));
    *out = writer;
    return RK_OK;
done:
    RK_FREE_ALL(writer.path, writer.temporary_path, writer.buffer);
    return status;
}

static rk_status flush_buffer(rk_writer *writer) {
    RK_TRY(write_all(writer, writer->buffer, writer->n_buffered));
    writer->n_buffered = 0;
    return RK_OK;
}

/* The disk writes while the next bytes are made, not only when the file is synced at its end. */
static void start_writeback(rk_writer *writer) {
    enum { AT_ONCE = 32 << 20 };
    uint64_t n = writer->n_bytes - writer->n_begun;
    if (!writer->temporary_path || writer->without_sync || n < AT_ONCE) return;
    (void)sync_file_range(writer->descriptor, (off_t)writer->n_begun, (off_t)n, SYNC_FILE_RANGE_WRITE);
    writer->n_begun = writer->n_bytes;
}

rk_status rk_writer_append(rk_writer *writer, const void *data, size_t n_bytes) {
    if (writer->n_buffered + n_bytes > WRITER_BUFFER_BYTES) RK_TRY(flush_buffer(writer));
    if (n_bytes >= WRITER_BUFFER_BYTES) {
        RK_TRY(write_all(writer, data, n_bytes));
    } else if (n_bytes) {
        memcpy(writer->buffer + writer->n_buffered, data, n_bytes);
        writer->n_buffered += n_bytes;
    }
    if (!writer->without_crc) writer->crc32c = rk_crc32c(writer->crc32c, data, n_bytes);
    writer->n_bytes += n_bytes;
    start_writeback(writer);
    return RK_OK;
}

/* Makes a rename last. */
static rk_status sync_parent_directory(const char *path) {
    RK_AUTOFREE char *parent = NULL;
    RK_TRY(parent_directory_of(path, &parent));
    return rk_sync_directory(parent);
}

rk_status rk_writer_commit(rk_writer *writer) {
    RK_TRY(flush_buffer(writer));
    int failed = 0;
    bool syncs = writer->temporary_path && !writer->without_sync;
    while (syncs && (failed = fsync(writer->descriptor)) != 0 && errno == EINTR) {
    }
    if (failed) return rk_error_errno(RK_IO, errno, "could not sync '%s'", writer->path);
    int closed = close(writer->descriptor);
    writer->descriptor = -1;
    if (closed != 0) return rk_error_errno(RK_IO, errno, "could not write '%s'", writer->path);
    if (!writer->temporary_path) return RK_OK;
    if (rename(writer->temporary_path, writer->path) != 0)
        return rk_error_errno(RK_IO, errno, "could not rename '%s' to '%s'", writer->temporary_path,
                              writer->path);
    rk_free(writer->temporary_path);
    writer->temporary_path = NULL;
    return syncs ? sync_parent_directory(writer->path) : RK_OK;
}

void rk_writer_release(rk_writer *writer) {
    if (writer->buffer && writer->descriptor >= 0)
        close(writer->descriptor); /* without a buffer it is not open, and 0 is no file of its own */
    if (writer->temporary_path) unlink(writer->temporary_path);
    RK_FREE_ALL(writer->path, writer->temporary_path, writer->buffer);
    *writer = (rk_writer){.descriptor = -1};
}

rk_status rk_file_write(const char *path, const void *data, size_t n_bytes) {
    RK_AUTO(rk_writer_release) rk_writer writer = {.descriptor = -1};
    RK_TRY(rk_writer_open(path, &writer));
    RK_TRY(rk_writer_append(&writer, data, n_bytes));
    return rk_writer_commit(&writer);
}

rk_status rk_file_copy(const char *from, const char *to) {
    RK_AUTO(rk_mapped_file_release) rk_mapped_file map = {0};
    RK_TRY(rk_mapped_file_open(from, &map));
    return rk_file_write(to, map.data, map.n_bytes);
}
