/* Bodies of requests: JSON is taken or refused as jansson does, numbers are written so that they are read
 * again, rows come and go, memory runs out. */
#include "testing.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/rng.h"
#include "server/request/inference_call.h"

static rk_status skip_all(const char *text, size_t n_bytes) {
    rk_json json = {0};
    rk_json_begin_document(&json, (rk_span){text, n_bytes}, 16);
    rk_status status = rk_json_skip_value(&json, NULL);
    if (status == RK_OK) status = rk_json_check_end(&json);
    rk_json_release(&json);
    return status;
}

static bool jansson_takes(const char *text, size_t n_bytes) {
    json_t *value = json_loadb(text, n_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    json_decref(value);
    return value != NULL;
}

static void test_json(void **state) {
    (void)state;
    const char *const texts[] = {"null",
                                 "true",
                                 "false",
                                 "tru",
                                 "nullx",
                                 "0",
                                 "-0",
                                 "01",
                                 "-",
                                 "1.",
                                 ".5",
                                 "1e5",
                                 "1E+5",
                                 "1e",
                                 "+1",
                                 "0x1",
                                 "NaN",
                                 "Infinity",
                                 "-Infinity",
                                 "\"\"",
                                 "\"a",
                                 "\"\\n\\u00e9\\\"\"",
                                 "\"\\x\"",
                                 "\"\\u12\"",
                                 "\"\\ud83d\\ude00\"",
                                 "\"\\ud83d\"",
                                 "\"\\ude00\"",
                                 "\"\\ud83d\\u0041\"",
                                 "\"\xc3\xa9\"",
                                 "\"\xc3\"",
                                 "\"\xc0\xaf\"",
                                 "\"\xed\xa0\x80\"",
                                 "\"\xf4\x90\x80\x80\"",
                                 "\"\t\"",
                                 "[]",
                                 "[ ]",
                                 "[1,]",
                                 "[,1]",
                                 "[1 2]",
                                 "[1,[2,{}]]",
                                 "{}",
                                 "{\"a\":1}",
                                 "{\"a\" : 1 , \"b\":[]}",
                                 "{\"a\":1,}",
                                 "{a:1}",
                                 "{\"a\"}",
                                 "{\"a\":}",
                                 "[1]]",
                                 "",
                                 " ",
                                 "// x\n1",
                                 "[\"a\":1]",
                                 "{\"a\":1 \"b\":2}",
                                 ("\xef\xbb\xbf"
                                  "1")};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        bool taken = skip_all(texts[t], strlen(texts[t])) == RK_OK;
        if (taken != jansson_takes(texts[t], strlen(texts[t]))) fail_msg("differs: %s", texts[t]);
    }
    FAILS(skip_all("[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", 35), RK_BAD_DATA,
          "JSON: byte 16: arrays and objects stand too deep in one another");
    FAILS(skip_all("[1, x]", 6), RK_BAD_DATA, "JSON: byte 4: a value should stand here");
}

static void test_numbers(void **state) {
    (void)state;
    rk_rng rng = {4, 4, 0};
    rk_buffer text = {0};
    const float some[] = {0,    -0.0f,  1,     0.1f,   0.99999994f, 1e-4f,      9.9999e-5f,
                          0.3f, -0.25f, 1e30f, 1e-40f, 16777216,    3.14159274f};
    for (int i = 0; i < 200000; i++) {
        float value = i < 13  ? some[i]
                      : i % 2 ? (float)rk_rng_uniform(&rng)
                              : (float)exp(40 * rk_rng_uniform(&rng) - 20);
        rk_buffer_clear(&text);
        rk_json_write_f32(&text, value);
        OK(text.status);
        assert_true(strtof(text.data, NULL) == value);
        if (i < 1000) assert_true(jansson_takes(text.data, text.n_bytes));
    }
    rk_buffer_clear(&text);
    rk_json_write_f32(&text, NAN);
    assert_string_equal(text.data, "null");
    rk_buffer_release(&text);
}

static struct ArrowSchema children[] = {{.name = "age"}, {.name = "tags"}, {.name = "label"}},
                          *pointers[] = {&children[0], &children[1], &children[2]};
static const struct ArrowSchema schema = {.n_children = 3, .children = pointers};
static rk_served_task tasks[] = {{"click", true}, {"rating", false}};
static rk_served_version version = {.tasks = tasks, .n_tasks = 2};

static rk_status read(rk_request_rows *rows, size_t before, rk_call_kind kind, const char *body,
                      rk_call *call) {
    static const rk_call_limits limits = {.max_rows = 10, .max_depth = 8};
    rk_json json = {0};
    call->kind = kind;
    call->version = &version;
    call->n_json_bytes = -1;
    call->body = (rk_span){body, strlen(body)};
    rk_status status = rk_call_read_rows(call, &limits, &json, rows, before);
    rk_json_release(&json);
    if (status != RK_OK) rk_request_rows_truncate(rows, before);
    return status;
}

static void test_rows(void **state) {
    (void)state;
    rk_request_rows rows;
    rk_request_table table, context;
    rk_call call = {0};
    OK(rk_request_rows_init(&rows, &schema, 2));
    OK(read(&rows, 0, RK_CALL_PREDICT,
            "{\"instances\": [{\"age\": 1, \"tags\": [\"a\", \"bc\"]}, {\"tags\": null, \"age\": 2.5, "
            "\"other\": {}}]}",
            &call));
    assert_int_equal(call.n_rows, 2);
    FAILS(read(&rows, 2, RK_CALL_PREDICT, "{\"instances\": [{\"age\": 1, \"tags\": [\"x\", [1]]}]}", &call),
          RK_BAD_DATA, "JSON: byte 40: a list stands in a list of values");
    FAILS(read(&rows, 2, RK_CALL_PREDICT, "{\"instances\": [{\"age\": 1}]}", &call), RK_BAD_DATA,
          "column 'tags' is missing\nhint: a value that is not known is null");
    OK(read(&rows, 2, RK_CALL_REGRESS,
            "{\"context\": {\"tags\": [\"d\"]}, \"examples\": [{\"age\": 7}, {\"age\": 8}]}", &call));
    FAILS(read(&rows, 4, RK_CALL_CLASSIFY, "{\"signature_name\": \"rating\", \"examples\": []}", &call),
          RK_BAD_DATA, "task 'rating' has no classes\nhint: ask for :regress or :predict");
    FAILS(read(&rows, 4, RK_CALL_INFER,
               "{\"inputs\": [{\"name\": \"age\", \"shape\": [2], \"datatype\": \"INT64\", \"data\": [1]}]}",
               &call),
          RK_BAD_DATA, "input 'age': \"data\" has 1 values, \"shape\" says 2");
    OK(rk_request_rows_to_arrow(&rows, 4, &table, &context));
    const struct ArrowArray *a = table.array;
    assert_null(context.schema);
    assert_int_equal(table.schema->n_children, 2); /* no label was given */
    assert_int_equal(a->children[0]->length, 4);
    assert_memory_equal(a->children[0]->buffers[2], "12.578", 6);
    const int32_t *lists = a->children[1]->buffers[1];
    assert_int_equal(a->children[1]->null_count, 1);
    assert_true(lists[1] == 2 && lists[4] == 5);
    assert_memory_equal(a->children[1]->children[0]->buffers[2], "abcdd", 5);

    rk_request_rows_truncate(&rows, 0); /* of a request alone, whose context stands once */
    rows.takes_context = true;
    OK(read(&rows, 0, RK_CALL_PREDICT,
            "{\"context\": {\"tags\": [\"d\", \"e\"]}, \"instances\": [{\"age\": 7}, {\"age\": 8}]}", &call));
    OK(rk_request_rows_to_arrow(&rows, 2, &table, &context));
    assert_true(table.array->length == 2 && table.array->n_children == 1);
    assert_memory_equal(table.array->children[0]->buffers[2], "78", 2);
    assert_true(context.array->length == 1 && context.array->n_children == 1);
    assert_string_equal(context.schema->children[0]->name, "tags");
    assert_memory_equal(context.array->children[0]->children[0]->buffers[2], "de", 2);
    rk_request_rows_truncate(&rows, 0);
    OK(read(&rows, 0, RK_CALL_PREDICT, /* a row has a column of the context's: rows in full */
            "{\"context\": {\"age\": 5, \"tags\": []}, \"instances\": [{\"age\": 7}, {}]}", &call));
    OK(rk_request_rows_to_arrow(&rows, 2, &table, &context));
    assert_memory_equal(table.array->children[0]->buffers[2], "75", 2);
    rk_request_rows_release(&rows);
    rk_call_release(&call);
    assert_int_equal(rk_alloc_live(), 0);
}

static const char *read_columns(rk_request_rows *rows, size_t n, const struct ArrowArray **age,
                                const struct ArrowArray **tags) {
    rk_request_table table, context;
    OK(rk_request_rows_to_arrow(rows, n, &table, &context));
    *age = table.array->children[0];
    *tags = table.array->children[1]->children[0];
    static char formats[8];
    snprintf(formats, sizeof formats, "%s %s", table.schema->children[0]->format,
             table.schema->children[1]->children[0]->format);
    return formats;
}

/* A tensor of four-byte floats, .1 and -3, behind its JSON. */
static void read_floats_as_bytes(rk_request_rows *rows, size_t before, rk_call *call) {
    static const char head[] =
        "{\"inputs\": [{\"name\": \"age\", \"shape\": [2], \"datatype\": \"FP32\", "
        "\"parameters\": {\"binary_data_size\": 8}}, {\"name\": \"tags\", "
        "\"shape\": [2, 2], \"datatype\": \"FP32\", \"data\": [1, 2.0, 3e2, -4]}]}";
    static const float values[] = {0.1f, -3};
    char body[sizeof head + sizeof values];
    const rk_call_limits limits = {.max_rows = 10, .max_depth = 8};
    rk_json json = {0};
    memcpy(body, head, sizeof head - 1);
    memcpy(body + sizeof head - 1, values, sizeof values);
    call->kind = RK_CALL_INFER;
    call->n_json_bytes = sizeof head - 1;
    call->body = (rk_span){body, sizeof head - 1 + sizeof values};
    OK(rk_call_read_rows(call, &limits, &json, rows, before));
    rk_json_release(&json);
}

static void test_columns_of_numbers(void **state) {
    (void)state;
    rk_request_rows rows;
    const struct ArrowArray *age, *tags;
    rk_call call = {.version = &version};
    char scratch[RK_NUMBER_BYTES];
    static const double numbers[] = {2.5, 0, 1, 0.1, -3};
    static const int64_t integers[] = {7, -8, 9, 1, 2, 300, -4};
    static const char *const plain =
        "{\"instances\": [{\"age\": 2.50, \"tags\": [7, -8]}, {\"age\": null, "
        "\"tags\": []}, {\"age\": true, \"tags\": [9]}]}";
    OK(rk_request_rows_init(&rows, &schema, 2));
    rk_request_column_set_reading(&rows.columns[0], RK_READS_NUMBERS);
    rk_request_column_set_reading(&rows.columns[1], RK_READS_INTEGERS);
    OK(read(&rows, 0, RK_CALL_PREDICT, plain, &call));
    read_floats_as_bytes(&rows, 3, &call);
    assert_string_equal(read_columns(&rows, 5, &age, &tags), "g l");
    assert_int_equal(age->null_count, 1);
    assert_memory_equal(age->buffers[1], numbers, sizeof numbers);
    assert_null(tags->buffers[0]);
    assert_memory_equal(tags->buffers[1], integers, sizeof integers);
    assert_memory_equal(rk_request_get_first_value(&rows.columns[0], 3, scratch).data, "0.1", 3);

    /* other texts make all of a column text; what is wrong behind them does not make it numbers again */
    FAILS(read(&rows, 5, RK_CALL_PREDICT, "{\"instances\": [{\"age\": \"x\", \"tags\": [5.0]}, 7]}", &call),
          RK_BAD_DATA, "JSON: byte 44: an object should stand here");
    assert_string_equal(read_columns(&rows, 5, &age, &tags), "u u");
    assert_memory_equal(age->buffers[2], "2.510.1-3", 9);
    assert_memory_equal(tags->buffers[2], "7-8912300-4", 11);
    rk_request_rows_truncate(&rows, 0);
    OK(read(&rows, 0, RK_CALL_PREDICT, plain, &call));
    assert_string_equal(read_columns(&rows, 3, &age, &tags), "g l");
    static const char *const others[] = {"-0", "1.0", "1e3", "1234567890123456789", "\"6\""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char body[100];
        snprintf(body, sizeof body, "{\"instances\": [{\"age\": 1, \"tags\": [6, %s]}]}", others[i]);
        rk_request_rows_truncate(&rows, 0);
        OK(read(&rows, 0, RK_CALL_PREDICT, body, &call));
        assert_string_equal(read_columns(&rows, 1, &age, &tags), "g u");
    }
    rk_request_rows_truncate(&rows, 0);
    rk_request_column_set_reading(&rows.columns[0], RK_READS_F32);
    read_floats_as_bytes(&rows, 0, &call);
    read_columns(&rows, 2, &age, &tags);
    assert_true(((const double *)age->buffers[1])[0] == (double)0.1f);
    assert_memory_equal(rk_request_get_first_value(&rows.columns[0], 0, scratch).data, "0.1", 3);
    rk_request_rows_release(&rows);
    rk_call_release(&call);
    assert_int_equal(rk_alloc_live(), 0);
}

/* The data of a tensor may stand before what it is. */
static void test_orders_of_tensors(void **state) {
    (void)state;
    rk_request_rows rows;
    rk_call call = {0};
    const struct ArrowArray *age, *tags;
    OK(rk_request_rows_init(&rows, &schema, 2));
    OK(read(
        &rows, 0, RK_CALL_INFER,
        "{\"inputs\": [{\"data\": [[4], [5]], \"name\": \"age\", \"shape\": [2, 1], \"datatype\": \"INT8\"},"
        " {\"name\": \"other\", \"shape\": [2], \"datatype\": \"INT8\", \"data\": {}},"
        " {\"name\": \"tags\", \"shape\": [2, 2], \"datatype\": \"BYTES\", \"data\": [\"a\", \"b\\u0063\", "
        "\"d\", "
        "\"\"]}]}",
        &call));
    read_columns(&rows, 2, &age, &tags);
    assert_memory_equal(age->buffers[2], "45", 2);
    assert_memory_equal(tags->buffers[2], "abcd", 4);
    FAILS(read(&rows, 2, RK_CALL_INFER,
               "{\"inputs\": [{\"name\": \"age\", \"shape\": [1], \"datatype\": \"INT8\", \"data\": [1], "
               "\"data\": [1]}]}",
               &call),
          RK_BAD_DATA, "JSON: byte 82: \"data\" is given twice");
    FAILS(read(&rows, 2, RK_CALL_INFER,
               "{\"inputs\": [{\"name\": \"age\", \"shape\": [1], \"datatype\": \"INT8\", \"data\": [1], "
               "\"parameters\": "
               "{\"binary_data_size\": 1}}]}",
               &call),
          RK_BAD_DATA, "JSON: byte 113: an input needs either \"data\" or \"binary_data_size\"");
    assert_int_equal(rows.columns[0].n_rows, 2);
    rk_request_rows_release(&rows);
    rk_call_release(&call);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Some megabytes that stand beside many rows would be gigabytes. */
static void test_large_context(void **state) {
    (void)state;
    const rk_call_limits many = {.max_rows = 1000, .max_depth = 8};
    rk_request_rows rows;
    rk_json json = {0};
    rk_buffer body = {0};
    rk_call call = {.kind = RK_CALL_PREDICT, .version = &version, .n_json_bytes = -1};
    OK(rk_request_rows_init(&rows, &schema, 2));
    rk_buffer_append_text(&body, "{\"context\": {\"age\": 1, \"tags\": [0");
    for (int i = 0; i < 100000; i++) rk_buffer_append_text(&body, ",0");
    rk_buffer_append_text(&body, "]}, \"instances\": [{}");
    for (int i = 1; i < 1000; i++) rk_buffer_append_text(&body, ",{}");
    rk_buffer_append_text(&body, "]}");
    OK(body.status);
    call.body = (rk_span){body.data, body.n_bytes};
    FAILS(rk_call_read_rows(&call, &many, &json, &rows, 0), RK_INVALID_ARGUMENT,
          "\"context\" has 200023 bytes, too many for 1000 rows");
    rk_json_release(&json);
    rk_buffer_release(&body);
    rk_request_rows_release(&rows);
    assert_int_equal(rk_alloc_live(), 0);
}

/* A key may have a NUL, behind which no byte of a column's name is looked at. */
static void test_nul_in_key(void **state) {
    (void)state;
    static const char memory[] = "age\0b";
    struct ArrowSchema child = {.name = memory}, *pointer = &child;
    const struct ArrowSchema one = {.n_children = 1, .children = &pointer};
    rk_request_rows rows;
    OK(rk_request_rows_init(&rows, &one, 1));
    assert_null(rk_request_rows_find(&rows, (rk_span){memory, 5}));
    assert_non_null(rk_request_rows_find(&rows, (rk_span){memory, 3}));
    rk_request_rows_release(&rows);
}

static rk_status all(void) {
    rk_request_rows rows;
    rk_request_table table, context;
    rk_call call = {0};
    rk_status status;
    RK_GOTO(rk_request_rows_init(&rows, &schema, 2));
    rk_request_column_set_reading(&rows.columns[0], RK_READS_NUMBERS);
    rk_request_column_set_reading(&rows.columns[1], RK_READS_INTEGERS);
    RK_GOTO(read(&rows, 0, RK_CALL_PREDICT, "{\"instances\": [{\"age\": 2.5, \"tags\": [7, null]}]}", &call));
    RK_GOTO(rk_request_rows_to_arrow(&rows, 1, &table, &context));
    RK_GOTO(read(&rows, 1, RK_CALL_PREDICT,
                 "{\"instances\": [{\"age\": \"\\u0041\", \"tags\": {\"b64\": \"YWI=\"}}], \"context\": "
                 "{\"label\": 1}}",
                 &call));
    RK_GOTO(
        read(&rows, 2, RK_CALL_INFER,
             "{\"id\": \"1\", \"outputs\": [{\"name\": \"rating\"}], \"inputs\": [{\"name\": \"age\", "
             "\"shape\": [1], \"datatype\": \"BYTES\", "
             "\"data\": [\"1\"]}, "
             "{\"name\": \"tags\", \"shape\": [1, 2], \"datatype\": \"BYTES\", \"data\": [[\"x\", \"y\"]]}]}",
             &call));
    RK_GOTO(rk_request_rows_to_arrow(&rows, 3, &table, &context));
done:
    rk_request_rows_release(&rows);
    rk_call_release(&call);
    return status;
}

static void test_out_of_memory(void **state) {
    (void)state;
    rk_status status = RK_NO_MEMORY;
    for (long n = 1; status != RK_OK; n++) {
        rk_alloc_fail_after(n, true);
        status = all();
        rk_alloc_fail_after(0, false);
        assert_true(status == RK_OK || status == RK_NO_MEMORY);
        assert_int_equal(rk_alloc_live(), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json),
                                       cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_columns_of_numbers),
                                       cmocka_unit_test(test_orders_of_tensors),
                                       cmocka_unit_test(test_nul_in_key),
                                       cmocka_unit_test(test_large_context),
                                       cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
