/* What the emulator does, and what it catches. */
#include "cuda/device_testing.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/emulator/emulator_control.h"
#include "cuda/test_emulator.h"

static void test_warps(void **state) {
    (void)state;
    enum { THREADS = 128, WORDS = 8 };
    uint32_t out[THREADS * WORDS], *memory = on_device(NULL, sizeof out);
    test_warp_functions(stream, memory);
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, out, memory, sizeof out));
    for (uint32_t t = 0; t < THREADS; t++) {
        uint32_t lane = t % 32, warp = 100 * (t % 64 / 32), *mine = out + WORDS * t;
        assert_int_equal(mine[0], warp + 5);
        assert_int_equal(mine[1], warp + (lane ^ 3));
        assert_int_equal(mine[2], warp + (lane + 4 < 32 ? lane + 4 : lane));
        assert_int_equal(mine[3], warp + (lane >= 4 ? lane - 4 : lane));
        assert_int_equal(mine[4], 0x49249249);
        assert_int_equal(mine[5], 1);
        assert_int_equal(mine[6], warp + lane / 8 * 8 + 1);
        assert_int_equal(mine[7], 2 * (warp + (lane ^ 16)));
    }
    rk_device_free(device, memory);
}

static void test_blocks(void **state) {
    (void)state;
    enum { ROWS = 32, COLS = 48 };
    float in[ROWS * COLS], out[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++) in[i] = (float)i;
    float *d_in = on_device(in, sizeof in), *d_out = on_device(NULL, sizeof in);
    uint32_t turned[45], *d_turned = on_device(NULL, sizeof turned), sum,
                         *d_sum = on_device(NULL, sizeof sum);
    test_transpose(stream, d_in, d_out);
    test_ragged_block(stream, d_turned);
    test_dynamic_shared(stream, d_sum);
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, out, d_out, sizeof out));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) assert_true(out[j * ROWS + i] == in[i * COLS + j]);
    OK(rk_device_download(device, turned, d_turned, sizeof turned));
    for (uint32_t t = 0; t < 45; t++) assert_int_equal(turned[t], (t + 10) % 45);
    OK(rk_device_download(device, &sum, d_sum, sizeof sum));
    assert_int_equal(sum, 4 * 3 * 99 * 100 / 2);
    rk_device_free(device, d_in);
    rk_device_free(device, d_out);
    rk_device_free(device, d_turned);
    rk_device_free(device, d_sum);
}

static void test_missing_barrier_shows(void **state) {
    (void)state;
    uint32_t out[64], *memory = on_device(NULL, sizeof out);
    bool is_found = false;
    for (int i = 0; i < 10; i++) {
        test_missing_barrier(stream, memory);
        OK(rk_stream_sync(stream));
        OK(rk_device_download(device, out, memory, sizeof out));
        for (uint32_t t = 0; t < 64; t++) is_found |= out[t] != (t ? t - 1 : 0);
    }
    assert_true(is_found);
    rk_device_free(device, memory);
}

/* The same seed, the same order. */
static void test_seeds(void **state) {
    (void)state;
    uint32_t out[2][64], *memory = on_device(NULL, sizeof *out);
    for (uint64_t seed = 0; seed < 10; seed++) {
        for (int i = 0; i < 2; i++) {
            rk_emulator_seed(seed);
            test_missing_barrier(stream, memory);
            OK(rk_stream_sync(stream));
            OK(rk_device_download(device, out[i], memory, sizeof *out));
        }
        assert_memory_equal(out[0], out[1], sizeof *out);
    }
    rk_device_free(device, memory);
}

/* Runs `work` in a child, which must die of `signal_number` after a message with `text` in it. */
static void expect_death(void (*work)(uint32_t *memory), int signal_number, const char *text) {
    uint32_t *memory = on_device(NULL, 1024);
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        work(memory);
        rk_status ignored = rk_stream_sync(stream);
        _exit(ignored == RK_OK ? 0 : 1);
    }
    close(ends[1]);
    char said[2000] = "";
    for (size_t n = 0, got = 1; got > 0 && n < sizeof said - 1; n += got) {
        ssize_t n_read = read(ends[0], said + n, sizeof said - 1 - n);
        got = n_read > 0 ? (size_t)n_read : 0;
    }
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!strstr(said, text)) fail_msg("said '%s'", said);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signal_number);
    rk_device_free(device, memory);
}

static void early_return(uint32_t *memory) {
    test_early_return(stream, memory);
}
static void divergent_shuffle(uint32_t *memory) {
    test_divergent_shuffle(stream, memory);
}
static void divergent_barrier(uint32_t *memory) {
    test_divergent_barrier(stream, memory);
}
static void lane_left(uint32_t *memory) {
    test_lane_left(stream, memory);
}
static void part_of_a_warp(uint32_t *memory) {
    test_part_of_a_warp(stream, memory);
}
static void narrow_mask(uint32_t *memory) {
    test_narrow_mask(stream, memory);
}
static void misaligned_number(uint32_t *memory) {
    test_misaligned_number(stream, memory);
}
#ifndef __clang__
static void misaligned_vector(uint32_t *memory) {
    test_misaligned_vector(stream, memory);
}
#endif
static void pointer_to_host(uint32_t *memory) {
    (void)memory;
    test_pointer(stream, &(int){0});
}
static void pageable_copy(uint32_t *memory) {
    rk_stream_upload(stream, memory, &(int){0}, sizeof(int));
}
static void long_copy(uint32_t *memory) {
    rk_stream_fill(stream, memory, 0, 1025);
}
static void used_after_free(uint32_t *memory) {
    rk_device_free(device, memory);
    rk_stream_fill(stream, memory, 0, 4);
}

static void test_caught(void **state) {
    (void)state;
    expect_death(early_return, SIGABRT, "waits at __syncthreads (");
    expect_death(early_return, SIGABRT, ") for thread 70, which has left the kernel");
    expect_death(divergent_shuffle, SIGABRT, "kernel 'divergent_shuffle', block (0, 0, 0), thread (");
    expect_death(divergent_shuffle, SIGABRT, "of the same warp at __shfl_sync (");
    expect_death(divergent_barrier, SIGABRT, "of the same block at __syncthreads (");
    expect_death(lane_left, SIGABRT, "for thread 40, which has left the kernel");
    expect_death(part_of_a_warp, SIGABRT, "__ballot_sync in a block of 40 threads, which is not whole warps");
    expect_death(narrow_mask, SIGABRT, "__ballot_sync with the mask 0xffff; only the full warp is emulated");
    expect_death(misaligned_number, SIGABRT,
                 "kernel 'misaligned_number', block (0, 0, 0), thread (0, 0, 0): an access to memory that is "
                 "not aligned to its size");
#ifndef __clang__ /* which looks at numbers and members, not at copies of a whole struct */
    expect_death(misaligned_vector, SIGABRT,
                 "kernel 'misaligned_vector', block (0, 0, 0), thread (0, 0, 0): an access to memory that is "
                 "not aligned to its size");
#endif
    expect_death(pointer_to_host, SIGABRT, "launch of 'pointer_only': the argument ");
    expect_death(pageable_copy, SIGABRT, "is no pinned memory");
    expect_death(long_copy, SIGABRT, "1025 bytes at ");
    expect_death(used_after_free, SIGABRT, "is no device memory");
}

/* Code of the host that touches device memory dies, as it would beside a GPU. */
static void touch(uint32_t *memory) {
    signal(SIGSEGV, SIG_DFL); /* not cmocka's */
    (void)on_device(NULL, 1); /* which watches for faults again */
    *(volatile uint32_t *)memory = 1;
}
static void test_host_touches(void **state) {
    (void)state;
    expect_death(touch, SIGSEGV, "emulator: code of the host touches device memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warps),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_missing_barrier_shows),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_caught),
        cmocka_unit_test(test_host_touches),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
