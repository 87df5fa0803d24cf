/* ONNX models: the writer's bytes against the onnx package's, and an export's references into its files.
 * tests/export/onnx_models runs exported models. */
#include "export/export_directory.h"

#include <unistd.h>

#include <reckon/reckon.h>

#include "export/onnx_writer.h"
#include "format/protobuf/protobuf_wire.h"
#include "format/safetensors.h"

/* As tests/golden/make_onnx.py. */
static rk_status write_all(rk_onnx_writer *w, rk_buffer *out) {
    rk_onnx_dim ids = {.name = "item ids"}, dims[] = {{.name = "batch"}, {.size = 3}};
    rk_onnx_attribute axis = {.name = "axis"}, to = {.name = "to", .number = RK_ONNX_F32},
                      last[] = {{.name = "axis", .number = -1},
                                {.name = "epsilon", .kind = RK_ONNX_FLOAT, .real = 1e-5f}};
    static const int64_t order[] = {1, 0}, shape[] = {0, -1};
    rk_onnx_attribute perm = {.name = "perm", .kind = RK_ONNX_INTS, .numbers = order, .n_numbers = 2};
    rk_onnx_place place = {"model-00002-of-00003.safetensors", 5000000008, 240000000000};
    w->scope = "item";
    rk_onnx_value x[2];
    x[1] = rk_onnx_add_input(w, "item.ids", RK_ONNX_I64, &ids, 1);
    x[0] = rk_onnx_add_external_tensor(w, "embeddings.item.weight", RK_ONNX_F16, (int64_t[]){40000000000, 3},
                                       2, place);
    x[0] = rk_onnx_add_node(w, "Gather", x, 2, &axis, 1);
    x[0] = rk_onnx_add_node(w, "Cast", x, 1, &to, 1);
    x[1] = rk_onnx_constant_ints(w, shape, 2);
    x[0] = rk_onnx_add_node(w, "Reshape", x, 2, NULL, 0);
    x[1] = rk_onnx_constant_floats(w, (float[]){0.5f, -2}, 2);
    x[0] = rk_onnx_add_node(w, "Mul", x, 2, NULL, 0);
    x[0] = rk_onnx_add_node(w, "Transpose", x, 1, &perm, 1);
    x[0] = rk_onnx_add_node(w, "LayerNormalization", x, 2, last, 2);
    rk_onnx_add_output(w, x[0], "clicked", RK_ONNX_F32, dims, 2);
    rk_onnx_value seven = rk_onnx_constant_int(w, 7);
    rk_onnx_constant_double(w, 0.1);
    rk_onnx_value again = rk_onnx_constant_int(w, 7);
    if (w->status == RK_OK) assert_int_equal(again, seven);
    return rk_onnx_write_model(w, "two words", out);
}

static void test_bytes(void **state) {
    (void)state;
    rk_onnx_writer writer = {0};
    rk_buffer have = {0}, version = {0};
    char *want;
    size_t n_bytes;
    OK(write_all(&writer, &have));
    OK(rk_file_read(RK_SOURCE_DIR "/tests/golden/writer.onnx", &want, &n_bytes));
    rk_wire_write_bytes(&version, 3, rk_version(), strlen(rk_version()));
    char *at = memmem(have.data, have.n_bytes, version.data, version.n_bytes);
    assert_non_null(at);
    memmove(at, at + version.n_bytes, (size_t)(have.data + have.n_bytes - at) - version.n_bytes);
    assert_int_equal(have.n_bytes - version.n_bytes, n_bytes);
    assert_memory_equal(have.data, want, n_bytes);
    rk_free(want);
    rk_buffer_release(&version);
    rk_buffer_release(&have);
    rk_onnx_writer_release(&writer);
}

static void test_writer_without_memory(void **state) {
    (void)state;
    long live = rk_alloc_live();
    rk_status status = RK_NO_MEMORY;
    for (long countdown = 1; status != RK_OK; countdown++) {
        rk_onnx_writer writer = {0};
        rk_buffer out = {0};
        rk_alloc_fail_after(countdown, false);
        status = write_all(&writer, &out);
        rk_alloc_fail_after(0, false);
        assert_true(status == RK_OK || status == RK_NO_MEMORY);
        rk_buffer_release(&out);
        rk_onnx_writer_release(&writer);
        assert_int_equal(rk_alloc_live(), live);
    }
}

static void test_two_of_a_name(void **state) {
    (void)state;
    rk_onnx_writer writer = {0};
    rk_buffer out = {0};
    rk_onnx_dim dim = {.size = 1};
    rk_onnx_value x = rk_onnx_add_input(&writer, "dense", RK_ONNX_F32, &dim, 1);
    rk_onnx_add_output(&writer, x, "dense", RK_ONNX_F32, &dim, 1);
    assert_int_equal(rk_onnx_add_node(&writer, "Relu", &x, 1, NULL, 0), -1);
    FAILS(rk_onnx_write_model(&writer, "m", &out), RK_UNSUPPORTED,
          "two values of the ONNX model are named 'dense'\nhint: give the label or the feature another name");
    rk_buffer_release(&out);
    rk_onnx_writer_release(&writer);
}

#define FEATURES                                                                                            \
    "features: [{name: w, identity: 100}, {name: v, identity: 100, separator: '|', weights: u}, {name: x, " \
    "dense: true}]"
#define WORDS                                                                                           \
    "features: [{name: w, vocabulary: {}}, {name: v, bucketize: [3, 20.5], separator: '|'}, {name: x, " \
    "dense: true, log1p: true, normalize: true}]"

static void make_run(const char *name, const char *data, const char *length, const char *model) {
    static const char *const run =
        "data: {train: data.csv, %s}\n"
        "embedding: {dim: 12, features: [{name: w, %s}]}\n"
        "model: %s\n"
        "train: {batch_size: 10, epochs: 1, output: %s/%s}\n";
    char text[800], rows[4000] = "w,v,u,x,dense\n";
    rk_config *config;
    rk_trainer *trainer;
    for (int i = 0; i < 100; i++)
        sprintf(rows + strlen(rows), "%d,%d|%d,1|2,%d.5,%d\n", i, i, i * 7 % 100, i % 3, i % 2);
    OK(rk_file_write(path_of("data.csv"), rows, strlen(rows)));
    snprintf(text, sizeof text, run, data, length, model, directory, name);
    OK(rk_config_parse(text, "run.yaml", directory, NULL, 0, &config));
    OK(rk_trainer_create(config, NULL, &trainer));
    OK(rk_trainer_run(trainer));
    rk_trainer_free(trainer);
    rk_config_free(config);
}

static bool next_field(rk_wire *wire, uint32_t *field, uint64_t *number, rk_span *bytes) {
    uint32_t type;
    if (wire->at == wire->end) return false;
    assert_true(rk_wire_read_field(wire, field, &type, number, bytes));
    return true;
}

static rk_span field_of(rk_span message, uint32_t wanted) {
    rk_wire wire = rk_wire_from_bytes(message);
    rk_span bytes;
    uint64_t number;
    uint32_t field;
    while (next_field(&wire, &field, &number, &bytes))
        if (field == wanted) return bytes;
    fail_msg("no field %u", wanted);
    return (rk_span){0};
}

static bool is(rk_span text, const char *want) {
    return text.n_bytes == strlen(want) && memcmp(text.data, want, text.n_bytes) == 0;
}

/* The tensor's name, and where its bytes are; false: they are in the message. */
static bool external_of(rk_span tensor, rk_span *name, char file[300], uint64_t *begin, uint64_t *n_bytes) {
    rk_wire wire = rk_wire_from_bytes(tensor);
    rk_span bytes;
    uint64_t number;
    uint32_t field, seen = 0;
    while (next_field(&wire, &field, &number, &bytes)) {
        if (field == 8) *name = bytes;
        if (field != 13) continue;
        rk_span key = field_of(bytes, 1), value = field_of(bytes, 2);
        char text[300];
        snprintf(text, sizeof text, "%.*s", (int)value.n_bytes, value.data);
        if (is(key, "location")) strcpy(file, text);
        if (is(key, "offset")) *begin = strtoull(text, NULL, 10);
        if (is(key, "length")) *n_bytes = strtoull(text, NULL, 10);
        seen++;
    }
    assert_true(seen == 0 || seen == 3);
    return seen > 0;
}

/* Each external tensor is to the byte where a tensor of its name is; returns how many there are. */
static int check_places(const char *folder, const char *model) {
    char path[300], file[300], name[300], *data;
    size_t n_bytes;
    rk_span bytes, called;
    uint64_t number, begin, length;
    uint32_t field;
    int n = 0;
    snprintf(path, sizeof path, "%s/%s", folder, model);
    OK(rk_file_read(path_of(path), &data, &n_bytes));
    rk_wire graph = rk_wire_from_bytes(field_of((rk_span){data, n_bytes}, 7));
    while (next_field(&graph, &field, &number, &bytes)) {
        if (field != 5 || !external_of(bytes, &called, file, &begin, &length)) continue;
        rk_mapped_file map;
        rk_safetensors tensors;
        snprintf(path, sizeof path, "%s/%s", folder, file);
        snprintf(name, sizeof name, "%.*s", (int)called.n_bytes, called.data);
        OK(rk_mapped_file_open(path_of(path), &map));
        OK(rk_safetensors_parse(map.data, map.n_bytes, map.n_bytes, &tensors));
        const rk_safetensors_entry *entry = rk_safetensors_find(&tensors, name);
        assert_non_null(entry);
        assert_int_equal(entry->begin, begin);
        assert_int_equal(entry->n_bytes, length);
        rk_safetensors_release(&tensors);
        rk_mapped_file_release(&map);
        n++;
    }
    rk_free(data);
    return n;
}

/* 2 tables, 2 linear layers, batch norm's four. */
static void test_places(void **state) {
    (void)state;
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    OK(rk_export_onnx(path_of("run"), NULL, path_of("whole")));
    assert_int_equal(check_places("whole", "model.onnx"), 10);
    options.shard_bytes = 2000;
    options.rows = RK_EXPORT_ROWS_F16;
    OK(rk_export_onnx(path_of("run"), &options, path_of("files")));
    assert_false(rk_file_exists(path_of("files/model.safetensors")));
    assert_int_equal(check_places("files", "model.onnx"), 10);
}

/* Few keys are constants of the model: ONNX Runtime takes a tensor of one 1 in another file for an axis. */
static void test_few_keys(void **state) {
    (void)state;
    static const char *const tables[] = {
        "combiner: sum}], tables: [{name: w, max_capacity: 8, eviction: {policy: none}",
        "combiner: sum}], tables: [{name: w, max_capacity: 9, eviction: {policy: none}",
    };
    for (int more = 0; more < 2; more++) {
        make_run(more ? "nine" : "eight", "labels: [{name: y, column: dense}], " FEATURES, tables[more],
                 "{kind: dnn, deep: []}");
        const char *folder = more ? "of_nine" : "of_eight";
        OK(rk_export_onnx(path_of(more ? "nine" : "eight"), NULL, path_of(folder)));
        assert_int_equal(check_places(folder, "model.onnx"), 2 + 2 + more); /* rows, a linear layer, keys */
    }
}

/* Each has what its vector needs, and no more. */
static void test_towers(void **state) {
    (void)state;
    OK(rk_export_onnx(path_of("towers"), NULL, path_of("vectors")));
    assert_false(rk_file_exists(path_of("vectors/model.onnx")));
    assert_int_equal(check_places("vectors", "user.onnx"), 1 + 2);
    assert_int_equal(check_places("vectors", "item.onnx"), 1 + 2);
}

/* Lookups of the tables that were asked for, without the dense part. */
static void test_tables(void **state) {
    (void)state;
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    char *data;
    size_t n_bytes;
    options.tables = (const char *const[]){"w"};
    options.n_tables = 1;
    OK(rk_export_onnx(path_of("run"), &options, path_of("tables")));
    assert_false(rk_file_exists(path_of("tables/model.onnx")));
    assert_int_equal(check_places("tables", "embeddings.onnx"), 1);
    OK(rk_file_read(path_of("tables/embeddings.onnx"), &data, &n_bytes));
    rk_span graph = field_of((rk_span){data, n_bytes}, 7), output = field_of(graph, 12);
    assert_true(is(field_of(output, 1), "w"));
    rk_span shape = field_of(field_of(field_of(output, 2), 1), 2);
    rk_wire dims = rk_wire_from_bytes(shape);
    uint32_t field;
    uint64_t number;
    rk_span dim;
    int64_t n_dims = 0;
    while (next_field(&dims, &field, &number, &dim)) n_dims++;
    assert_int_equal(n_dims, 3); /* a sequence: batch, length, dim */
    assert_null(memmem(data, n_bytes, "v.ids", 5));
    rk_free(data);
    options.tables = (const char *const[]){"x"};
    assert_int_equal(rk_export_onnx(path_of("run"), &options, path_of("out")), RK_NOT_FOUND);
    assert_false(rk_file_exists(path_of("out")));
}

static void refused(const char *run, const rk_export_options *options, const char *message) {
    assert_int_equal(rk_export_onnx(path_of(run), options, path_of("out")), RK_UNSUPPORTED);
    if (!strstr(rk_last_error(), message)) fail_msg("'%s' does not say '%s'", rk_last_error(), message);
    assert_false(rk_file_exists(path_of("out")));
    assert_false(rk_file_exists(path_of("out.tmp")));
}

static void test_refused(void **state) {
    (void)state;
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    options.no_tables = true;
    refused("run", &options, "an ONNX model has tables");
    refused("named", NULL, "two values of the ONNX model are named 'dense'");
}

static void test_failures(void **state) {
    (void)state;
    check_failures(rk_export_onnx, "run");
}

/* A model with all that the options add: codes, padded ids, transforms. */
static rk_status export_values(const char *path, const rk_export_options *none, const char *to) {
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    (void)none;
    options.rows = RK_EXPORT_ROWS_INT4;
    options.bags = RK_EXPORT_BAGS_PADDED;
    options.id_bits = 32;
    options.values = true;
    return rk_export_onnx(path, &options, to);
}

static rk_status export_table(const char *path, const rk_export_options *none, const char *to) {
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    (void)none;
    options.tables = (const char *const[]){"w"};
    options.n_tables = 1;
    return rk_export_onnx(path, &options, to);
}

static void test_failures_of_tables(void **state) {
    (void)state;
    check_failures(export_table, "run");
}

static void test_failures_of_values(void **state) {
    (void)state;
    check_failures(export_values, "words");
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(directory)) return -1;
    make_run("run", "labels: [{name: y, column: dense}], " FEATURES, "max_sequence_length: 2",
             "{kind: dnn, deep: [8], batch_norm: true}");
    make_run("words", "labels: [{name: y, column: dense}], " WORDS, "combiner: mean",
             "{kind: dnn, deep: [8]}");
    make_run("named", "labels: [{name: dense}], " FEATURES, "combiner: sum", "{kind: dnn, deep: [8]}");
    make_run("towers", "features: [{name: w, identity: 100}, {name: u, identity: 3, column: dense}]",
             "combiner: sum", "{kind: two_tower, retrieval: {user: w, item: u, negatives: 2}, deep: [8]}");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    OK(rk_remove_tree(directory));
    return rk_alloc_live() == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),         cmocka_unit_test(test_writer_without_memory),
        cmocka_unit_test(test_two_of_a_name), cmocka_unit_test(test_places),
        cmocka_unit_test(test_towers),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_failures),      cmocka_unit_test(test_failures_of_values),
        cmocka_unit_test(test_tables),        cmocka_unit_test(test_failures_of_tables),
        cmocka_unit_test(test_few_keys)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
