/* Memory, streams, marks, graphs of launches, failures. */
#include "cuda/device_testing.h"

#include "cuda/test_device.h"

#ifdef RK_EMULATED
#include "cuda/emulator/emulator_control.h"
#endif

enum { N = 1000 };

static void test_query(void **state) {
    (void)state;
    rk_device_info info;
    OK(rk_device_query(device, &info));
    assert_true(info.name[0] && info.n_processors > 0 && info.major >= 8 && info.free_bytes > 0 &&
                info.free_bytes <= info.memory_bytes);
#ifdef RK_EMULATED
    assert_true(info.is_emulated);
    assert_int_equal(setenv("RK_EMULATOR_DEVICES", "0", 1), 0);
    FAILS(rk_device_open(0, &(rk_device *){0}), RK_UNSUPPORTED,
          "no GPU can be used: no CUDA-capable device is detected\nhint: 'nvidia-smi' shows GPUs and driver; "
          "without a GPU, use 'device: cpu'");
    assert_int_equal(unsetenv("RK_EMULATOR_DEVICES"), 0);
    FAILS(rk_device_open(1, &(rk_device *){0}), RK_INVALID_ARGUMENT,
          "there is no GPU 1; 1 is there, counted from 0");
#else
    assert_false(info.is_emulated);
#endif
    assert_ptr_equal(rk_stream_device(stream), device);
}

static void test_memory(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 255, 256, 257, 4096, 100001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *memory = on_device(NULL, sizes[i]), *pinned, *back = malloc(sizes[i] + 1);
        OK(rk_device_alloc_host(device, sizes[i], (void **)&pinned));
        assert_int_equal((uintptr_t)memory % 256, 0);
        OK(rk_device_download(device, back, memory, sizes[i]));
        for (size_t k = 0; k < sizes[i]; k++) assert_true(back[k] == 0 && pinned[k] == 0);
        free(back);
        rk_device_free(device, memory);
        rk_device_free_host(device, pinned);
    }
    void *memory;
    assert_int_equal(rk_device_alloc(device, (size_t)1 << 50, &memory), RK_NO_MEMORY);
    assert_non_null(
        strstr(rk_last_error(), "memory of the GPU: 1125899906842624 bytes are needed, but the GPU has "));
    rk_device_free(device, NULL);
    rk_device_free_host(device, NULL);
}

/* Memory that the host has already, at an odd place in it. */
static void test_pin(void **state) {
    (void)state;
    float *mine = malloc((N + 3) * sizeof *mine), out[N], *copy = on_device(NULL, sizeof out);
    for (int i = 0; i < N + 3; i++) mine[i] = (float)i;
    OK(rk_device_pin(device, mine + 1, N * sizeof *mine));
    test_add_one(stream, N, mine + 1);
    rk_stream_upload(stream, copy, mine + 1, sizeof out);
    OK(rk_stream_sync(stream));
    rk_device_unpin(device, mine + 1);
    rk_device_unpin(device, NULL);
    OK(rk_device_download(device, out, copy, sizeof out));
    for (int i = 0; i < N + 3; i++) assert_true(mine[i] == (float)(i >= 1 && i <= N ? i + 1 : i));
    assert_memory_equal(out, mine + 1, sizeof out);
    rk_device_free(device, copy);
    free(mine);
}

/* More than the staging buffer holds. */
static void test_write_read(void **state) {
    (void)state;
    size_t n = (9u << 20) + 3;
    unsigned char *from = malloc(n), *to = malloc(n);
    for (size_t i = 0; i < n; i++) from[i] = (unsigned char)(i * 7 + (i >> 12));
    void *memory = on_device(from, n);
    OK(rk_device_download(device, to, memory, n));
    assert_memory_equal(from, to, n);
    rk_stream_fill(stream, memory, 0x5A, n - 1);
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, to, memory, n));
    for (size_t i = 0; i < n; i++) assert_int_equal(to[i], i < n - 1 ? 0x5A : from[i]);
    rk_device_free(device, memory);
    free(from);
    free(to);
}

static void test_launches(void **state) {
    (void)state;
    float in[N], out[N];
    for (int i = 0; i < N; i++) in[i] = (float)(i % 17);
    float *x = on_device(in, sizeof in), *sums = on_device(NULL, sizeof in),
          *copy = on_device(NULL, sizeof in);
    test_add_one(stream, N, x);
    test_suffix_sums(stream, N, x, sums);
    rk_stream_copy(stream, copy, sums, sizeof in);
    test_add_one(stream, 0, x);
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, out, copy, sizeof out));
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int j = i; j < N && j < (i / 64 + 1) * 64; j++) sum += in[j] + 1;
        assert_true(out[i] == sum);
    }
    rk_device_free(device, x);
    rk_device_free(device, sums);
    rk_device_free(device, copy);
}

/* Batches go up on a stream of their own into two buffers, and are worked on by another, as a training loop
 * does it; each wait can be left out. */
typedef enum leave_out { NOTHING, WAIT_FOR_UPLOAD, WAIT_FOR_USE, WAIT_FOR_PINNED } leave_out;

static bool pipeline_is_right(leave_out without) {
    enum { BATCHES = 6, COUNT = 64 };
    rk_stream *upload;
    rk_stream_event *uploaded[2], *used[2];
    float *pinned[2], *batch[2], *sums = on_device(NULL, sizeof(float) * COUNT * BATCHES),
                                 out[COUNT * BATCHES];
    OK(rk_stream_create(device, &upload));
    for (int i = 0; i < 2; i++) {
        OK(rk_stream_event_create(device, &uploaded[i]));
        OK(rk_stream_event_create(device, &used[i]));
        OK(rk_device_alloc_host(device, sizeof(float) * COUNT, (void **)&pinned[i]));
        batch[i] = on_device(NULL, sizeof(float) * COUNT);
    }
    for (int b = 0; b < BATCHES; b++) {
        int i = b % 2;
        if (without != WAIT_FOR_PINNED) OK(rk_stream_event_sync(uploaded[i]));
        for (int k = 0; k < COUNT; k++) pinned[i][k] = (float)(b * COUNT + k);
        if (without != WAIT_FOR_USE) rk_stream_wait_event(upload, used[i]);
        rk_stream_upload(upload, batch[i], pinned[i], sizeof(float) * COUNT);
        rk_stream_record_event(upload, uploaded[i]);
        if (without != WAIT_FOR_UPLOAD) rk_stream_wait_event(stream, uploaded[i]);
        test_suffix_sums(stream, COUNT, batch[i], sums + b * COUNT);
        rk_stream_record_event(stream, used[i]);
    }
    OK(rk_stream_sync(stream));
    OK(rk_stream_sync(upload));
    OK(rk_device_download(device, out, sums, sizeof out));
    bool is_right = true;
    for (int b = 0; b < BATCHES; b++) {
        float sum = 0;
        for (int k = COUNT - 1; k >= 0; k--)
            is_right &= out[b * COUNT + k] == (sum += (float)(b * COUNT + k));
    }
    for (int i = 0; i < 2; i++) {
        rk_stream_event_free(uploaded[i]);
        rk_stream_event_free(used[i]);
        rk_device_free_host(device, pinned[i]);
        rk_device_free(device, batch[i]);
    }
    rk_device_free(device, sums);
    rk_stream_free(upload);
    return is_right;
}

static void test_waits(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) assert_true(pipeline_is_right(NOTHING));
}

#ifdef RK_EMULATED
/* Each missing wait shows in one of a few orders. */
static void test_missing_waits(void **state) {
    (void)state;
    for (leave_out without = WAIT_FOR_UPLOAD; without <= WAIT_FOR_PINNED; without++) {
        bool is_found = false;
        for (int i = 0; i < 10; i++) is_found |= !pipeline_is_right(without);
        assert_true(is_found);
    }
}

static void test_failed_allocation(void **state) {
    (void)state;
    void *memory = NULL;
    rk_emulator_fail_allocation(0);
    assert_int_equal(rk_device_alloc(device, 1, &memory), RK_NO_MEMORY);
    rk_emulator_fail_allocation(0);
    assert_int_equal(rk_device_alloc_host(device, 1, &memory), RK_NO_MEMORY);
    assert_null(memory);
    OK(rk_device_alloc(device, 1, &memory));
    rk_device_free(device, memory);
}
#endif

static void test_stream_wait(void **state) {
    (void)state;
    rk_stream *other;
    float zeros[N] = {0}, out[N], *x = on_device(zeros, sizeof zeros), *y = on_device(zeros, sizeof zeros);
    OK(rk_stream_create(device, &other));
    for (int i = 0; i < 10; i++) {
        test_add_one(stream, N, x);
        rk_stream_wait_for_stream(other, stream);
        rk_stream_copy(other, y, x, sizeof zeros);
        rk_stream_wait_for_stream(stream, other);
    }
    test_add_one(stream, N, x);
    OK(rk_stream_sync(other));
    OK(rk_device_download(device, out, y, sizeof out));
    for (int i = 0; i < N; i++) assert_true(out[i] == 10);
    OK(rk_stream_sync(stream));
    rk_stream_free(other);
    rk_device_free(device, x);
    rk_device_free(device, y);
}

/* A graph over two streams; what it reads may change between its runs. */
static void test_graph(void **state) {
    (void)state;
    rk_stream *other;
    rk_launch_graph *graph;
    float zeros[N] = {0}, out[N], *x = on_device(zeros, sizeof zeros), *y = on_device(zeros, sizeof zeros),
          *sums = on_device(zeros, sizeof zeros);
    OK(rk_stream_create(device, &other));
    OK(rk_stream_capture_begin(stream));
    test_add_one(stream, N, x);
    rk_stream_wait_for_stream(other, stream);
    test_suffix_sums(other, N, x, sums);
    test_add_one(stream, N, y);
    rk_stream_wait_for_stream(stream, other);
    test_add_one(stream, N, x);
    OK(rk_stream_capture_end(stream, &graph));
    for (int run = 0; run < 3; run++) {
        rk_launch_graph_run(graph, stream);
        OK(rk_stream_sync(stream));
        OK(rk_device_download(device, out, sums, sizeof out));
        for (int i = 0; i < N; i++) {
            int last = (i / 64 + 1) * 64 < N ? (i / 64 + 1) * 64 : N;
            assert_true(out[i] == (float)((last - i) * (2 * run + 1)));
        }
        OK(rk_device_download(device, out, y, sizeof out));
        for (int i = 0; i < N; i++) assert_true(out[i] == (float)(run + 1));
    }
    rk_launch_graph_free(graph);
    OK(rk_stream_capture_begin(stream));
    test_add_one(stream, N, x);
    rk_stream_wait_for_stream(other, stream);
    test_add_one(other, N, y);
    assert_int_equal(rk_stream_capture_end(stream, &graph), RK_UNSUPPORTED); /* nobody waits for `other` */
    test_add_one(stream, N, x); /* what was told is not kept as this one's failure */
    OK(rk_stream_sync(stream));
    rk_stream_free(other);
    rk_device_free(device, x);
    rk_device_free(device, y);
    rk_device_free(device, sums);
}

/* The first failure stays. The last test of all. */
static void test_failure(void **state) {
    (void)state;
    float *x = on_device(NULL, sizeof(float));
    test_too_many_threads(stream, x);
    test_add_one(stream, 1, x);
    for (int i = 0; i < 2; i++) {
        static const char launch[] =
            "GPU 0: launch of 'add_one': invalid "; /* drivers say what in other words */
        assert_int_equal(rk_stream_sync(stream), RK_INTERNAL);
        assert_memory_equal(rk_last_error(), launch, sizeof launch - 1);
    }
    assert_int_equal(rk_device_download(device, &(float){0}, x, sizeof(float)), RK_INTERNAL);
    rk_device_free(device, x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_query),         cmocka_unit_test(test_memory),
        cmocka_unit_test(test_pin),           cmocka_unit_test(test_write_read),
        cmocka_unit_test(test_launches),      cmocka_unit_test(test_waits),
        cmocka_unit_test(test_stream_wait),   cmocka_unit_test(test_graph),
#ifdef RK_EMULATED
        cmocka_unit_test(test_missing_waits), cmocka_unit_test(test_failed_allocation),
#endif
        cmocka_unit_test(test_failure),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
