/* Plain and packed streams, several members in a file, cut and corrupt ones, the window over a stream,
 * sinks. */
#include "fixture.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "format/byte_stream.h"

enum { N_TEXT = 700000 };
static char text[N_TEXT];
static const char path[] = "test_byte_stream.bin";

static int setup(void **state) {
    (void)state;
    rk_rng rng = {41, 1, 0};
    for (int i = 0; i < N_TEXT; i++) text[i] = (char)("abcdefgh\n"[draw(&rng, 9)]);
    return 0;
}

static void add_gzip(rk_buffer *out, const char *data, size_t n) {
    unsigned char *packed = malloc(n + 1000);
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(size_t)data;
    z.avail_in = (uInt)n;
    z.next_out = packed;
    z.avail_out = (uInt)n + 1000;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    rk_buffer_append(out, packed, z.total_out);
    deflateEnd(&z);
    free(packed);
}

static void add_zstd(rk_buffer *out, const char *data, size_t n) {
    size_t bound = ZSTD_compressBound(n);
    char *packed = malloc(bound);
    rk_buffer_append(out, packed, ZSTD_compress(packed, bound, data, n, 3));
    free(packed);
}

/* All of a stream, by reads of `step` bytes; the bytes are compared with the text as they come. */
static rk_status read_by(const char *from, size_t step, size_t *out_bytes) {
    rk_byte_stream *stream;
    RK_TRY(rk_byte_stream_open(from, &stream));
    char *part = malloc(step);
    size_t n = 1;
    *out_bytes = 0;
    rk_status status = RK_OK;
    while (status == RK_OK && n) {
        status = rk_byte_stream_read(stream, part, step, &n);
        if (status != RK_OK) break;
        assert_true(*out_bytes + n <= N_TEXT);
        assert_memory_equal(part, text + *out_bytes, n);
        *out_bytes += n;
    }
    if (status == RK_OK)
        assert_int_equal(rk_byte_stream_file_position(stream), rk_byte_stream_file_size(stream));
    free(part);
    rk_byte_stream_free(stream);
    return status;
}

static void expect(const rk_buffer *file, size_t n_text) {
    static const size_t steps[] = {1, 7, 4096, 1 << 18, 1 << 20};
    OK(file->status);
    OK(rk_file_write(path, file->data, file->n_bytes));
    for (size_t i = n_text > 5000 ? 2 : 0; i < 5; i++) {
        size_t n;
        OK(read_by(path, steps[i], &n));
        assert_int_equal(n, n_text);
    }
}

static void test_kinds(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 3, 5, 1000, N_TEXT};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        rk_buffer plain = {0}, gzip = {0}, zstd = {0};
        rk_buffer_append(&plain, text, n);
        expect(&plain, n);
        add_gzip(&gzip, text, n);
        expect(&gzip, n);
        add_zstd(&zstd, text, n);
        expect(&zstd, n);
        rk_buffer_release(&plain);
        rk_buffer_release(&gzip);
        rk_buffer_release(&zstd);
    }
}

static void test_members(void **state) {
    (void)state;
    rk_buffer gzip = {0}, zstd = {0};
    for (size_t at = 0, n = 1; at < N_TEXT; at += n, n *= 3) {
        if (n > N_TEXT - at) n = N_TEXT - at;
        add_gzip(&gzip, text + at, n);
        add_gzip(&gzip, "", 0);
        rk_buffer_append(&zstd, "\x50\x2a\x4d\x18\x04\0\0\0skip", 12);
        add_zstd(&zstd, text + at, n);
    }
    expect(&gzip, N_TEXT);
    expect(&zstd, N_TEXT);
    rk_buffer_release(&gzip);
    rk_buffer_release(&zstd);
}

static void test_damage(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        rk_buffer file = {0};
        (kind ? add_zstd : add_gzip)(&file, text, 600);
        for (size_t n = 4; n < file.n_bytes; n++) {
            size_t got;
            OK(rk_file_write(path, file.data, n));
            assert_int_equal(read_by(path, 1 << 16, &got), RK_BAD_DATA);
            char expected[80];
            snprintf(expected, sizeof expected, "'%s': byte %zu: the compressed data is cut", path, n);
            assert_string_equal(rk_last_error(), expected);
        }
        file.data[file.n_bytes / 2] = (char)~file.data[file.n_bytes / 2];
        OK(rk_file_write(path, file.data, file.n_bytes));
        rk_byte_stream *stream;
        OK(rk_byte_stream_open(path, &stream));
        char *out = malloc(1 << 16);
        size_t n = 1;
        rk_status status = RK_OK;
        while (status == RK_OK && n) status = rk_byte_stream_read(stream, out, 1 << 16, &n);
        if (kind == 0) assert_int_equal(status, RK_BAD_DATA); /* this zstd frame has no checksum */
        free(out);
        rk_byte_stream_free(stream);
        rk_buffer_clear(&file);
        (kind ? add_zstd : add_gzip)(&file, text, 600);
        rk_buffer_append_text(&file, "no member");
        OK(rk_file_write(path, file.data, file.n_bytes));
        assert_int_equal(read_by(path, 1 << 16, &(size_t){0}), RK_BAD_DATA);
        rk_buffer_release(&file);
    }
    rk_byte_stream *stream;
    assert_int_equal(rk_byte_stream_open("no/such", &stream), RK_NOT_FOUND);
    assert_int_equal(rk_byte_stream_open(".", &stream), RK_IO);
}

/* Standard input is a pipe that gives a byte at a time. */
static void test_pipe(void **state) {
    (void)state;
    rk_buffer gzip = {0};
    add_gzip(&gzip, text, 3000);
    int ends[2], input = dup(STDIN_FILENO);
    assert_int_equal(pipe(ends), 0);
    if (fork() == 0) {
        close(ends[0]);
        for (size_t i = 0; i < gzip.n_bytes; i++) {
            if (write(ends[1], gzip.data + i, 1) != 1) _exit(1);
            if (i < 5) usleep(2000);
        }
        _exit(0);
    }
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    rk_byte_stream *stream;
    OK(rk_byte_stream_open("-", &stream));
    assert_int_equal(rk_byte_stream_file_size(stream), 0);
    char out[5000];
    size_t n = 1, total = 0;
    while (n) {
        OK(rk_byte_stream_read(stream, out + total, sizeof out - total, &n));
        total += n;
    }
    assert_int_equal(total, 3000);
    assert_memory_equal(out, text, total);
    rk_byte_stream_free(stream);
    dup2(input, STDIN_FILENO);
    close(input);
    rk_buffer_release(&gzip);
}

static void test_lookahead(void **state) {
    (void)state;
    rk_buffer gzip = {0};
    add_gzip(&gzip, text, N_TEXT);
    OK(rk_file_write(path, gzip.data, gzip.n_bytes));
    rk_rng rng = {42, 1, 0};
    for (int round = 0; round < 20; round++) {
        rk_byte_lookahead l = {0};
        OK(rk_byte_stream_open(path, &l.stream));
        size_t at = 0;
        for (;;) {
            size_t need = (size_t)draw(&rng, round % 4 ? 5000 : 600000) + 1;
            OK(rk_byte_lookahead_fill(&l, need));
            assert_int_equal(l.position, at);
            assert_true(l.n_bytes >= need || l.at_end);
            if (l.n_bytes == 0) break;
            assert_memory_equal(l.data, text + at, l.n_bytes);
            size_t used = (size_t)draw(&rng, l.n_bytes < need ? l.n_bytes : need) + 1;
            rk_byte_lookahead_consume(&l, used);
            at += used;
        }
        assert_int_equal(at, N_TEXT);
        rk_byte_stream_free(l.stream);
        rk_byte_lookahead_release(&l);
    }
    rk_buffer_release(&gzip);
}

/* What is handed over stays as it is while more is read. */
static void test_hand_over(void **state) {
    (void)state;
    OK(rk_file_write(path, text, N_TEXT));
    rk_rng rng = {43, 1, 0};
    rk_byte_lookahead l = {0};
    char *memory[3] = {NULL};
    size_t n_memory[3] = {0}, n[3] = {0}, begins[3] = {0}, at = 0;
    OK(rk_byte_stream_open(path, &l.stream));
    for (int turn = 0;; turn = (turn + 1) % 3) {
        OK(rk_byte_lookahead_fill(&l, (size_t)draw(&rng, 90000) + 1));
        for (int i = 0; i < 3; i++)
            if (i != turn && n[i]) assert_memory_equal(memory[i], text + begins[i], n[i]);
        if (l.n_bytes == 0) break;
        n[turn] = (size_t)draw(&rng, l.n_bytes) + 1;
        begins[turn] = at;
        bool whole = l.data == l.memory;
        OK(rk_byte_lookahead_swap_buffer(&l, n[turn], &memory[turn], &n_memory[turn]));
        assert_true(whole && n_memory[turn] >= n[turn]);
        at += n[turn];
        assert_int_equal(l.position, at);
    }
    assert_int_equal(at, N_TEXT);
    rk_byte_stream_free(l.stream);
    rk_byte_lookahead_release(&l);
    for (int i = 0; i < 3; i++) rk_free(memory[i]);
}

static rk_status write_by(const char *to, size_t step) {
    rk_byte_sink *sink;
    RK_TRY(rk_byte_sink_open(to, &sink));
    rk_status status = RK_OK;
    for (size_t at = 0; status == RK_OK && at < N_TEXT; at += step)
        status = rk_byte_sink_write(sink, text + at, step < N_TEXT - at ? step : N_TEXT - at);
    if (status == RK_OK) status = rk_byte_sink_commit(sink);
    rk_byte_sink_free(sink);
    return status;
}

static void test_sinks(void **state) {
    (void)state;
    static const char *const paths[] = {"test_byte_stream_sink", "test_byte_stream_sink.gz",
                                        "test_byte_stream_sink.zst"};
    uint64_t sizes[3];
    for (int i = 0; i < 3; i++) {
        size_t n;
        OK(write_by(paths[i], i ? 100001 : 999));
        OK(read_by(paths[i], 1 << 16, &n));
        assert_int_equal(n, N_TEXT);
        OK(rk_file_size(paths[i], &sizes[i]));
        OK(rk_remove_tree(paths[i]));
        for (int64_t fail = 0; fail < 3; fail++) { /* a full disk leaves nothing */
            rk_file_fail_after(fail * 50000);
            rk_status status = write_by(paths[i], 50000);
            rk_file_fail_after(-1);
            assert_int_equal(status, RK_IO);
            assert_false(rk_file_exists(paths[i]));
        }
        rk_byte_sink *sink;
        OK(rk_byte_sink_open(paths[i], &sink));
        OK(rk_byte_sink_write(sink, text, 100));
        rk_byte_sink_free(sink);
        assert_false(rk_file_exists(paths[i]));
    }
    assert_true(sizes[0] == N_TEXT && sizes[1] < N_TEXT && sizes[2] < N_TEXT);
}

static rk_status read_whole(void) {
    rk_byte_lookahead l = {0};
    RK_TRY(rk_byte_stream_open(path, &l.stream));
    rk_status status = rk_byte_lookahead_fill(&l, N_TEXT + 1);
    if (status == RK_OK) assert_int_equal(l.n_bytes, N_TEXT);
    rk_byte_stream_free(l.stream);
    rk_byte_lookahead_release(&l);
    return status;
}

static void test_out_of_memory(void **state) {
    (void)state;
    OK(rk_file_write(path, text, N_TEXT));
    for (long n = 1;; n++) {
        rk_alloc_fail_after(n, true);
        rk_status status = read_whole();
        rk_alloc_fail_after(0, false);
        assert_int_equal(rk_alloc_live(), 0);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds), cmocka_unit_test(test_members),      cmocka_unit_test(test_damage),
        cmocka_unit_test(test_pipe),  cmocka_unit_test(test_lookahead),    cmocka_unit_test(test_hand_over),
        cmocka_unit_test(test_sinks), cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
