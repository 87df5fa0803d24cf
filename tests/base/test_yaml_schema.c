#include "testing.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/yaml/schema.h"

struct part {
    int line;
    char *kind;
    double rate;
};
struct whole {
    char *name;
    double rate;
    int64_t count;
    int mode;
    bool on;
    int64_t *sizes;
    int64_t n_sizes;
    struct part part;
    struct part *parts;
    int64_t n_parts;
    char **words;
    int64_t n_words;
};
static const char *const modes[] = {"fast", "exact"};
static const rk_field part_fields[] = {
    RK_FIELD_TEXT(struct part, kind, true, NULL, "what it is"),
    RK_FIELD_F64(struct part, rate, RK_UNSET, 0, 1, "share"),
};
static const rk_schema part_schema = {.name = "part",
                                      .struct_bytes = sizeof(struct part),
                                      .fields = part_fields,
                                      .n_fields = 2,
                                      .scalar_key = "kind",
                                      .line_offset = 0};
static const rk_field whole_fields[] = {
    RK_FIELD_TEXT(struct whole, name, true, NULL, "its name"),
    RK_FIELD_F64(struct whole, rate, 0.5, 0, INFINITY, "speed"),
    RK_FIELD_I64(struct whole, count, 3, 1, 100, "how many"),
    RK_FIELD_ENUM(struct whole, mode, 0, modes, "how"),
    RK_FIELD_BOOL(struct whole, on, 1, "whether"),
    RK_FIELD_ARRAY(I64S, struct whole, sizes, n_sizes, 1, 1000, "sizes"),
    RK_FIELD_STRUCT(struct whole, part, &part_schema, "one part"),
    RK_FIELD_LIST(struct whole, parts, n_parts, &part_schema, false, "all parts"),
    RK_FIELD_ARRAY(TEXTS, struct whole, words, n_words, 0, 0, "words"),
};
static const rk_schema whole_schema = RK_SCHEMA("whole", struct whole, whole_fields);

static rk_status bind(const char *text, const char *set, struct whole *out) {
    rk_yaml yaml;
    RK_TRY(rk_yaml_parse("f.yaml", text, strlen(text), &yaml));
    rk_status status = set ? rk_yaml_set(&yaml, set) : RK_OK;
    if (status == RK_OK) status = rk_schema_bind(&whole_schema, &yaml, yaml.root, out);
    rk_yaml_release(&yaml);
    return status;
}

/* A section that no value alone can stand for, as `train` is one of a run file. */
static rk_status bind_outer(const char *text, const char *set) {
    struct {
        struct whole whole;
    } outer;
    const rk_field fields[] = {
        {.key = "whole", .kind = RK_FIELD_KIND_STRUCT, .sub = &whole_schema, .doc = "all"}};
    const rk_schema schema = {.name = "outer", .struct_bytes = sizeof outer, .fields = fields, .n_fields = 1};
    rk_yaml yaml;
    RK_TRY(rk_yaml_parse("f.yaml", text, strlen(text), &yaml));
    rk_status status = rk_yaml_set(&yaml, set);
    if (status == RK_OK) status = rk_schema_bind(&schema, &yaml, yaml.root, &outer);
    if (status == RK_OK) rk_schema_release(&schema, &outer);
    rk_yaml_release(&yaml);
    return status;
}

static void test_bind(void **state) {
    (void)state;
    struct whole w;
    FAILS(bind("name: n\n", "part.rate=0.125", &w), RK_CONFIG,
          "--set: key 'part': 'part' needs the key 'kind'");
    OK(
        bind("name: n\ncount: 1_0\nmode: exact\non: no\nsizes: [1, 2, 1e2]\nparts: [a, {kind: b, rate: "
             "0.25}]\nwords: alone\n",
             "rate=2", &w));
    assert_string_equal(w.name, "n");
    assert_int_equal(w.count, 10);
    assert_int_equal(w.mode, 1);
    assert_false(w.on);
    assert_int_equal(w.n_sizes, 3);
    assert_int_equal(w.sizes[2], 100);
    assert_true(w.rate == 2);
    assert_int_equal(w.n_parts, 2);
    assert_string_equal(w.parts[0].kind, "a");
    assert_true(isnan(w.parts[0].rate));
    assert_true(w.parts[1].rate == 0.25);
    assert_null(w.part.kind);
    assert_string_equal(w.words[0], "alone");
    rk_schema_release(&whole_schema, &w);
    assert_int_equal(rk_alloc_live(), 0);
}

/* What a value alone said holds where an override adds a key beside it. */
static void test_set_below_a_value(void **state) {
    (void)state;
    struct whole w;
    OK(bind("name: n\npart: a\nparts: [b]\n", "part.rate=0.25", &w));
    assert_string_equal(w.part.kind, "a");
    assert_true(w.part.rate == 0.25);
    rk_schema_release(&whole_schema, &w);
    OK(bind("name: n\npart: a\nparts: [b]\n", "parts[0].rate=0.25", &w));
    assert_string_equal(w.parts[0].kind, "b");
    assert_true(w.parts[0].rate == 0.25);
    rk_schema_release(&whole_schema, &w);
    OK(bind("name: n\npart: a\n", "part.kind=b", &w));
    assert_string_equal(w.part.kind, "b");
    rk_schema_release(&whole_schema, &w);
    FAILS(bind("name: n\npart:\n", "part.rate=0.25", &w), RK_CONFIG,
          "f.yaml:2: key 'part': 'part' needs the key 'kind'");
    FAILS(bind("3\n", "name=n", &w), RK_CONFIG, "f.yaml: not a mapping");
    FAILS(bind_outer("whole: 3\n", "whole.name=n"), RK_CONFIG,
          "f.yaml:1: key 'whole': must be a mapping, not '3'");
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_errors(void **state) {
    (void)state;
    struct whole w;
    FAILS(bind("name: n\ncuont: 3\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'cuont': unknown key in 'whole'\nhint: did you mean 'count'?");
    FAILS(bind("name: n\nzzzzzz: 3\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'zzzzzz': unknown key in 'whole'\nhint: the keys here are name, rate, count, mode, "
          "on, sizes, part, parts, words");
    FAILS(bind("name: n\ncount: many\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'count': must be a whole number, not 'many'");
    FAILS(bind("name: n\ncount: 1.5\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'count': must be a whole number, not '1.5'");
    FAILS(bind("name: n\ncount: \"3\"\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'count': must be a whole number, not '3'");
    FAILS(bind("name: n\ncount: 101\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'count': must be between 1 and 100, not '101'");
    FAILS(bind("name: n\nrate: -1\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'rate': must be 0 or more, not '-1'");
    FAILS(bind("name: n\nmode: fsat\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'mode': there is no 'fsat'\nhint: did you mean 'fast'?");
    FAILS(bind("name: n\nmode: slow\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'mode': there is no 'slow'\nhint: it is one of fast, exact");
    FAILS(bind("name: n\non: maybe\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'on': must be true or false, not 'maybe'");
    FAILS(bind("name: n\nrate: [1]\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'rate': must be a number, not a list");
    FAILS(bind("name: n\nparts: {kind: a}\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: key 'parts': must be a list, not a mapping");
    FAILS(bind("name: n\nparts:\n  - {rate: 1}\n", NULL, &w), RK_CONFIG,
          "f.yaml:3: 'part' needs the key 'kind'");
    FAILS(bind("name: n\nname: m\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: duplicate key 'name'; the first is in line 1");
    FAILS(bind("name: n\n", "count", &w), RK_CONFIG,
          "--set: 'count' is not KEY=VALUE\nhint: for example train.optimizer.learning_rate=0.1");
    FAILS(bind("name: n\n", "coutn=3", &w), RK_CONFIG,
          "--set: key 'coutn': unknown key in 'whole'\nhint: did you mean 'count'?");
    FAILS(bind("name: n\nparts: [a]\n", "parts[1].rate=0.5", &w), RK_CONFIG, "--set: there is no 'parts[1]'");
    FAILS(bind("name: &a n\nwords: [*a]\n", NULL, &w), RK_CONFIG,
          "f.yaml:2: anchors and aliases are not supported\nhint: write the value in full");
    assert_int_equal(bind("name: [n\n", NULL, &w), RK_CONFIG);
    assert_int_equal(bind("", NULL, &w), RK_CONFIG);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_emit_reads_back(void **state) {
    (void)state;
    struct whole w, again;
    OK(
        bind("name: \"a \\\"b\\\": #c\"\nrate: 0.1\nsizes: [7]\npart: {kind: x}\nparts: [{kind: y, rate: "
             "0.3}, z]\nwords: [\"1\", two]\n",
             NULL, &w));
    rk_buffer text = {0}, text_again = {0};
    rk_schema_emit(&whole_schema, &w, 0, &text);
    OK(text.status);
    OK(bind(text.data, NULL, &again));
    rk_schema_emit(&whole_schema, &again, 0, &text_again);
    assert_string_equal(text.data, text_again.data);
    assert_string_equal(again.name, "a \"b\": #c");
    assert_true(again.rate == 0.1);
    assert_true(again.parts[0].rate == 0.3);
    rk_schema_release(&whole_schema, &w);
    rk_schema_release(&whole_schema, &again);
    rk_buffer_release(&text);
    rk_buffer_release(&text_again);
}

static void test_json(void **state) {
    (void)state;
    struct whole w;
    OK(
        bind("name: 'a \"b\"'\nrate: 0.1\nmode: exact\non: false\nsizes: [4, 5]\npart: {kind: k, rate: "
             "0.5}\nparts: [{kind: y, rate: 0.25}, z]\nwords: [\"1\", two]\n",
             NULL, &w));
    json_t *json = rk_schema_to_json(&whole_schema, &w);
    char *text = json_dumps(json, 0);
    assert_string_equal(
        text,
        "{\"name\": \"a \\\"b\\\"\", \"rate\": 0.10000000000000001, \"count\": 3, \"mode\": "
        "\"exact\", \"on\": false, \"sizes\": [4, 5], \"part\": {\"kind\": \"k\", \"rate\": 0.5}, "
        "\"parts\": [{\"kind\": \"y\", \"rate\": 0.25}, {\"kind\": \"z\"}], \"words\": [\"1\", "
        "\"two\"]}");
    free(text);
    json_decref(json);
    w.name[0] = (char)0xFF; /* no text of YAML has it */
    assert_null(rk_schema_to_json(&whole_schema, &w));
    rk_schema_release(&whole_schema, &w);
}

static void test_out_of_memory(void **state) {
    (void)state;
    struct whole w;
    for (long n = 1;; n++) {
        rk_alloc_fail_after(n, false);
        rk_status status = bind("name: n\nparts: [a, b]\nsizes: [1]\nwords: [x, y]\n", "part.kind=k", &w);
        rk_alloc_fail_after(0, false);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
        assert_int_equal(rk_alloc_live(), 0);
    }
    rk_schema_release(&whole_schema, &w);
    assert_int_equal(rk_alloc_live(), 0);
}

/* As long as a scan for each key would take, no test would wait. */
static void test_many_keys(void **state) {
    (void)state;
    rk_buffer text = {0};
    for (int i = 0; i < 400000; i++) rk_buffer_printf(&text, "key_%d: 1\n", i);
    rk_yaml yaml;
    OK(text.status);
    OK(rk_yaml_parse("f.yaml", text.data, text.n_bytes, &yaml));
    assert_int_equal(yaml.root->n_children, 400000);
    rk_yaml_release(&yaml);
    rk_buffer_append_text(&text, "key_7: 2\nkey_6: 2\n");
    FAILS(rk_yaml_parse("f.yaml", text.data, text.n_bytes, &yaml), RK_CONFIG,
          "f.yaml:400001: duplicate key 'key_7'; the first is in line 8");
    rk_buffer_release(&text);
    OK(rk_yaml_parse("f.yaml", "{}", 2, &yaml));
    FAILS(rk_yaml_set(&yaml, "a={b: 1, b: 2}"), RK_CONFIG, "--set: duplicate key 'b'");
    rk_yaml_release(&yaml);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_set_below_a_value),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_emit_reads_back),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
