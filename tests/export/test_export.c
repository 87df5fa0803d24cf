/* A run's parameters as safetensors files, against the model itself. */
#include "export/export_directory.h"

#include <unistd.h>

#include <reckon/reckon.h>

#include "base/file/directory_lock.h"
#include "base/float16.h"
#include "format/safetensors.h"
#include "model/model.h"

static rk_state_dict model_state;
static rk_model *model;

static void load_model(void) {
    char *checkpoint;
    OK(rk_checkpoint_find_best(path_of("run"), &checkpoint));
    OK(rk_checkpoint_load_model(checkpoint, &model));
    OK(rk_model_state_dict(model, &model_state));
    rk_text_free(checkpoint);
}

/* An export's file. */
typedef struct read_file {
    rk_mapped_file map;
    rk_safetensors tensors;
} read_file;

static void read_export(const char *name, read_file *out) {
    OK(rk_mapped_file_open(path_of(name), &out->map));
    OK(rk_safetensors_parse(out->map.data, out->map.n_bytes, out->map.n_bytes, &out->tensors));
}

static void close_export(read_file *file) {
    rk_safetensors_release(&file->tensors);
    rk_mapped_file_release(&file->map);
}

/* "embeddings.w.weight" is "table/w/rows", "dense.deep/linear_0.bias" is "dense/deep/linear_0/bias". */
static const rk_state_dict_entry *of_model(const char *name) {
    char stored[200];
    if (strncmp(name, "embeddings.", 11) == 0)
        snprintf(stored, sizeof stored, "table/%.*s/rows", (int)(strrchr(name, '.') - name - 11), name + 11);
    else
        snprintf(stored, sizeof stored, "dense/%.*s/%s", (int)(strrchr(name, '.') - name - 6), name + 6,
                 strrchr(name, '.') + 1);
    const rk_state_dict_entry *entry = rk_state_dict_find(&model_state, stored);
    if (!entry) fail_msg("the model has no '%s'", stored);
    return entry;
}

static size_t check_file(const char *name) {
    read_file file;
    read_export(name, &file);
    for (size_t i = 0; i < file.tensors.n; i++) {
        const rk_safetensors_entry *have = &file.tensors.entries[i];
        const rk_state_dict_entry *want = of_model(have->name);
        assert_int_equal(have->type, want->type);
        assert_int_equal(have->n_dims, want->n_dims);
        assert_int_equal(have->n_bytes, rk_state_dict_entry_bytes(want));
        assert_memory_equal(file.map.data + have->begin, want->data, have->n_bytes);
    }
    size_t n = file.tensors.n;
    close_export(&file);
    return n;
}

/* Of the model's state all but counters is exported, and nothing else. */
static void test_whole(void **state) {
    (void)state;
    size_t wanted = 0;
    for (size_t i = 0; i < model_state.n; i++) wanted += model_state.entries[i].type != RK_I64;
    OK(rk_export_safetensors(path_of("run"), NULL, path_of("whole")));
    assert_int_equal(check_file("whole/model.safetensors"), wanted);
    assert_true(rk_file_exists(path_of("whole/README.md")));
    assert_true(rk_file_exists(path_of("whole/config.yaml")));
    assert_true(rk_file_exists(path_of("whole/transforms.json")));
    assert_false(rk_file_exists(path_of("whole/directory.txt")));
    assert_false(rk_file_exists(path_of("whole.reckon-export")));
}

static void test_parts(void **state) {
    (void)state;
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    options.no_tables = true;
    OK(rk_export_safetensors(path_of("run"), &options, path_of("dense")));
    size_t n_dense = check_file("dense/model.safetensors");
    options.no_tables = false;
    options.tables = (const char *const[]){"v", "w"};
    options.n_tables = 2;
    OK(rk_export_safetensors(path_of("run"), &options, path_of("tables")));
    assert_int_equal(check_file("tables/model.safetensors"), 2);
    assert_int_equal(n_dense + 2, check_file("whole/model.safetensors"));
}

/* Files of at most so many bytes, but for a tensor that is larger, and an index of all. */
static void test_files(void **state) {
    (void)state;
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    rk_text_list names = {0};
    char *index;
    size_t n_bytes, n_files = 0, n_tensors = 0;
    options.shard_bytes = 2000;
    OK(rk_export_safetensors(path_of("run"), &options, path_of("files")));
    OK(rk_file_read(path_of("files/model.safetensors.index.json"), &index, &n_bytes));
    OK(rk_list_directory(path_of("files"), &names));
    for (size_t i = 0; i < names.n; i++) {
        char name[300];
        if (!strstr(names.texts[i], ".safetensors") || strstr(names.texts[i], "index")) continue;
        n_files++;
        assert_non_null(strstr(index, names.texts[i]));
        snprintf(name, sizeof name, "files/%s", names.texts[i]);
        n_tensors += check_file(name);
    }
    assert_true(n_files > 2);
    assert_int_equal(n_tensors, check_file("whole/model.safetensors"));
    rk_text_list_release(&names);
    rk_free(index);
}

static float value_of(const rk_state_dict_entry *entry, size_t i) {
    return entry->type == RK_F32 ? ((const float *)entry->data)[i]
                                 : rk_bf16_to_f32(((const uint16_t *)entry->data)[i]);
}

/* What is read back is within half a step of what was trained. */
static void test_int8(void **state) {
    (void)state;
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    read_file file;
    options.rows = RK_EXPORT_ROWS_INT8;
    OK(rk_export_safetensors(path_of("run"), &options, path_of("int8")));
    read_export("int8/model.safetensors", &file);
    for (const char *const *name = (const char *const[]){"embeddings.w.weight", "embeddings.v.weight", NULL};
         *name; name++) {
        const rk_safetensors_entry *have = rk_safetensors_find(&file.tensors, *name);
        const rk_state_dict_entry *want = of_model(*name);
        assert_int_equal(have->type, RK_U8);
        assert_int_equal(have->dims[1], 12 + 8);
        for (int64_t r = 0; r < have->dims[0]; r++) {
            const uint8_t *row = file.map.data + have->begin + r * 20;
            float tail[2];
            memcpy(tail, row + 12, sizeof tail);
            for (int k = 0; k < 12; k++)
                assert_float_equal((float)row[k] * tail[0] + tail[1], value_of(want, (size_t)(r * 12 + k)),
                                   0.501f * tail[0]);
        }
    }
    assert_non_null(memmem(file.map.data, file.map.n_bytes, "fbgemm_fused_8bit_rowwise", 25));
    close_export(&file);
}

static void test_refused(void **state) {
    (void)state;
    rk_export_options options = RK_EXPORT_OPTIONS_INIT;
    FAILS(rk_export_safetensors(path_of("none"), NULL, path_of("out")), RK_NOT_FOUND, rk_last_error());
    assert_int_equal(rk_export_safetensors(path_of("run"), NULL, path_of("run")), RK_INVALID_ARGUMENT);
    assert_non_null(strstr(rk_last_error(), "exists already and is not empty"));
    options.tables = (const char *const[]){"wv"};
    options.n_tables = 1;
    FAILS(rk_export_safetensors(path_of("run"), &options, path_of("out")), RK_NOT_FOUND,
          "the model has no table 'wv'");
    options.no_tables = true;
    FAILS(rk_export_safetensors(path_of("run"), &options, path_of("out")), RK_INVALID_ARGUMENT,
          "'no_tables' and 'tables' cannot be used together");
    options = (rk_export_options)RK_EXPORT_OPTIONS_INIT;
    options.rows = (rk_export_rows)6;
    FAILS(rk_export_safetensors(path_of("run"), &options, path_of("out")), RK_INVALID_ARGUMENT,
          "invalid format of rows: 6");
    options.rows = RK_EXPORT_ROWS_TRAINED;
    options.bags = RK_EXPORT_BAGS_PADDED;
    FAILS(rk_export_safetensors(path_of("run"), &options, path_of("out")), RK_INVALID_ARGUMENT,
          "'bags', 'id_bits' and 'values' are of a model's inputs\nhint: export ONNX");
    options.id_bits = 16;
    FAILS(rk_export_onnx(path_of("run"), &options, path_of("out")), RK_INVALID_ARGUMENT,
          "'id_bits' must be 32 or 64, not 16");
    options.bags = (rk_export_bags)2;
    FAILS(rk_export_onnx(path_of("run"), &options, path_of("out")), RK_INVALID_ARGUMENT,
          "invalid form of bags: 2");
    assert_false(rk_file_exists(path_of("out")));
}

/* Two at once into one directory: the second one is told so, and the first one's files stay. What a crash has
 * left is no obstacle. */
static void test_two_at_once(void **state) {
    (void)state;
    rk_directory_lock *other;
    OK(rk_directory_lock_acquire(path_of("twice.reckon-export"), &other));
    OK(rk_make_directories(path_of("twice.reckon-export/files")));
    OK(rk_file_write(path_of("twice.reckon-export/files/model.safetensors"), "half", 4));
    assert_int_equal(rk_export_safetensors(path_of("run"), NULL, path_of("twice")), RK_BUSY);
    assert_non_null(strstr(rk_last_error(), "twice.reckon-export' is in use"));
    assert_true(rk_file_exists(path_of("twice.reckon-export/files/model.safetensors")));
    rk_directory_lock_free(other);
    assert_true(rk_file_exists(path_of("twice.reckon-export/files/model.safetensors")));
    OK(rk_export_safetensors(path_of("run"), NULL, path_of("twice")));
    check_file("twice/model.safetensors");
    assert_false(rk_file_exists(path_of("twice.reckon-export")));
}

static void test_failures(void **state) {
    (void)state;
    check_failures(rk_export_safetensors, "run");
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(directory)) return -1;
    make_usual_run();
    load_model();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    rk_state_dict_release(&model_state);
    rk_model_free(model);
    OK(rk_remove_tree(directory));
    return rk_alloc_live() == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole),   cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_files),   cmocka_unit_test(test_int8),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_two_at_once),
                                       cmocka_unit_test(test_failures)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
