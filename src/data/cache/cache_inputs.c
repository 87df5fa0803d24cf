#include "data/cache/cache_inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "data/source/source.h"

/* A file that changed no longer ago than SETTLED_NS may change again within one tick of the clock that its
 * times are taken from. */
enum { PIECE_BYTES = 1 << 20, SETTLED_NS = 50000000 };

void rk_cache_inputs_release(rk_cache_inputs *inputs) {
    rk_text_list_release(&inputs->paths);
    rk_free(inputs->files);
    *inputs = (rk_cache_inputs){0};
}

static int64_t timespec_to_nanoseconds(struct timespec t) {
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* false: there is no ordinary file. */
static bool stat_input_file(const char *path, rk_cache_input *out) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    *out = (rk_cache_input){.n_bytes = (uint64_t)info.st_size,
                            .device = (uint64_t)info.st_dev,
                            .inode = (uint64_t)info.st_ino,
                            .modified_ns = timespec_to_nanoseconds(info.st_mtim),
                            .changed_ns = timespec_to_nanoseconds(info.st_ctim),
                            .is_public = (info.st_mode & S_IROTH) != 0};
    return true;
}

static rk_status add_file(rk_cache_inputs *inputs, size_t number) {
    RK_TRY(rk_reserve_one_more(&inputs->files, number, &inputs->capacity, sizeof *inputs->files));
    const char *path = inputs->paths.texts[number];
    if (rk_path_is_memory_stream(path) || !stat_input_file(path, &inputs->files[number]))
        inputs->has_streams = true;
    return RK_OK;
}

rk_status rk_cache_inputs_add(rk_cache_inputs *inputs, const char *directory, char *const *patterns,
                              size_t n_patterns) {
    size_t first = inputs->paths.n;
    struct timespec now;
    if (first == 0) {
        clock_gettime(CLOCK_REALTIME, &now);
        inputs->listed_ns = timespec_to_nanoseconds(now);
    }
    RK_TRY(rk_expand_paths(directory, patterns, n_patterns, &inputs->paths));
    for (size_t i = first; i < inputs->paths.n; i++) RK_TRY(add_file(inputs, i));
    return RK_OK;
}

static rk_status hash_descriptor(int descriptor, const char *path, char *piece, uint64_t *hash) {
    *hash = 0;
    for (;;) {
        size_t n = 0;
        for (ssize_t got = 1; got != 0 && n<PIECE_BYTES; n += got> 0 ? (size_t)got : 0) {
            got = read(descriptor, piece + n, PIECE_BYTES - n);
            if (got < 0 && errno != EINTR) return rk_error_errno(RK_IO, errno, "could not read '%s'", path);
        }
        *hash = rk_hash_bytes(piece, n, *hash);
        if (n < PIECE_BYTES) return RK_OK;
    }
}

rk_status rk_cache_inputs_hash(rk_cache_inputs *inputs) {
    RK_AUTOFREE char *piece = NULL;
    RK_TRY(rk_alloc(PIECE_BYTES, 1, &piece));
    for (size_t i = 0; i < inputs->paths.n; i++) {
        const char *path = inputs->paths.texts[i];
        int descriptor = open(path, O_RDONLY | O_CLOEXEC);
        if (descriptor < 0) return rk_error_errno(RK_IO, errno, "could not open '%s'", path);
        rk_status status = hash_descriptor(descriptor, path, piece, &inputs->files[i].hash);
        close(descriptor);
        RK_TRY(status);
    }
    return RK_OK;
}

bool rk_cache_inputs_are_public(const rk_cache_inputs *inputs) {
    bool are_public = true;
    for (size_t i = 0; i < inputs->paths.n; i++) are_public &= inputs->files[i].is_public;
    return are_public;
}

bool rk_cache_inputs_are_unchanged(const rk_cache_inputs *inputs) {
    for (size_t i = 0; i < inputs->paths.n; i++) {
        const rk_cache_input *then = &inputs->files[i];
        rk_cache_input now;
        if (then->changed_ns > inputs->listed_ns - SETTLED_NS) return false;
        if (!stat_input_file(inputs->paths.texts[i], &now)) return false;
        if (now.n_bytes != then->n_bytes || now.device != then->device || now.inode != then->inode ||
            now.modified_ns != then->modified_ns || now.changed_ns != then->changed_ns)
            return false;
    }
    return true;
}
