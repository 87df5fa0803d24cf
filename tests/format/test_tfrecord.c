/* TFRecord frames, tf.train.Example, and TensorBoard events: the same wire format, written, read, cut and
 * damaged. */
#include "fixture.h"
#include "show_list.h"

#include "format/protobuf/tensorboard.h"
#include "format/protobuf/tfrecord.h"
#include "format/protobuf/protobuf_wire.h"

static void test_frames(void **state) {
    (void)state;
    static const char payload[] = "some payload";
    rk_buffer out = {0};
    rk_tfrecord_write(payload, sizeof payload, &out);
    rk_tfrecord_write("", 0, &out);
    OK(out.status);
    assert_int_equal(out.n_bytes, sizeof payload + 2 * RK_TFRECORD_OVERHEAD);
    rk_span span;
    size_t consumed, first = sizeof payload + RK_TFRECORD_OVERHEAD;
    OK(rk_tfrecord_parse(out.data, out.n_bytes, true, &span, &consumed));
    assert_int_equal(consumed, first);
    assert_int_equal(span.n_bytes, sizeof payload);
    assert_memory_equal(span.data, payload, sizeof payload);
    OK(rk_tfrecord_parse(out.data + first, out.n_bytes - first, true, &span, &consumed));
    assert_int_equal(consumed, RK_TFRECORD_OVERHEAD);
    assert_int_equal(span.n_bytes, 0);
    for (size_t n = 0; n < first; n++) { /* every cut: more is needed, or the record is cut */
        char *part = malloc(n + !n);
        memcpy(part, out.data, n);
        OK(rk_tfrecord_parse(part, n, false, &span, &consumed));
        assert_int_equal(consumed, 0);
        assert_int_equal(rk_tfrecord_parse(part, n, true, &span, &consumed), n ? RK_BAD_DATA : RK_OK);
        free(part);
    }
    for (size_t at = 0; at < first; at++) /* every flip */
        for (int bit = 0; bit < 8; bit++) {
            out.data[at] = (char)(out.data[at] ^ 1 << bit);
            assert_int_equal(rk_tfrecord_parse(out.data, out.n_bytes, true, &span, &consumed), RK_BAD_DATA);
            out.data[at] = (char)(out.data[at] ^ 1 << bit);
        }
    rk_buffer_release(&out);
}

static rk_status show_feature(void *context, rk_span name, rk_example_kind kind, rk_span list) {
    rk_buffer_printf(context, "%.*s/%d", (int)name.n_bytes, name.data, (int)kind);
    return show_list(kind, list, " ", "", context);
}

static void expect_example(const rk_buffer *bytes, const char *text) {
    rk_buffer shown = {0};
    rk_buffer_append_text(&shown, "");
    const rk_example_visitor visitor = {&shown, show_feature};
    OK(bytes->status);
    OK(rk_example_parse(bytes->data, bytes->n_bytes, &visitor));
    assert_string_equal(shown.data, text);
    rk_buffer_release(&shown);
}

static void test_example_round_trip(void **state) {
    (void)state;
    rk_example_writer writer = {0};
    rk_buffer out = {0};
    const int64_t ids[] = {0, -1, INT64_MAX, INT64_MIN, 300};
    const float numbers[] = {0.5f, -2};
    const rk_span texts[] = {text_span("one"), text_span("")};
    for (int round = 0; round < 2; round++) { /* finish starts anew */
        rk_buffer_clear(&out);
        rk_example_add_i64(&writer, "ids", ids, 5);
        rk_example_add_f32(&writer, "numbers", numbers, 2);
        rk_example_add_bytes(&writer, "texts", texts, 2);
        rk_example_add_i64(&writer, "none", NULL, 0);
        OK(rk_example_finish(&writer, &out));
        expect_example(
            &out,
            "ids/2 0 -1 9223372036854775807 -9223372036854775808 300numbers/1 0.5 -2texts/0 <one> <>none/2");
    }
    rk_buffer_clear(&out);
    OK(rk_example_finish(&writer, &out));
    expect_example(&out, "");
    rk_example_writer_release(&writer);
    rk_buffer_release(&out);
    assert_int_equal(rk_alloc_live(), 0);
}

/* One map entry of an Example from the bytes of its Feature. */
static void wrap(const void *feature, size_t n_bytes, bool value_first, rk_buffer *out) {
    rk_buffer entry = {0}, features = {0};
    rk_wire_write_varint(&entry, 9 << 3 | RK_WIRE_FIXED64); /* a field nobody knows */
    rk_buffer_append_u64le(&entry, 1);
    if (value_first) rk_wire_write_bytes(&entry, 2, feature, n_bytes);
    rk_wire_write_bytes(&entry, 1, "f", 1);
    if (!value_first) rk_wire_write_bytes(&entry, 2, feature, n_bytes);
    rk_wire_write_bytes(&features, 1, entry.data, entry.n_bytes);
    rk_wire_write_bytes(&features, 7, "?", 1);
    rk_wire_write_bytes(out, 1, features.data, features.n_bytes);
    rk_wire_write_varint(out, 100 << 3 | RK_WIRE_VARINT);
    rk_wire_write_varint(out, 1u << 20);
    rk_buffer_release(&entry);
    rk_buffer_release(&features);
}

/* What other writers produce: numbers one a field, mixed with packed ones, in several lists, in any order. */
static void test_example_variants(void **state) {
    (void)state;
    static const struct {
        const char *feature;
        size_t n_bytes;
        const char *text;
    } cases[] = {
        {"\x1a\x04\x08\x05\x08\x06", 6, "f/2 5 6"},
        {"\x1a\x06\x08\x05\x0a\x02\x07\x08", 8, "f/2 5 7 8"},
        {"\x1a\x03\x0a\x01\x05\x1a\x02\x08\x06", 9, "f/2 5f/2 6"},
        {"\x12\x0a\x0d\0\0\x80\x3f\x0d\0\0\0\x40", 12, "f/1 1 2"},
        {"\x0a\x07\x0a\x01z\x12\x00\x0a\x00", 9, "f/0 <z> <>"},
        {"\x1a\x00", 2, "f/2"},
        {"\x22\x01\x00", 3, ""},
        {"", 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int value_first = 0; value_first < 2; value_first++) {
            rk_buffer out = {0};
            wrap(cases[i].feature, cases[i].n_bytes, value_first, &out);
            expect_example(&out, cases[i].text);
            rk_buffer_release(&out);
        }
}

static void test_example_damage(void **state) {
    (void)state;
    static const struct {
        const char *feature;
        size_t n_bytes;
    } cases[] = {
        {"\x18\x05", 2},               /* a list that is a number */
        {"\x1a\x05\x08\x05", 4},       /* longer than there is */
        {"\x12\x05\x0a\x03\0\0\0", 7}, /* three bytes of floats */
        {"\x12\x02\x08\x05", 4},       /* a float as a varint */
        {"\x0a\x02\x08\x05", 4},       /* bytes as a varint */
        {"\x1a\x02\x0a\x01\xff", 5},   /* a varint without an end */
        {"\x1a\x01\x0b", 3},           /* a group */
        {"\x02\x00", 2},               /* field 0 */
    };
    rk_buffer shown = {0}, out = {0};
    const rk_example_visitor visitor = {&shown, show_feature};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rk_buffer_clear(&out);
        wrap(cases[i].feature, cases[i].n_bytes, false, &out);
        FAILS(rk_example_parse(out.data, out.n_bytes, &visitor), RK_BAD_DATA,
              "the record is not a tf.train.Example");
    }
    static const char lengths[] =
        "\x0a\x0d\x0a\x0b\x0a\x01"
        "f\x12\x06\x1a\x04\x08\x05\x08\x06"; /* a length that the others do not bear out */
    OK(rk_example_parse(lengths, sizeof lengths - 1, &visitor));
    for (size_t at = 0; at < sizeof lengths - 1; at++) {
        char spoilt[sizeof lengths];
        memcpy(spoilt, lengths, sizeof lengths);
        spoilt[at]--;
        bool length = at == 1 || at == 3 || at == 8 || at == 10;
        if (length)
            FAILS(rk_example_parse(spoilt, sizeof lengths - 1, &visitor), RK_BAD_DATA,
                  "the record is not a tf.train.Example");
    }
    rk_buffer_clear(&out);
    wrap("\x1a\x02\x08\x05", 4, false, &out);
    for (size_t n = 0; n < out.n_bytes;
         n++) { /* cuts and changed bytes: an error or something else, but never a crash */
        char *part = malloc(n + !n);
        memcpy(part, out.data, n);
        rk_example_parse(part, n, &visitor);
        free(part);
        for (int byte = 0; byte < 256; byte++) {
            char kept = out.data[n];
            out.data[n] = (char)byte;
            rk_example_parse(out.data, out.n_bytes, &visitor);
            out.data[n] = kept;
        }
    }
    rk_buffer_release(&shown);
    rk_buffer_release(&out);
}

static rk_status refuse_feature(void *context, rk_span name, rk_example_kind kind, rk_span list) {
    (void)context;
    (void)list;
    (void)kind;
    return rk_error(RK_INTERRUPTED, "no '%.*s'", (int)name.n_bytes, name.data);
}

static void test_visitor_can_stop(void **state) {
    (void)state;
    rk_buffer out = {0};
    const rk_example_visitor visitor = {NULL, refuse_feature};
    wrap("\x1a\x02\x08\x05", 4, false, &out);
    FAILS(rk_example_parse(out.data, out.n_bytes, &visitor), RK_INTERRUPTED, "no 'f'");
    rk_buffer_release(&out);
}

static void test_example_out_of_memory(void **state) {
    (void)state;
    const int64_t ids[] = {1, 2, 300};
    const float numbers[] = {1, 2};
    const rk_span texts[] = {text_span("one")};
    for (long n = 1;; n++) {
        rk_example_writer writer = {0};
        rk_buffer out = {0};
        rk_alloc_fail_after(n, false);
        rk_example_add_i64(&writer, "ids", ids, 3);
        rk_example_add_f32(&writer, "numbers", numbers, 2);
        rk_example_add_bytes(&writer, "texts", texts, 1);
        rk_status status = rk_example_finish(&writer, &out);
        rk_alloc_fail_after(0, false);
        if (status == RK_OK) expect_example(&out, "ids/2 1 2 300numbers/1 1 2texts/0 <one>");
        rk_example_writer_release(&writer);
        rk_buffer_release(&out);
        assert_int_equal(rk_alloc_live(), 0);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
    }
}

static void test_varints(void **state) {
    (void)state;
    static const uint64_t values[] = {
        0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        rk_buffer out = {0};
        uint64_t value;
        rk_wire_write_varint(&out, values[i]);
        rk_wire wire = rk_wire_from_bytes((rk_span){out.data, out.n_bytes});
        assert_true(rk_wire_read_varint(&wire, &value) && value == values[i] && wire.at == wire.end);
        wire = rk_wire_from_bytes((rk_span){out.data, out.n_bytes - 1});
        assert_false(rk_wire_read_varint(&wire, &value));
        rk_buffer_release(&out);
    }
    for (int shift = 0; shift < 64;
         shift++) { /* every length, with any number of bytes after it, in memory that ends there */
        for (size_t after = 0; after < 9; after++) {
            rk_buffer out = {0};
            uint64_t value, expected = (uint64_t)0x8421084210842109 >> shift;
            rk_wire_write_varint(&out, expected);
            size_t n = out.n_bytes;
            char *copy = malloc(n + after);
            memset(copy, 0xff, n + after);
            memcpy(copy, out.data, n);
            rk_wire wire = rk_wire_from_bytes((rk_span){copy, n + after});
            assert_true(rk_wire_read_varint(&wire, &value) && value == expected);
            assert_true(wire.at == (const uint8_t *)copy + n);
            free(copy);
            rk_buffer_release(&out);
        }
    }
    rk_wire wire = rk_wire_from_bytes((rk_span){"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11});
    uint64_t value;
    assert_false(rk_wire_read_varint(&wire, &value)); /* more than 64 bits */
}

/* The bytes of an event, field by field. */
static void test_events(void **state) {
    (void)state;
    rk_buffer out = {0};
    rk_span event;
    size_t consumed;
    rk_tensorboard_write_header(1.5, &out);
    OK(rk_tfrecord_parse(out.data, out.n_bytes, true, &event, &consumed));
    assert_int_equal(consumed, out.n_bytes);
    assert_int_equal(event.n_bytes, 24);
    assert_memory_equal(event.data,
                        "\x09\0\0\0\0\0\0\xf8\x3f\x1a\x0d"
                        "brain.Event:2",
                        24);
    rk_buffer_clear(&out);
    rk_tensorboard_write_scalar("loss", 0.25, 300, 1.5, &out);
    OK(rk_tfrecord_parse(out.data, out.n_bytes, true, &event, &consumed));
    assert_int_equal(event.n_bytes, 9 + 3 + 2 + 2 + 6 + 5);
    assert_memory_equal(event.data,
                        "\x09\0\0\0\0\0\0\xf8\x3f\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\x80\x3e",
                        event.n_bytes);
    rk_buffer_release(&out);
    for (long n = 1;; n++) {
        rk_alloc_fail_after(n, false);
        rk_tensorboard_write_header(1, &out);
        rk_tensorboard_write_scalar("loss", 1, 2, 3, &out);
        rk_alloc_fail_after(0, false);
        rk_status status = out.status;
        rk_buffer_release(&out);
        assert_int_equal(rk_alloc_live(), 0);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),           cmocka_unit_test(test_example_round_trip),
        cmocka_unit_test(test_example_variants), cmocka_unit_test(test_example_damage),
        cmocka_unit_test(test_visitor_can_stop), cmocka_unit_test(test_example_out_of_memory),
        cmocka_unit_test(test_varints),          cmocka_unit_test(test_events)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
