#include "format/byte_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/memory.h"

enum { INPUT_BYTES = 1 << 16 };

typedef enum packing { PLAIN, GZIP, ZSTD } packing;

struct rk_byte_stream {
    char *path;
    int descriptor;
    packing kind;
    uint64_t position, size; /* of the file itself */
    unsigned char *input;    /* [n_input] read, `used` of it consumed */
    size_t n_input, used;
    bool at_end;    /* of the file */
    bool in_member; /* inside a packed member: the file may not end here */
    z_stream gzip;
    ZSTD_DStream *zstd;
};

/* Up to n_bytes of the file; 0 at its end. */
static rk_status read_file(rk_byte_stream *s, void *out, size_t n_bytes, size_t *out_bytes) {
    ssize_t n;
    do n = read(s->descriptor, out, n_bytes);
    while (n < 0 && errno == EINTR);
    if (n < 0) return rk_error_errno(RK_IO, errno, "could not read '%s'", s->path);
    s->position += (uint64_t)n;
    s->at_end = n == 0;
    *out_bytes = (size_t)n;
    return RK_OK;
}

static rk_status refill_input(rk_byte_stream *s) {
    if (s->used < s->n_input || s->at_end) return RK_OK;
    s->n_input = s->used = 0;
    return read_file(s, s->input, INPUT_BYTES, &s->n_input);
}

/* By the first bytes: gzip, or zstd (a frame, or one to be skipped that some packers put first). */
static rk_status detect_compression(rk_byte_stream *s) {
    enum { MAGIC_BYTES = 4 };
    while (s->n_input < MAGIC_BYTES && !s->at_end) { /* a pipe may give less at a time */
        size_t n;
        RK_TRY(read_file(s, s->input + s->n_input, INPUT_BYTES - s->n_input, &n));
        s->n_input += n;
    }
    if (s->n_input >= 2 && s->input[0] == 0x1f && s->input[1] == 0x8b) {
        RK_FAIL_IF(inflateInit2(&s->gzip, 15 + 16) != Z_OK, RK_NO_MEMORY,
                   "could not start decompression '%s'", s->path);
        s->kind = GZIP;
    } else if (s->n_input >= MAGIC_BYTES &&
               (memcmp(s->input, "\x28\xb5\x2f\xfd", 4) == 0 ||
                ((s->input[0] & 0xf0) == 0x50 && memcmp(s->input + 1, "\x2a\x4d\x18", 3) == 0))) {
        s->zstd = ZSTD_createDStream();
        RK_FAIL_IF(!s->zstd, RK_NO_MEMORY, "could not start decompression '%s'", s->path);
        s->kind = ZSTD;
    }
    return RK_OK;
}

rk_status rk_byte_stream_open(const char *path, rk_byte_stream **out) {
    rk_byte_stream *s;
    RK_TRY(rk_alloc(1, sizeof *s, &s));
    s->descriptor = -1;
    rk_status status;
    RK_GOTO(rk_strdup(path, &s->path));
    RK_GOTO(rk_alloc(INPUT_BYTES, 1, &s->input));
    s->descriptor = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (s->descriptor < 0)
        RK_GOTO(rk_error_errno(errno == ENOENT ? RK_NOT_FOUND : RK_IO, errno, "could not open '%s'", path));
    struct stat info;
    if (fstat(s->descriptor, &info) == 0) {
        if (S_ISDIR(info.st_mode)) RK_GOTO(rk_error(RK_IO, "could not read '%s': it is a directory", path));
        s->size = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    }
    RK_GOTO(detect_compression(s));
    *out = s;
    return RK_OK;
done:
    rk_byte_stream_free(s);
    return status;
}

void rk_byte_stream_free(rk_byte_stream *s) {
    if (!s) return;
    if (s->descriptor >= 0) close(s->descriptor);
    if (s->kind == GZIP) inflateEnd(&s->gzip);
    ZSTD_freeDStream(s->zstd);
    RK_FREE_ALL(s->input, s->path, s);
}

static rk_status damaged_error(const rk_byte_stream *s, const char *what, const char *reason) {
    return rk_error(RK_BAD_DATA, "'%s': byte %llu: the compressed data is %s%s%s", s->path,
                    (unsigned long long)rk_byte_stream_file_position(s), what, reason ? ": " : "",
                    reason ? reason : "");
}

/* One step of unpacking: from what was read to out; *out_bytes may be 0 though there is more. */
static rk_status decompress_gzip(rk_byte_stream *s, void *out, size_t n_bytes, size_t *out_bytes) {
    uInt room = (uInt)(n_bytes < (1u << 30) ? n_bytes : (1u << 30));
    s->gzip.next_in = s->input + s->used;
    s->gzip.avail_in = (uInt)(s->n_input - s->used);
    s->gzip.next_out = out;
    s->gzip.avail_out = room;
    int code = inflate(&s->gzip, Z_NO_FLUSH);
    s->used = s->n_input - s->gzip.avail_in;
    *out_bytes = room - s->gzip.avail_out;
    s->in_member = code != Z_STREAM_END;
    if (code == Z_MEM_ERROR) return rk_error(RK_NO_MEMORY, "out of memory while decompressing '%s'", s->path);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        return damaged_error(s, "corrupt", s->gzip.msg);
    if (code == Z_STREAM_END) inflateReset(&s->gzip); /* another member may follow */
    return RK_OK;
}

static rk_status decompress_zstd(rk_byte_stream *s, void *out, size_t n_bytes, size_t *out_bytes) {
    ZSTD_inBuffer in = {s->input, s->n_input, s->used};
    ZSTD_outBuffer to = {out, n_bytes, 0};
    size_t code = ZSTD_decompressStream(s->zstd, &to, &in);
    s->used = in.pos;
    *out_bytes = to.pos;
    s->in_member = code != 0;
    if (!ZSTD_isError(code)) return RK_OK;
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return rk_error(RK_NO_MEMORY, "out of memory while decompressing '%s'", s->path);
    return damaged_error(s, "corrupt", ZSTD_getErrorName(code));
}

/* Large reads of a plain file go straight to the caller. */
static rk_status read_plain(rk_byte_stream *s, void *out, size_t n_bytes, size_t *out_bytes) {
    if (s->used == s->n_input && !s->at_end && n_bytes >= INPUT_BYTES)
        return read_file(s, out, n_bytes, out_bytes);
    RK_TRY(refill_input(s));
    size_t n = s->n_input - s->used < n_bytes ? s->n_input - s->used : n_bytes;
    if (n) memcpy(out, s->input + s->used, n);
    s->used += n;
    *out_bytes = n;
    return RK_OK;
}

rk_status rk_byte_stream_read(rk_byte_stream *s, void *out, size_t n_bytes, size_t *out_bytes) {
    size_t n = 0;
    if (n_bytes && s->kind == PLAIN) RK_TRY(read_plain(s, out, n_bytes, &n));
    while (n_bytes && s->kind != PLAIN && n == 0) {
        RK_TRY(refill_input(s));
        bool empty = s->used == s->n_input;
        if (empty && !s->in_member) break;
        RK_TRY(s->kind == GZIP ? decompress_gzip(s, out, n_bytes, &n) : decompress_zstd(s, out, n_bytes, &n));
        if (n == 0 && empty) return damaged_error(s, "cut", NULL);
    }
    *out_bytes = n;
    return RK_OK;
}

bool rk_byte_stream_is_plain(const rk_byte_stream *s) {
    return s->kind == PLAIN;
}

uint64_t rk_byte_stream_file_position(const rk_byte_stream *s) {
    return s->position - (s->n_input - s->used);
}

uint64_t rk_byte_stream_file_size(const rk_byte_stream *s) {
    return s->size;
}

rk_status rk_byte_lookahead_fill(rk_byte_lookahead *l, size_t need) {
    if (l->n_bytes >= need || l->at_end) return RK_OK;
    if (need > l->capacity) {
        char *memory = NULL;
        RK_TRY(rk_realloc(need, 1, &memory));
        if (l->n_bytes) memcpy(memory, l->data, l->n_bytes);
        rk_free(l->memory);
        l->memory = memory;
        l->capacity = need;
    } else if (l->n_bytes && l->data != l->memory) {
        memmove(l->memory, l->data, l->n_bytes);
    }
    l->data = l->memory;
    while (l->n_bytes < need && !l->at_end) {
        size_t n;
        RK_TRY(rk_byte_stream_read(l->stream, l->data + l->n_bytes, l->capacity - l->n_bytes, &n));
        l->n_bytes += n;
        l->at_end = n == 0;
    }
    return RK_OK;
}

void rk_byte_lookahead_consume(rk_byte_lookahead *l, size_t n_bytes) {
    l->data += n_bytes;
    l->n_bytes -= n_bytes;
    l->position += n_bytes;
}

rk_status rk_byte_lookahead_swap_buffer(rk_byte_lookahead *l, size_t n_bytes, char **memory,
                                        size_t *n_memory) {
    size_t rest = l->n_bytes - n_bytes, capacity = *n_memory;
    char *next = *memory;
    if (rest > capacity) RK_TRY(rk_realloc(capacity = rest > l->capacity ? rest : l->capacity, 1, &next));
    if (rest) memcpy(next, l->data + n_bytes, rest);
    *memory = l->memory;
    *n_memory = l->capacity;
    *l = (rk_byte_lookahead){.stream = l->stream,
                             .data = next,
                             .n_bytes = rest,
                             .at_end = l->at_end,
                             .position = l->position + n_bytes,
                             .memory = next,
                             .capacity = capacity};
    return RK_OK;
}

void rk_byte_lookahead_release(rk_byte_lookahead *l) {
    rk_free(l->memory);
    *l = (rk_byte_lookahead){0};
}
