#include "base/file/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

rk_file_identity rk_file_read_identity(const char *path) {
    struct stat there;
    if (stat(path, &there) != 0) return (rk_file_identity){0};
    return (rk_file_identity){(uint64_t)there.st_dev, (uint64_t)there.st_ino};
}

bool rk_file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool rk_file_is_stream(const char *path) {
    struct stat info;
    if (strcmp(path, "-") == 0) return true;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bool rk_path_is_memory_stream(const char *path) {
    return strncmp(path, RK_MEMORY_PATH, strlen(RK_MEMORY_PATH)) == 0;
}

rk_status rk_path_check(const char *path) {
    size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    if (n > 0 && strncmp(path + n, "://", 3) == 0)
        return rk_error_hint(rk_error(RK_UNSUPPORTED, "'%s' is a URL; only local files are supported", path),
                             "copy it to this machine first, or mount it as a directory");
    if (strncmp(path, "~/", 2) == 0)
        return rk_error_hint(
            rk_error(RK_NOT_FOUND, "'%s': '~' is not expanded here; only a shell does that", path),
            "write the full path");
    return RK_OK;
}

int rk_file_read_at(int descriptor, uint64_t offset, void *out, size_t n_bytes, size_t *n_read) {
    *n_read = 0;
    while (*n_read < n_bytes) {
        ssize_t n = pread(descriptor, (char *)out + *n_read, n_bytes - *n_read, (off_t)(offset + *n_read));
        if (n == 0) return 0;
        if (n < 0 && errno != EINTR) return errno;
        if (n > 0) *n_read += (size_t)n;
    }
    return 0;
}

rk_status rk_file_size(const char *path, uint64_t *out) {
    struct stat info;
    RK_TRY(rk_path_check(path));
    if (stat(path, &info) != 0)
        return rk_error_errno(errno == ENOENT ? RK_NOT_FOUND : RK_IO, errno, "'%s'", path);
    *out = (uint64_t)info.st_size;
    return RK_OK;
}

static rk_status open_for_reading(const char *path, int *out_descriptor, size_t *out_bytes) {
    RK_TRY(rk_path_check(path));
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return rk_error_errno(errno == ENOENT ? RK_NOT_FOUND : RK_IO, errno, "could not open '%s'", path);
    struct stat info;
    if (fstat(descriptor, &info) != 0 || S_ISDIR(info.st_mode)) {
        close(descriptor);
        return rk_error(RK_IO, "could not read '%s': it is not a file", path);
    }
    *out_descriptor = descriptor;
    *out_bytes = (size_t)info.st_size;
    return RK_OK;
}

rk_status rk_file_read(const char *path, char **out, size_t *out_bytes) {
    enum { MORE_BYTES = 4096, MOST_WITHOUT_SIZE = 1 << 28 };
    int descriptor;
    size_t n_bytes, n_read = 0;
    RK_TRY(open_for_reading(path, &descriptor, &n_bytes));
    char *data = NULL;
    rk_status status = rk_alloc(n_bytes + 1, 1, &data);
    while (status == RK_OK) { /* to the end, wherever that is: a pipe has no size, and /proc says 0 */
        ssize_t n = read(descriptor, data + n_read, n_bytes + 1 - n_read);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = rk_error_errno(RK_IO, errno, "could not read '%s'", path);
        if (n <= 0) break;
        n_read += (size_t)n;
        if (n_read <= n_bytes) continue;
        n_bytes = 2 * n_bytes + MORE_BYTES;
        status = n_bytes > MOST_WITHOUT_SIZE && rk_file_is_stream(path)
                     ? rk_error(RK_IO, "'%s' does not end", path)
                     : rk_realloc(n_bytes + 1, 1, &data);
    }
    close(descriptor);
    if (status != RK_OK) {
        rk_free(data);
        return status;
    }
    data[n_read] = 0;
    *out = data;
    *out_bytes = n_read;
    return RK_OK;
}

rk_status rk_make_directories(const char *path) {
    RK_AUTOFREE char *copy = NULL;
    RK_TRY(rk_path_check(path));
    RK_TRY(rk_strdup(path, &copy));
    for (char *at = copy + 1; *copy; at++) {
        if (*at != '/' && *at != 0) continue;
        char end = *at;
        *at = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            return rk_error_errno(RK_IO, errno, "could not make the directory '%s'", copy);
        if (end == 0) break;
        *at = end;
    }
    return RK_OK;
}

static rk_status remove_contents(const char *path) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_TRY(rk_list_directory(path, &names));
    for (size_t i = 0; i < names.n; i++) {
        RK_AUTOFREE char *inner = NULL;
        RK_TRY(rk_path_join(path, names.texts[i], &inner));
        RK_TRY(rk_remove_tree(inner));
    }
    return RK_OK;
}

rk_status rk_remove_tree(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0) return errno == ENOENT ? RK_OK : rk_error_errno(RK_IO, errno, "'%s'", path);
    if (S_ISDIR(info.st_mode)) {
        RK_TRY(remove_contents(path));
        if (rmdir(path) != 0) return rk_error_errno(RK_IO, errno, "could not remove '%s'", path);
    } else if (unlink(path) != 0) {
        return rk_error_errno(RK_IO, errno, "could not remove '%s'", path);
    }
    return RK_OK;
}

rk_status rk_sync_directory(const char *path) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return rk_error_errno(RK_IO, errno, "could not open the directory '%s'", path);
    int code;
    while ((code = fsync(descriptor)) != 0 && errno == EINTR) {
    }
    int failed = code != 0 && errno != EINVAL; /* EINVAL: this file system has nothing to sync */
    int reason = errno;
    close(descriptor);
    return failed ? rk_error_errno(RK_IO, reason, "could not sync the directory '%s'", path) : RK_OK;
}

rk_status rk_path_join(const char *a, const char *b, char **out) {
    RK_TRY(rk_path_check(b));
    if (b[0] == '/' || !a || !*a || rk_path_is_memory_stream(b)) return rk_strdup(b, out);
    size_t n = strlen(a), m = strlen(b);
    bool slash = a[n - 1] != '/';
    char *path;
    RK_TRY(rk_alloc(n + slash + m + 1, 1, &path));
    memcpy(path, a, n);
    if (slash) path[n] = '/';
    memcpy(path + n + slash, b, m);
    *out = path;
    return RK_OK;
}

rk_status rk_path_absolute(const char *path, char **out) {
    if (path[0] == '/') return rk_strdup(path, out);
    char *here = getcwd(NULL, 0);
    if (!here) return rk_error_errno(RK_IO, errno, "the current directory");
    for (; path[0] == '.' && (path[1] == '/' || (path[1] == '.' && path[2] == '/'));
         path = strchr(path, '/') + 1) { /* the same file by one name only */
        char *last = path[1] == '.' ? strrchr(here, '/') : NULL;
        if (last) last[last == here] = 0;
    }
    rk_status status = rk_path_join(here, path, out);
    free(here);
    return status;
}

rk_status rk_list_directory(const char *path, rk_text_list *out) {
    DIR *directory = opendir(path);
    if (!directory)
        return rk_error_errno(errno == ENOENT ? RK_NOT_FOUND : RK_IO, errno,
                              "could not open the directory '%s'", path);
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    rk_status status = RK_OK;
    for (struct dirent *entry; status == RK_OK && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = rk_text_list_add(&names, entry->d_name);
    closedir(directory);
    RK_TRY(status);
    rk_text_list_sort(&names);
    *out = names;
    names = (rk_text_list){0};
    return RK_OK;
}

#ifdef RK_FUZZ /* on the heap, so that the sanitizer sees who reads beyond the end */
static void *map_pages(int descriptor, size_t n_bytes) {
    void *data = malloc(n_bytes);
    if (data && pread(descriptor, data, n_bytes, 0) == (ssize_t)n_bytes) return data;
    free(data);
    return MAP_FAILED;
}

static void unmap_pages(void *data, size_t n_bytes) {
    (void)n_bytes;
    free(data);
}

static void drop_pages(void *data, size_t n_bytes) {
    (void)data, (void)n_bytes;
}
#else
static void *map_pages(int descriptor, size_t n_bytes) {
    return mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
}

static void unmap_pages(void *data, size_t n_bytes) {
    munmap(data, n_bytes);
}

static void drop_pages(void *data, size_t n_bytes) {
    (void)madvise(data, n_bytes, MADV_DONTNEED); /* to no effect but memory */
}
#endif

rk_status rk_mapped_file_open(const char *path, rk_mapped_file *out) {
    int descriptor;
    size_t n_bytes;
    RK_FAIL_IF(rk_file_is_stream(path), RK_IO, "could not map '%s': it is a pipe or a device, not a file",
               path);
    RK_TRY(open_for_reading(path, &descriptor, &n_bytes));
    void *data = n_bytes ? map_pages(descriptor, n_bytes) : NULL;
    int reason = errno;
    close(descriptor);
    if (data == MAP_FAILED) return rk_error_errno(RK_IO, reason, "could not map '%s'", path);
    *out = (rk_mapped_file){.data = data, .n_bytes = n_bytes};
    return RK_OK;
}

rk_status rk_mapped_file_open_descriptor(int descriptor, const char *path, rk_mapped_file *out) {
    struct stat info;
    if (fstat(descriptor, &info) != 0) return rk_error_errno(RK_IO, errno, "could not map '%s'", path);
    size_t n_bytes = (size_t)info.st_size;
    void *data = n_bytes ? map_pages(descriptor, n_bytes) : NULL;
    if (data == MAP_FAILED) return rk_error_errno(RK_IO, errno, "could not map '%s'", path);
    if (data) (void)madvise(data, n_bytes, MADV_RANDOM); /* to no effect but speed */
    *out = (rk_mapped_file){.data = data, .n_bytes = n_bytes};
    return RK_OK;
}

void rk_mapped_file_drop(const rk_mapped_file *mapped, uint64_t begin, uint64_t end) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = (begin + page - 1) / page * page,
             last = end / page * page;
    if (mapped->data && end <= mapped->n_bytes && first < last)
        drop_pages((uint8_t *)(size_t)mapped->data + first, (size_t)(last - first));
}

void rk_mapped_file_release(rk_mapped_file *mapped) {
    if (mapped->data) unmap_pages((void *)(size_t)mapped->data, mapped->n_bytes);
    *mapped = (rk_mapped_file){0};
}
