#include "data/source/source_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/source/source_internal.h"

/* What a file was when its pieces were found. */
typedef struct file_stamp {
    int64_t n_bytes, seconds, nanoseconds;
    uint64_t node;
} file_stamp;

static file_stamp make_file_stamp(const struct stat *info) {
    return (file_stamp){(int64_t)info->st_size, (int64_t)info->st_mtim.tv_sec, (int64_t)info->st_mtim.tv_nsec,
                        (uint64_t)info->st_ino};
}

void rk_source_index_free(rk_source_index *x) {
    if (!x) return;
    for (size_t i = 0; x->files && i < x->n_files; i++) rk_source_free(x->files[i]);
    RK_FREE_ALL(x->files, x->stamps, x->places, x);
}

static rk_status add_piece_location(rk_source_index *x, rk_piece_location place) {
    RK_TRY(rk_reserve_one_more(&x->places, x->n_places, &x->capacity, sizeof *x->places));
    place.file_row = x->n_rows;
    x->places[x->n_places++] = place;
    x->n_rows += place.n_rows;
    return RK_OK;
}

/* The pieces of an open file, one after the other. A record that is not whole is an error at once: what
 * follows would not begin where a record does. */
static rk_status find_pieces_of_file(rk_source_index *x, size_t file, bool parse, rk_chunk *chunk) {
    rk_source *s = x->files[file];
    for (bool found;;) {
        int64_t n_lines = 0;
        RK_TRY(rk_source_next_piece(s, chunk, &found));
        if (!found) return RK_OK;
        rk_piece_location place = {
            .file = file, .block = chunk->block, .n_rows = chunk->known_rows, .first_line = s->next_line};
        if (s->reader->lines) {
            place.begin = chunk->position;
            place.n_bytes = chunk->n_bytes;
            n_lines = place.n_rows = s->reader->lines(chunk->data, chunk->n_bytes);
        }
        if (n_lines < 0 || (s->reader->lines && parse)) {
            rk_source_parse_chunk(s, chunk);
            RK_TRY(rk_source_finish_chunk(s, chunk));
            place.n_rows = chunk->columns.n_rows;
        } else {
            s->next_line += n_lines;
        }
        RK_TRY(add_piece_location(x, place));
    }
}

static rk_status index_file(rk_source_index *x, size_t file, const rk_source *all, bool exact,
                            rk_chunk *chunk, int64_t *cannot) {
    bool found;
    struct stat info;
    const char *path = all->options.paths[file];
    *cannot = (int64_t)file;
    if (rk_path_is_memory_stream(path) || (stat(path, &info) == 0 && !S_ISREG(info.st_mode)))
        return RK_OK; /* it has no places to go to, and a pipe may not be there a second time */
    RK_TRY(rk_source_open_single_file(all, file, file ? x->files[0] : NULL, &x->files[file]));
    rk_source *s = x->files[file];
    RK_TRY(rk_source_next_file(s, &found));
    if (s->stream && !rk_byte_stream_is_plain(s->stream)) return RK_OK;
    *cannot = -1;
    if (stat(path, &info) != 0) return rk_error_errno(RK_IO, errno, "'%s'", path);
    x->stamps[file] = make_file_stamp(&info);
    double share = all->total_bytes / RK_INDEX_LANES;
    if (share < (double)RK_PIECE_BYTES) s->piece_bytes = share < 1 ? 1 : (size_t)share;
    RK_TRY(find_pieces_of_file(x, file, exact || s->reader->many_rows_a_line, chunk));
    if (s->reader->lines && !s->reader->many_rows_a_line) x->is_exact = exact;
    rk_source_close_stream(s);
    return RK_OK;
}

/* Blocks of few files may be fewer than lanes: then each has several pieces, and is read for each of them. */
static rk_status split_blocks_into_pieces(rk_source_index *x) {
    int64_t n_parts = (RK_INDEX_LANES + (int64_t)x->n_places - 1) / (int64_t)x->n_places;
    if (n_parts < 2) return RK_OK;
    RK_AUTOFREE rk_piece_location *whole = x->places;
    const size_t n_whole = x->n_places;
    x->places = NULL;
    x->n_places = x->capacity = 0;
    x->n_rows = 0;
    for (size_t i = 0; i < n_whole; i++) {
        rk_piece_location place = whole[i];
        int64_t n = place.n_bytes ? 1 : n_parts, n_rows = place.n_rows;
        for (int64_t k = 0; k < n; k++) {
            place.first_row = n_rows * k / n;
            place.n_rows = n_rows * (k + 1) / n - place.first_row;
            if (place.n_rows || n == 1) RK_TRY(add_piece_location(x, place));
        }
    }
    return RK_OK;
}

static rk_status index_files(rk_source_index *x, const rk_source *all, bool exact, int64_t *cannot) {
    RK_AUTO(rk_chunk_release) rk_chunk chunk = {0};
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(all->options.n_paths, x->files), RK_ARRAY(all->options.n_paths, x->stamps)));
    x->n_files = all->options.n_paths;
    x->is_exact = true;
    for (size_t i = 0; i < x->n_files && *cannot < 0; i++)
        RK_TRY(index_file(x, i, all, exact, &chunk, cannot));
    return RK_OK;
}

rk_status rk_source_index_create(const rk_source *all, bool exact, int64_t n_rows_enough,
                                 rk_source_index **out, int64_t *cannot) {
    *out = NULL;
    *cannot = -1;
    rk_source_index *x;
    RK_TRY(rk_alloc(1, sizeof *x, &x));
    rk_status status = index_files(x, all, exact, cannot);
    bool is_of_use = status == RK_OK && *cannot < 0 && x->n_rows > n_rows_enough;
    if (is_of_use) status = split_blocks_into_pieces(x);
    if (is_of_use && status == RK_OK)
        *out = x;
    else
        rk_source_index_free(x);
    return status;
}

rk_source *rk_source_index_source_of_piece(const rk_source_index *x, size_t place) {
    return x->files[x->places[place].file];
}

static rk_status read_exactly_at(int descriptor, const char *path, uint64_t begin, char *out,
                                 size_t n_bytes) {
    size_t n_read;
    int code = rk_file_read_at(descriptor, begin, out, n_bytes, &n_read);
    if (code) return rk_error_errno(RK_IO, code, "could not read '%s'", path);
    RK_FAIL_IF(n_read < n_bytes, RK_IO, "'%s' was truncated while it was read", path);
    return RK_OK;
}

static rk_status read_piece(const rk_source_index *x, const rk_piece_location *place, const char *path,
                            char *out) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return rk_error_errno(errno == ENOENT ? RK_NOT_FOUND : RK_IO, errno, "could not open '%s'", path);
    struct stat info;
    file_stamp now = {0};
    if (fstat(descriptor, &info) == 0) now = make_file_stamp(&info);
    rk_status status = memcmp(&now, &x->stamps[place->file], sizeof now) == 0
                           ? read_exactly_at(descriptor, path, place->begin, out, place->n_bytes)
                           : rk_error(RK_IO, "'%s' changed while the run was using it", path);
    close(descriptor);
    return status;
}

rk_status rk_source_index_read_piece(const rk_source_index *x, size_t number, rk_chunk *chunk) {
    const rk_piece_location *place = &x->places[number];
    rk_source *s = x->files[place->file];
    chunk->known_rows = s->reader->lines && !x->is_exact ? -1 : place->n_rows;
    chunk->block = place->block;
    if (!s->reader->lines) return RK_OK;
    RK_TRY(rk_reserve(&chunk->memory, &chunk->memory_bytes, place->n_bytes, 1));
    chunk->data = chunk->memory;
    chunk->n_bytes = place->n_bytes;
    chunk->position = place->begin;
    return read_piece(x, place, rk_source_path(s), chunk->memory);
}

rk_status rk_source_index_finish_piece(const rk_source_index *x, size_t place, rk_chunk *chunk) {
    rk_source *s = x->files[x->places[place].file];
    s->next_line = x->places[place].first_line;
    return rk_source_finish_chunk(s, chunk);
}

/* 0, 16, 8, 24, 4, ...: as many of its beginning as one likes are spread evenly. */
static size_t reverse_bits(size_t i) {
    size_t out = 0;
    for (size_t bit = 1; bit < RK_INDEX_LANES; bit *= 2) out = out * 2 + (i & bit ? 1 : 0);
    return out;
}

static int compare_keys(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The files in lanes, one behind the other, each with its pieces shuffled; of each lane in turn the next
 * piece. */
static void interleave_pieces_of_lanes(const uint32_t *shuffled, size_t n, uint32_t *order) {
    size_t n_lanes = n < RK_INDEX_LANES ? n : RK_INDEX_LANES, n_taken = 0;
    for (size_t round = 0; n_taken < n; round++)
        for (size_t i = 0; i < RK_INDEX_LANES; i++) {
            size_t lane = reverse_bits(i), begin = lane * n / n_lanes;
            if (lane < n_lanes && begin + round < (lane + 1) * n / n_lanes)
                order[n_taken++] = shuffled[begin + round];
        }
}

rk_status rk_source_index_shuffle_pieces(const rk_source_index *x, uint64_t seed, int64_t window_rows,
                                         bool by_turns, uint32_t *order) {
    size_t n = x->n_places, n_lanes = n < RK_INDEX_LANES ? n : RK_INDEX_LANES;
    RK_AUTOFREE uint32_t *shuffled = NULL;
    RK_TRY(rk_alloc(n, sizeof *shuffled, &shuffled));
    for (size_t lane = 0; lane < n_lanes; lane++) {
        size_t begin = lane * n / n_lanes, end = (lane + 1) * n / n_lanes;
        rk_rng_permutation(seed, UINT64_MAX - lane, shuffled + begin, (uint32_t)(end - begin));
        for (size_t i = begin; i < end; i++) shuffled[i] += (uint32_t)begin;
    }
    interleave_pieces_of_lanes(shuffled, n, order);
    int64_t n_rows = 0;
    for (size_t first = 0, i = 0; i < n && !by_turns; i++) {
        n_rows += x->places[order[i]].n_rows;
        if (n_rows < window_rows && i + 1 < n) continue;
        qsort(order + first, i + 1 - first, sizeof *order, compare_keys);
        first = i + 1;
        n_rows -= window_rows;
    }
    return RK_OK;
}
