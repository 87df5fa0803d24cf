/* Separated values: records, quotes, odd line ends, cut and damaged input. */
#include "fixture.h"

#include "format/text/csv.h"

static const rk_csv_dialect comma = {',', '"', false}, trimmed = {',', '"', true}, bare = {',', 0, false};

/* All records of a text, each field in <>, each record ended by ';'. Fed whole. */
static rk_status render(const rk_csv_dialect *dialect, const char *text, size_t n, char *out) {
    rk_csv_record record = {0};
    rk_status status = RK_OK;
    *out = 0;
    while (n && status == RK_OK) {
        size_t consumed;
        status = rk_csv_parse(dialect, text, n, true, &record, &consumed);
        if (status != RK_OK) break;
        assert_true(consumed > 0 && consumed <= n);
        for (size_t i = 0; i < record.n_fields; i++)
            out += sprintf(out, "<%.*s>", (int)record.fields[i].n_bytes, record.fields[i].data);
        out += sprintf(out, ";");
        text += consumed;
        n -= consumed;
    }
    rk_csv_record_release(&record);
    return status;
}

static void expect(const rk_csv_dialect *dialect, const char *text, const char *records) {
    char out[4096];
    char *exact = malloc(strlen(text)); /* no NUL behind it, so that a sanitizer sees a read too far */
    memcpy(exact, text, strlen(text));
    OK(render(dialect, exact, strlen(text), out));
    assert_string_equal(out, records);
    free(exact);
}

static void test_records(void **state) {
    (void)state;
    expect(&comma, "a,b,c\n1,2,3\n", "<a><b><c>;<1><2><3>;");
    expect(&comma, "a,b\r\n1,2\r\n", "<a><b>;<1><2>;");
    expect(&comma, "a,b\n1,2", "<a><b>;<1><2>;");
    expect(&comma, "a,b\r\n1,2\r", "<a><b>;<1><2>;");
    expect(&comma, "a,\n,b\n,", "<a><>;<><b>;<><>;");
    expect(&comma, "a\n\nb\r\n\r\n", "<a>;;<b>;;");
    expect(&comma, "\"\"\n", "<>;"); /* one empty value is no blank line */
    expect(&comma, "x\ry,z\n", "<x\ry><z>;");
    expect(&comma, " a , b \n", "< a >< b >;");
    expect(&trimmed, " a ,\tb \t\n  \n", "<a><b>;;");
    expect(&trimmed, " \"\"\n", "<>;");
    expect(&(rk_csv_dialect){'\t', '"', true}, "a\t\t b\n", "<a><><b>;");
    expect(&(rk_csv_dialect){' ', '"', true}, "a  \"b\" c\n", "<a><><b><c>;");
    expect(&(rk_csv_dialect){'|', '\'', false}, "'a|b'|\"c\n", "<a|b><\"c>;");
}

static void test_quotes(void **state) {
    (void)state;
    expect(&comma, "\"a,b\",c\n", "<a,b><c>;");
    expect(&comma, "\"a\nb\",c\n\"d\r\n\"\r\n", "<a\nb><c>;<d\r\n>;");
    expect(&comma, "\"say \"\"hi\"\"\",\"\"\"\",\"\"\n", "<say \"hi\"><\"><>;");
    expect(&comma, "a\"b,c\n", "<a\"b><c>;"); /* a quote inside is an ordinary byte */
    expect(&comma, "\"a\"", "<a>;");
    expect(&trimmed, " \"a \" , \"b\"\t\r\n", "<a ><b>;");
    expect(&bare, "\"a,b\"\n", "<\"a><b\">;");
}

static void test_errors(void **state) {
    (void)state;
    char out[256];
    FAILS(render(&comma, "a,\"b", 4, out), RK_BAD_DATA, "field 2: a quote that never closes");
    FAILS(render(&comma, "\"a\"b\n", 5, out), RK_BAD_DATA, "field 1: text after the closing quote");
    FAILS(render(&comma, "\"a\" ,b\n", 7, out), RK_BAD_DATA, "field 1: text after the closing quote");
    FAILS(render(&comma, "a,b\0c\n", 6, out), RK_BAD_DATA, "field 2 holds a NUL byte");
    FAILS(render(&comma, "\"a\0\"\n", 5, out), RK_BAD_DATA, "field 1 holds a NUL byte");
}

static void test_line_counts(void **state) {
    (void)state;
    rk_csv_record record = {0};
    size_t consumed;
    OK(rk_csv_parse(&comma, "\"a\n\n\",b\nc", 9, true, &record, &consumed));
    assert_int_equal(record.n_lines, 3);
    assert_int_equal(consumed, 8);
    OK(rk_csv_parse(&comma, "c", 1, true, &record, &consumed));
    assert_int_equal(record.n_lines, 0);
    rk_csv_record_release(&record);
}

/* A record is never taken before its end is seen, and the same one comes out however the input is cut. */
static void test_cuts(void **state) {
    (void)state;
    static const char text[] =
        "alpha,\"be\"\"ta\",gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi,,\"x\ny\"\r\nnext";
    const size_t end = strlen(text) - 4;
    rk_csv_record record = {0};
    for (size_t n = 0; n <= strlen(text); n++) {
        size_t consumed;
        char *part = malloc(n + !n);
        memcpy(part, text, n);
        OK(rk_csv_parse(&comma, part, n, false, &record, &consumed));
        assert_int_equal(consumed, n < end ? 0 : end);
        if (consumed) {
            assert_int_equal(record.n_fields, 5);
            assert_true(rk_span_equal(record.fields[1], "be\"ta"));
            assert_true(rk_span_equal(record.fields[4], "x\ny"));
        }
        free(part);
    }
    rk_csv_record_release(&record);
}

/* Random fields, written and read back. */
static void test_round_trips(void **state) {
    (void)state;
    static const char alphabet[] = "ab,;\"'\n\r \t|\xc3\xa9-0";
    const rk_csv_dialect dialects[] = {comma, trimmed, {'\t', '"', false}, {';', '\'', true}};
    rk_rng rng = {11, 1, 0};
    for (int round = 0; round < 3000; round++) {
        const rk_csv_dialect *dialect = &dialects[round % 4];
        char fields[12][200];
        size_t lengths[12], n = 2 + (size_t)draw(&rng, 10), consumed;
        rk_buffer out = {0};
        for (size_t i = 0; i < n; i++) {
            lengths[i] = (size_t)draw(&rng, i % 3 ? 8 : 200);
            for (size_t k = 0; k < lengths[i]; k++)
                fields[i][k] = alphabet[draw(&rng, round % 2 ? sizeof alphabet - 1 : 2)];
            rk_csv_write_field(dialect, (rk_span){fields[i], lengths[i]}, i == 0, &out);
        }
        rk_buffer_append_text(&out, round % 3 ? "\n" : "\r\n");
        OK(out.status);
        rk_csv_record record = {0};
        OK(rk_csv_parse(dialect, out.data, out.n_bytes, round % 5 == 0, &record, &consumed));
        assert_int_equal(consumed, out.n_bytes);
        assert_int_equal(record.n_fields, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(record.fields[i].n_bytes, lengths[i]);
            if (lengths[i]) assert_memory_equal(record.fields[i].data, fields[i], lengths[i]);
        }
        rk_csv_record_release(&record);
        rk_buffer_release(&out);
    }
}

static void test_long_field(void **state) {
    (void)state;
    enum { N = 3 << 20 };
    char *text = malloc(N);
    memset(text, 'x', N);
    memcpy(text + N - 3, ",y\n", 3);
    rk_csv_record record = {0};
    size_t consumed;
    OK(rk_csv_parse(&comma, text, N, true, &record, &consumed));
    assert_int_equal(record.fields[0].n_bytes, N - 3);
    text[0] = text[N - 4] = '"';
    text[100] = text[101] = '"';
    OK(rk_csv_parse(&comma, text, N, true, &record, &consumed));
    assert_int_equal(record.fields[0].n_bytes, N - 6);
    rk_csv_record_release(&record);
    free(text);
}

static void test_what_cannot_be_written(void **state) {
    (void)state;
    rk_buffer out = {0};
    rk_csv_write_field(&bare, text_span("a b"), true, &out);
    OK(out.status);
    rk_csv_write_field(&bare, text_span("a,b"), false, &out);
    FAILS(out.status, RK_BAD_DATA, "the value 'a,b' needs quotes\nhint: set a quote");
    rk_buffer_clear(&out);
    rk_csv_write_field(&comma, (rk_span){"a\0b", 3}, true, &out);
    assert_int_equal(out.status, RK_BAD_DATA);
    rk_buffer_release(&out);
}

static void test_out_of_memory(void **state) {
    (void)state;
    static const char text[] = "a,b,c,\"d\"\"\",e,f,g,h,i,j,k\n";
    for (long n = 1;; n++) {
        rk_csv_record record = {0};
        size_t consumed;
        rk_alloc_fail_after(n, true);
        rk_status status = rk_csv_parse(&comma, text, sizeof text - 1, true, &record, &consumed);
        rk_alloc_fail_after(0, false);
        rk_csv_record_release(&record);
        assert_int_equal(rk_alloc_live(), 0);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records),      cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_errors),       cmocka_unit_test(test_line_counts),
        cmocka_unit_test(test_cuts),         cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_long_field),   cmocka_unit_test(test_what_cannot_be_written),
        cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
