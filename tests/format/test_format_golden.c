/* The files of tests/golden: what is written stays the same byte for byte, and what others wrote is read.
 *
 * Each test leaves the file that it compares in its working directory; after a meant change of a format's
 * version, copy it. */
#include "fixture.h"
#include "show_list.h"

#include "base/buffer.h"
#include "base/file/file.h"
#include "format/rkb/rkb.h"
#include "format/safetensors.h"
#include "format/protobuf/tensorboard.h"
#include "format/protobuf/tfrecord.h"

#define GOLDEN RK_SOURCE_DIR "/tests/golden/"

static void expect_same_file(const char *made, const char *golden) {
    char *a, *b;
    size_t n, m;
    OK(rk_file_read(made, &a, &n));
    OK(rk_file_read(golden, &b, &m));
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    rk_free(a);
    rk_free(b);
}

/* 12 rows in two blocks: every type and every packing. */
static void fill_block(rk_columns *c, int first, int n_rows) {
    static const char *const words[] = {"red", "green", "blue"};
    char text[32];
    for (int r = first; r < first + n_rows; r++) {
        snprintf(text, sizeof text, "user-%d", r * r);
        OK(rk_column_add_text(&c->columns[0], text_span(text)));
        for (int i = 0; i < r % 4; i++) OK(rk_column_add_text(&c->columns[1], text_span(words[(r + i) % 3])));
        OK(rk_column_add_i64(&c->columns[2], 1000 + r));
        OK(rk_column_add_i64(&c->columns[3], r % 2 ? INT64_MAX - r : INT64_MIN + r));
        if (r % 3) OK(rk_column_add_i64(&c->columns[4], -70000 * r));
        if (r % 3 == 2) OK(rk_column_add_weight(&c->columns[4], 0.25f * (float)r));
        OK(rk_column_add_f32(&c->columns[5], (float)r / 8));
        OK(rk_column_add_f32(&c->columns[5], -(float)r));
        OK(rk_column_add_i64(&c->columns[6], 42));
        OK(rk_columns_end_row(c));
    }
}

static void test_rkb(void **state) {
    (void)state;
    static const char *const names[] = {"user",     "colours", "item",     "wide",
                                        "optional", "pair",    "constant", "never"};
    static const rk_column_type types[] = {RK_COLUMN_TEXT, RK_COLUMN_TEXT, RK_COLUMN_I64, RK_COLUMN_I64,
                                           RK_COLUMN_I64,  RK_COLUMN_F32,  RK_COLUMN_I64, RK_COLUMN_TEXT};
    rk_columns blocks[2], read = {0};
    rk_rkb_writer *writer;
    for (int b = 0; b < 2; b++) {
        OK(rk_columns_init(&blocks[b], 8, names, types));
        fill_block(&blocks[b], b * 8, b ? 4 : 8);
    }
    for (int level = 0; level <= 3;
         level += 3) { /* compressed bytes depend on zstd's version: they are only read back */
        OK(rk_rkb_writer_open(level ? "columns_zstd.rkb" : "columns.rkb", level, &writer));
        for (int b = 0; b < 2; b++) OK(rk_rkb_writer_add(writer, &blocks[b]));
        OK(rk_rkb_writer_commit(writer));
        rk_rkb_writer_free(writer);
    }
    expect_same_file("columns.rkb", GOLDEN "columns.rkb");
    static const char *const files[] = {GOLDEN "columns.rkb", GOLDEN "columns_zstd.rkb"};
    for (int i = 0; i < 2; i++) {
        rk_rkb *rkb;
        OK(rk_rkb_open(files[i], &rkb));
        for (int b = 0; b < 2; b++) {
            OK(rk_rkb_read_block(rkb, b, NULL, &read));
            assert_true(same_columns(&read, &blocks[b]));
        }
        rk_rkb_free(rkb);
    }
    for (int b = 0; b < 2; b++) rk_columns_release(&blocks[b]);
    rk_columns_release(&read);
}

static rk_status show_feature(void *context, rk_span name, rk_example_kind kind, rk_span list) {
    rk_buffer_printf(context, " %.*s/%d:", (int)name.n_bytes, name.data, (int)kind);
    return show_list(kind, list, "", ",", context);
}

static void test_tfrecord(void **state) {
    (void)state;
    char *file;
    size_t n, at = 0, first = 0, consumed;
    rk_span payload;
    rk_buffer shown = {0}, made = {0}, framed = {0};
    const rk_example_visitor visitor = {&shown, show_feature};
    OK(rk_file_read(GOLDEN "examples.tfrecord", &file, &n));
    while (at < n) {
        OK(rk_tfrecord_parse(file + at, n - at, true, &payload, &consumed));
        OK(rk_example_parse(payload.data, payload.n_bytes, &visitor));
        rk_buffer_append_text(&shown, "\n");
        at += consumed;
        if (!first) first = at;
    }
    assert_string_equal(
        shown.data,
        " ids/2:1,-2,300,4611686018427387904, price/1:0.5,-2, words/0:<one><><zw\xc3\xb6lf> none/2:\n"
        " price/1:1.5, ids/2:5,6,\n"
        " words/0:\n"
        "\n");
    rk_example_writer writer = {0}; /* our writer makes the first record's bytes */
    const rk_span words[] = {text_span("one"), text_span(""), text_span("zw\xc3\xb6lf")};
    rk_example_add_i64(&writer, "ids", (const int64_t[]){1, -2, 300, (int64_t)1 << 62}, 4);
    rk_example_add_f32(&writer, "price", (const float[]){0.5f, -2}, 2);
    rk_example_add_bytes(&writer, "words", words, 3);
    rk_example_add_i64(&writer, "none", NULL, 0);
    OK(rk_example_finish(&writer, &made));
    rk_tfrecord_write(made.data, made.n_bytes, &framed);
    assert_int_equal(framed.n_bytes, first);
    assert_memory_equal(framed.data, file, first);
    rk_example_writer_release(&writer);
    rk_buffer_release(&shown);
    rk_buffer_release(&made);
    rk_buffer_release(&framed);
    rk_free(file);
}

static void test_safetensors(void **unused) {
    (void)unused;
    float weight[] = {0, 1, 2, 3, 4, 5};
    uint16_t half[] = {0x3c00, 0x4000, 0x4200}, bf16[] = {0x3f80, 0x4000};
    int64_t step[] = {-7};
    uint8_t bytes[] = {0, 1, 2, 3, 4};
    rk_state_dict state = {0};
    OK(rk_state_dict_add(&state, "bytes", RK_U8, 5, 0, bytes));
    OK(rk_state_dict_add(&state, "half", RK_F16, 3, 0, half));
    OK(rk_state_dict_add(&state, "step", RK_I64, 1, 0, step));
    OK(rk_state_dict_add(&state, "weight", RK_F32, 2, 3, weight));
    OK(rk_safetensors_write("read_by_python.safetensors", &state, &(uint32_t){0}, &(uint64_t){0}));
    expect_same_file("read_by_python.safetensors", GOLDEN "read_by_python.safetensors");
    char *file;
    size_t n;
    rk_safetensors tensors;
    OK(rk_file_read(GOLDEN "python.safetensors", &file, &n));
    OK(rk_safetensors_parse(file, n, n, &tensors));
    assert_int_equal(tensors.n, state.n);
    for (size_t i = 0; i < state.n; i++) {
        const rk_state_dict_entry *e = &state.entries[i];
        const rk_safetensors_entry *got = rk_safetensors_find(&tensors, e->name);
        assert_non_null(got);
        assert_true(got->type == e->type && got->n_dims == e->n_dims && got->dims[0] == e->dims[0]);
        assert_int_equal(got->n_bytes, rk_state_dict_entry_bytes(e));
        assert_memory_equal(file + got->begin, e->data, got->n_bytes);
    }
    rk_safetensors_release(&tensors);
    rk_free(file);
    OK(rk_state_dict_add(&state, "bf16", RK_BF16, 2, 0, bf16)); /* numpy has no such type; torch has */
    OK(rk_safetensors_write("read_by_torch.safetensors", &state, &(uint32_t){0}, &(uint64_t){0}));
    expect_same_file("read_by_torch.safetensors", GOLDEN "read_by_torch.safetensors");
    rk_state_dict_release(&state);
}

static void test_tensorboard(void **state) {
    (void)state;
    rk_buffer out = {0};
    rk_tensorboard_write_header(1700000000.5, &out);
    for (int i = 0; i < 3; i++) {
        rk_tensorboard_write_scalar("train/loss", 0.5 / (i + 1), i * 100, 1700000001.0 + i, &out);
        rk_tensorboard_write_scalar("valid/auc", 0.7 + 0.01 * i, i * 100, 1700000001.25 + i, &out);
    }
    OK(out.status);
    OK(rk_file_write("events.out.tfevents.golden", out.data, out.n_bytes));
    rk_buffer_release(&out);
    expect_same_file("events.out.tfevents.golden", GOLDEN "events.out.tfevents.golden");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rkb), cmocka_unit_test(test_tfrecord),
                                       cmocka_unit_test(test_safetensors),
                                       cmocka_unit_test(test_tensorboard)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
