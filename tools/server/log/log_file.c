#include "server/log/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text/text_list.h"
#include "format/protobuf/tfrecord.h"

enum { HEAD_BYTES = 12 }; /* of a record */

static rk_status log_file_error(const rk_log_file *file, const char *what) {
    return rk_error_errno(RK_IO, errno, "could not %s '%s'", what, file->path);
}

/* Bytes of the whole records that the file has. */
static rk_status count_whole_record_bytes(const char *path, uint64_t *out) {
    RK_AUTO(rk_mapped_file_release) rk_mapped_file map = {0};
    RK_TRY(rk_mapped_file_open(path, &map));
    size_t at = 0, length = 1;
    while (map.n_bytes - at >= HEAD_BYTES &&
           (length = rk_tfrecord_frame_bytes(map.data + at, map.n_bytes - at)) && length <= map.n_bytes - at)
        at += length;
    RK_FAIL_IF(at == 0 && length == 0, RK_BAD_DATA,
               "'%s' is there and no TFRecord file\nhint: name another file for the log", path);
    *out = at;
    return RK_OK;
}

/* Held from open to close: the file itself cannot be locked without a moment in which its path is nobody's,
 * between its rotation, or its move elsewhere, and the next file. */
static rk_status acquire_lock(rk_log_file *file) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    RK_AUTOFREE char *path = NULL;
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    rk_buffer_append(&text, file->path, (size_t)(name - file->path));
    rk_buffer_printf(&text, ".%s.lock", name);
    RK_TRY(rk_buffer_detach(&text, &path));
    file->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file->lock < 0) return rk_error_errno(RK_IO, errno, "could not open '%s'", path);
    RK_FAIL_IF(flock(file->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK, RK_BUSY,
               "another program writes to '%s'\nhint: each server has a log of its own", file->path);
    return RK_OK;
}

/* The caller closes the file after a failure. */
static rk_status try_open_file(rk_log_file *file) {
    struct stat there;
    file->descriptor = open(file->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file->descriptor < 0 || fstat(file->descriptor, &there) != 0) return log_file_error(file, "open");
    RK_FAIL_IF(!S_ISREG(there.st_mode), RK_IO, "'%s' is no ordinary file", file->path);
    file->device = there.st_dev;
    file->inode = there.st_ino;
    file->n_bytes = 0;
    if (there.st_size == 0) return RK_OK;
    RK_TRY(count_whole_record_bytes(file->path, &file->n_bytes));
    if (ftruncate(file->descriptor, (off_t)file->n_bytes) != 0) return log_file_error(file, "cut");
    return RK_OK;
}

static void close_file(rk_log_file *file) {
    if (file->descriptor < 0) return;
    fdatasync(file->descriptor);
    close(file->descriptor);
    file->descriptor = -1;
}

/* A file that could not be taken is not kept: the next try begins with all the checks. */
static rk_status open_file(rk_log_file *file) {
    rk_status status = try_open_file(file);
    if (status != RK_OK) close_file(file);
    return status;
}

/* Where a number goes in the path: before its ending. */
static const char *find_name_suffix(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *point = strrchr(name, '.');
    return point && point > name ? point : name + strlen(name);
}

static rk_status make_numbered_path(const rk_log_file *file, int64_t number, char **out) {
    RK_AUTO(rk_buffer_release) rk_buffer path = {0};
    const char *ending = find_name_suffix(file->path);
    rk_buffer_append(&path, file->path, (size_t)(ending - file->path));
    rk_buffer_printf(&path, "-%06lld%s", (long long)number, ending);
    return rk_buffer_detach(&path, out);
}

/* The number of a file that was put aside, or 0. Six digits: names with a date are somebody else's. */
static int64_t number_of_rotated_file(const rk_log_file *file, const char *name) {
    const char *slash = strrchr(file->path, '/'), *own = slash ? slash + 1 : file->path,
               *ending = find_name_suffix(file->path);
    size_t n_stem = (size_t)(ending - own), n_name = strlen(name), n_ending = strlen(ending);
    if (n_name <= n_stem + 1 + n_ending || strncmp(name, own, n_stem) != 0 || name[n_stem] != '-' ||
        strcmp(name + n_name - n_ending, ending) != 0)
        return 0;
    rk_span digits = {name + n_stem + 1, n_name - n_ending - n_stem - 1};
    int64_t number;
    for (size_t i = 0; i < digits.n_bytes; i++)
        if (digits.data[i] < '0' || digits.data[i] > '9') return 0;
    return digits.n_bytes == 6 && rk_parse_i64(digits, &number) ? number : 0;
}

/* The names beside the file. */
static rk_status list_names_beside(const rk_log_file *file, rk_text_list *out) {
    RK_AUTOFREE char *folder = NULL;
    const char *slash = strrchr(file->path, '/');
    RK_TRY(slash > file->path ? rk_strndup(file->path, (size_t)(slash - file->path), &folder)
                              : rk_strdup(slash ? "/" : ".", &folder));
    return rk_list_directory(folder, out);
}

static rk_status find_next_number(rk_log_file *file) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_TRY(list_names_beside(file, &names));
    file->next_number = 1;
    for (size_t i = 0; i < names.n; i++) {
        int64_t number = number_of_rotated_file(file, names.texts[i]);
        if (number >= file->next_number) file->next_number = number + 1;
    }
    return RK_OK;
}

/* The least number among names, and how many there are. */
static int64_t find_oldest_number(const rk_log_file *file, const rk_text_list *names, int64_t above,
                                  int64_t *n) {
    int64_t least = 0;
    *n = 0;
    for (size_t i = 0; i < names->n; i++) {
        int64_t number = number_of_rotated_file(file, names->texts[i]);
        if (number <= above) continue;
        if (!least || number < least) least = number;
        ++*n;
    }
    return least;
}

static rk_status delete_oldest_if_too_many(const rk_log_file *file) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_TRY(list_names_beside(file, &names));
    rk_status status = RK_OK;
    int64_t n, oldest = find_oldest_number(file, &names, 0, &n);
    while (n > file->max_files - 1) {
        RK_AUTOFREE char *path = NULL;
        RK_TRY(make_numbered_path(file, oldest, &path));
        if (unlink(path) != 0 && errno != ENOENT)
            status = rk_error_errno(RK_IO, errno, "could not delete '%s'", path);
        oldest = find_oldest_number(file, &names, oldest, &n);
    }
    return status;
}

/* What cannot be deleted stays, and the log goes on. */
static void delete_old_files(const rk_log_file *file) {
    if (file->max_files > 0 && delete_oldest_if_too_many(file) != RK_OK)
        rk_log(RK_LOG_WARNING, "request log: old files stay: %s", rk_last_error());
}

rk_status rk_log_file_open(const char *path, uint64_t max_bytes, int64_t max_files, rk_log_file *file) {
    *file = (rk_log_file){
        .path = path, .lock = -1, .descriptor = -1, .max_bytes = max_bytes, .max_files = max_files};
    RK_TRY(rk_path_check(path));
    RK_TRY(find_next_number(file));
    RK_TRY(acquire_lock(file));
    RK_TRY(open_file(file));
    delete_old_files(file);
    return RK_OK;
}

static rk_status rotate_log_file(rk_log_file *file) {
    for (bool moved = false; !moved; file->next_number++) {
        RK_AUTOFREE char *aside = NULL;
        RK_TRY(make_numbered_path(file, file->next_number, &aside));
        if (rk_file_exists(aside)) continue;
        if (rename(file->path, aside) != 0) return log_file_error(file, "put aside");
        moved = true;
    }
    delete_old_files(file);
    close_file(file);
    return open_file(file);
}

static bool log_file_exists(const rk_log_file *file) {
    struct stat there;
    return file->descriptor >= 0 && stat(file->path, &there) == 0 && there.st_dev == file->device &&
           there.st_ino == file->inode;
}

rk_status rk_log_file_append(rk_log_file *file, const void *records, size_t n_bytes) {
    const char *at = records;
    if (!log_file_exists(file)) {
        close_file(file);
        RK_TRY(open_file(file));
    }
    if (file->n_bytes > 0 && file->n_bytes + n_bytes > file->max_bytes) RK_TRY(rotate_log_file(file));
    for (size_t left = n_bytes; left > 0;) {
        ssize_t n = write(file->descriptor, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            rk_status status = log_file_error(file, "write to");
            if (ftruncate(file->descriptor, (off_t)file->n_bytes) != 0) close_file(file);
            return status; /* what cannot be cut off now is cut off when the file is opened again */
        }
        at += n;
        left -= (size_t)n;
    }
    file->n_bytes += n_bytes;
    return RK_OK;
}

void rk_log_file_close(rk_log_file *file) {
    close_file(file);
    if (file->lock >= 0) close(file->lock);
    file->lock = -1;
}
