/* The files of a row log: their names, which of them are open, and those that come and go. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "embedding/tiered/row_log_internal.h"

rk_status rk_row_file_path(const char *directory, uint64_t number, char **out) {
    char name[RK_ROW_FILE_NAME_BYTES];
    snprintf(name, sizeof name, "rows-%08" PRIx64 ".log", number);
    return rk_path_join(directory, name, out);
}

rk_status rk_row_file_error(const rk_row_log *log, uint64_t number, uint32_t page, rk_status status,
                            const char *reason) {
    RK_AUTOFREE char *path = NULL;
    RK_TRY(rk_row_file_path(log->directory, number, &path));
    return rk_error(status, "'%s': page %u: %s", path, page, reason);
}

rk_row_file *rk_row_log_find_file(const rk_row_log *log, uint64_t number) {
    size_t first = 0, end = log->n_files;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (log->files[middle].number < number)
            first = middle + 1;
        else
            end = middle;
    }
    return first < log->n_files && log->files[first].number == number ? &log->files[first] : NULL;
}

uint64_t rk_row_log_file_bytes(const rk_row_log *log) {
    return (uint64_t)log->options.file_pages * RK_PAGE_BYTES;
}

uint64_t rk_row_log_bytes(const rk_row_log *log) {
    uint64_t n = 0;
    for (size_t i = 0; i < log->n_files; i++) n += (uint64_t)log->files[i].n_pages * RK_PAGE_BYTES;
    if (log->is_writing)
        n += rk_row_log_file_bytes(log) - (uint64_t)log->files[log->n_files - 1].n_pages * RK_PAGE_BYTES;
    return n;
}

/* Not every file system has O_DIRECT; then its cache is between. */
static rk_status set_direct_io(rk_row_log *log, int descriptor, const char *path) {
    if (!log->direct || fcntl(descriptor, F_SETFL, O_DIRECT) == 0) return RK_OK;
    if (errno != EINVAL) return rk_error_errno(RK_IO, errno, "could not read '%s' directly", path);
    log->direct = false;
    rk_log(RK_LOG_WARNING,
           "'%s': its file system has no O_DIRECT; rows go through the system's cache of files, which is "
           "slower and takes memory",
           log->directory);
    return RK_OK;
}

static void close_file(rk_row_log *log, rk_row_file *file) {
    if (file->descriptor < 0 || file->n_pins > 0) return;
    close(file->descriptor);
    file->descriptor = -1;
    log->n_open--;
}

void rk_row_log_close_files(rk_row_log *log) {
    pthread_mutex_lock(&log->mutex);
    for (size_t i = 0; i < log->n_files; i++) close_file(log, &log->files[i]);
    pthread_mutex_unlock(&log->mutex);
}

/* Closes files that are not being read, those first that have not been for long. */
static void close_idle_files(rk_row_log *log) {
    int most = rk_row_log_max_open_files(log);
    for (size_t tries = 0; log->n_open >= most && tries < 2 * log->n_files; tries++) {
        log->hand = (log->hand + 1) % log->n_files;
        rk_row_file *file = &log->files[log->hand];
        if (!file->recent) close_file(log, file);
        file->recent = false;
    }
}

static rk_status open_file(rk_row_log *log, rk_row_file *file) {
    RK_AUTOFREE char *path = NULL;
    close_idle_files(log);
    RK_TRY(rk_row_file_path(log->directory, file->number, &path));
    int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) {
        int reason = errno; /* a checkpoint may be removed while it is read */
        rk_status status = rk_error_errno(reason == ENOENT && log->only_read ? RK_NOT_FOUND : RK_IO, reason,
                                          "could not open '%s'", path);
        return reason == EMFILE || reason == ENFILE
                   ? rk_error_hint(RK_IO, "let processes open more files: ulimit -n")
                   : status;
    }
    rk_status status = set_direct_io(log, descriptor, path);
    if (status != RK_OK) {
        close(descriptor);
        return status;
    }
    file->descriptor = descriptor;
    log->n_open++;
    return RK_OK;
}

rk_status rk_row_file_pin(rk_row_log *log, rk_row_file *file) {
    if (file->descriptor < 0) RK_TRY(open_file(log, file));
    file->recent = true;
    file->n_pins++;
    return RK_OK;
}

void rk_row_file_unpin(rk_row_file *file) {
    file->n_pins--;
}

/* Room on the disk for the whole file, so that a full disk is an error now; a file system that cannot tell
 * finds it out later. */
static rk_status preallocate_file(const rk_row_log *log, int descriptor, const char *path) {
    int code;
    while ((code = fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, (off_t)rk_row_log_file_bytes(log))) != 0 &&
           errno == EINTR) {
    }
    if (code == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return RK_OK;
    return rk_error_errno(RK_IO, errno, "no room for '%s' (%llu bytes)", path,
                          (unsigned long long)rk_row_log_file_bytes(log));
}

static rk_status check_disk_limit(const rk_row_log *log) {
    uint64_t most = log->options.max_bytes, file_bytes = rk_row_log_file_bytes(log),
             kept = log->is_compacting ? 0 : file_bytes;
    if (most && rk_row_log_bytes(log) + file_bytes + kept > most) {
        (void)rk_error(RK_IO, "'%s': its files have %llu bytes, and one more would pass max_bytes, %llu",
                       log->directory, (unsigned long long)rk_row_log_bytes(log), (unsigned long long)most);
        return rk_error_hint(RK_IO,
                             "files need at most twice the bytes of the rows that they hold, and "
                             "four files more: set a larger storage.max_bytes");
    }
    int file_bits = rk_page_shape_file_bits(&log->shape);
    RK_FAIL_IF(log->next_file >> file_bits, RK_IO,
               "'%s': 2^%d files were written, and numbers for more of them are not there", log->directory,
               file_bits);
    return RK_OK;
}

static rk_status create_file(rk_row_log *log, const char *path, int *out) {
    int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0) return rk_error_errno(RK_IO, errno, "could not create '%s'", path);
    rk_status status = set_direct_io(log, descriptor, path);
    if (status == RK_OK) status = preallocate_file(log, descriptor, path);
    if (status != RK_OK) {
        close(descriptor);
        unlink(path);
        return status;
    }
    *out = descriptor;
    return RK_OK;
}

/* Under the mutex; the file stays pinned as long as it is written. */
static rk_status add_file_locked(rk_row_log *log) {
    RK_AUTOFREE char *path = NULL;
    int descriptor;
    RK_TRY(check_disk_limit(log));
    RK_TRY(rk_reserve_one_more(&log->files, log->n_files, &log->files_capacity, sizeof *log->files));
    RK_TRY(rk_row_file_path(log->directory, log->next_file, &path));
    close_idle_files(log);
    RK_TRY(create_file(log, path, &descriptor));
    log->files[log->n_files++] =
        (rk_row_file){.number = log->next_file++, .descriptor = descriptor, .n_pins = 1};
    log->n_open++;
    log->is_writing = true;
    log->may_compact = true; /* there is less room */
    return RK_OK;
}

rk_status rk_row_file_create(rk_row_log *log) {
    pthread_mutex_lock(&log->mutex);
    rk_status status = add_file_locked(log);
    pthread_mutex_unlock(&log->mutex);
    return status;
}

rk_status rk_row_file_remove(rk_row_log *log, uint64_t number) {
    RK_AUTOFREE char *path = NULL;
    rk_row_file *file = rk_row_log_find_file(log, number);
    RK_TRY(rk_row_file_path(log->directory, number, &path));
    if (unlink(path) != 0 && errno != ENOENT)
        return rk_error_errno(RK_IO, errno, "could not remove '%s'", path);
    if (file->descriptor >= 0) {
        close(file->descriptor);
        log->n_open--;
    }
    size_t behind = (size_t)(log->files + log->n_files - file) - 1;
    memmove(file, file + 1, behind * sizeof *file);
    log->n_files--;
    log->hand = 0;
    return RK_OK;
}

static bool is_row_file_name(const char *name) {
    static const char begin[] = "rows-";
    if (strncmp(name, begin, sizeof begin - 1) != 0) return false;
    name += sizeof begin - 1;
    size_t digits = strspn(name, "0123456789abcdef");
    return digits > 0 && strcmp(name + digits, ".log") == 0;
}

rk_status rk_row_files_remove_all(const char *directory) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_TRY(rk_list_directory(directory, &names));
    for (size_t i = 0; i < names.n; i++) {
        RK_AUTOFREE char *path = NULL;
        if (!is_row_file_name(names.texts[i])) continue;
        RK_TRY(rk_path_join(directory, names.texts[i], &path));
        if (unlink(path) != 0) return rk_error_errno(RK_IO, errno, "could not remove '%s'", path);
    }
    return RK_OK;
}

static rk_status open_and_sync(rk_row_log *log, const rk_row_file *file) {
    RK_AUTOFREE char *path = NULL;
    RK_TRY(rk_row_file_path(log->directory, file->number, &path));
    int code;
    while ((code = fsync(file->descriptor)) != 0 && errno == EINTR) {
    }
    if (code == 0) return RK_OK;
    log->sync_failed = true;
    return rk_error_errno(RK_IO, errno, "could not sync '%s'", path);
}

/* After a sync that failed, the next one may succeed though bytes were lost: so none is believed. */
rk_status rk_row_file_sync(rk_row_log *log, rk_row_file *file) {
    RK_FAIL_IF(log->sync_failed, RK_IO, "'%s': an earlier sync of its files failed", log->directory);
    if (file->synced) return RK_OK;
    pthread_mutex_lock(&log->mutex);
    rk_status status = rk_row_file_pin(log, file);
    pthread_mutex_unlock(&log->mutex);
    RK_TRY(status);
    status = open_and_sync(log, file);
    rk_row_file_unpin(file);
    file->synced = status == RK_OK;
    return status;
}
