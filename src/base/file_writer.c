/* Files that appear whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"

enum { WRITER_BUFFER_BYTES = 1 << 20 };

static atomic_llong bytes_before_failure = -1;

void rk_file_fail_after(int64_t n_bytes) {
    atomic_store(&bytes_before_failure, n_bytes);
}

/* write(2), except that the test hook can make the disk full. */
static ssize_t write_some(int descriptor, const char *data, size_t n_bytes) {
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
        ssize_t n = write_some(writer->descriptor, data, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return rk_error_errno(RK_IO, errno, "could not write '%s'", writer->path);
        data += n;
        n_bytes -= (size_t)n;
    }
    return RK_OK;
}

rk_status rk_writer_open(const char *path, rk_writer *out) {
    rk_writer writer = {.descriptor = -1};
    rk_status status;
    RK_GOTO(rk_strdup(path, &writer.path));
    RK_GOTO(rk_alloc(strlen(path) + sizeof ".tmp", 1, &writer.temporary_path));
    sprintf(writer.temporary_path, "%s.tmp", path);
    RK_GOTO(rk_alloc(WRITER_BUFFER_BYTES, 1, &writer.buffer));
    writer.descriptor = open(writer.temporary_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (writer.descriptor < 0) RK_GOTO(rk_error_errno(RK_IO, errno, "could not create '%s'", path));
    *out = writer;
    return RK_OK;
done:
    rk_free(writer.path);
    rk_free(writer.temporary_path);
    rk_free(writer.buffer);
    return status;
}

static rk_status flush(rk_writer *writer) {
    RK_TRY(write_all(writer, writer->buffer, writer->n_buffered));
    writer->n_buffered = 0;
    return RK_OK;
}

rk_status rk_writer_append(rk_writer *writer, const void *data, size_t n_bytes) {
    if (writer->n_buffered + n_bytes > WRITER_BUFFER_BYTES) RK_TRY(flush(writer));
    if (n_bytes >= WRITER_BUFFER_BYTES) {
        RK_TRY(write_all(writer, data, n_bytes));
    } else if (n_bytes) {
        memcpy(writer->buffer + writer->n_buffered, data, n_bytes);
        writer->n_buffered += n_bytes;
    }
    writer->crc32c = rk_crc32c(writer->crc32c, data, n_bytes);
    writer->n_bytes += n_bytes;
    return RK_OK;
}

/* The directory part of a path, for the sync that makes a rename last. */
static rk_status sync_parent(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return rk_sync_directory(".");
    char *parent;
    RK_TRY(rk_strndup(path, slash == path ? 1 : (size_t)(slash - path), &parent));
    rk_status status = rk_sync_directory(parent);
    rk_free(parent);
    return status;
}

rk_status rk_writer_commit(rk_writer *writer) {
    RK_TRY(flush(writer));
    if (fsync(writer->descriptor) != 0) return rk_error_errno(RK_IO, errno, "could not sync '%s'", writer->path);
    int closed = close(writer->descriptor);
    writer->descriptor = -1;
    if (closed != 0) return rk_error_errno(RK_IO, errno, "could not write '%s'", writer->path);
    if (rename(writer->temporary_path, writer->path) != 0)
        return rk_error_errno(RK_IO, errno, "could not rename '%s' to '%s'", writer->temporary_path, writer->path);
    rk_free(writer->temporary_path);
    writer->temporary_path = NULL;
    return sync_parent(writer->path);
}

void rk_writer_release(rk_writer *writer) {
    if (writer->temporary_path) {
        if (writer->descriptor >= 0) close(writer->descriptor);
        unlink(writer->temporary_path);
    }
    rk_free(writer->path);
    rk_free(writer->temporary_path);
    rk_free(writer->buffer);
    *writer = (rk_writer){.descriptor = -1};
}

rk_status rk_file_write(const char *path, const void *data, size_t n_bytes) {
    rk_writer writer;
    RK_TRY(rk_writer_open(path, &writer));
    rk_status status = rk_writer_append(&writer, data, n_bytes);
    if (status == RK_OK) status = rk_writer_commit(&writer);
    rk_writer_release(&writer);
    return status;
}
