/* Checkpoints whose checksums are right and whose tensors no run has written. */
#include "testing.h"

#include <reckon/checkpoint.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/stored_tensors.h"

static char directory[] = "/tmp/reckon-stored-XXXXXX";
static rk_config *config;
static rk_comm *comm;

typedef struct tensor {
    const char *name;
    rk_dtype type;
    int64_t dims[2];
} tensor;

static int64_t values[64]; /* of all tensors */

static void make_state(const tensor *tensors, size_t n, rk_state_dict *out) {
    *out = (rk_state_dict){0};
    for (size_t i = 0; i < n; i++)
        OK(rk_state_dict_add(out, tensors[i].name, tensors[i].type, tensors[i].dims[0], tensors[i].dims[1],
                             values));
}

static char *write_checkpoint(const tensor *tensors, size_t n) {
    static int64_t step = 0;
    rk_progress progress = {.step = ++step};
    const rk_input_fingerprints inputs = {0};
    rk_state_dict state;
    char *path;
    make_state(tensors, n, &state);
    OK(rk_checkpoint_write(config, comm, NULL, &state, &progress, &inputs, &path));
    rk_state_dict_release(&state);
    OK(rk_checkpoint_verify(path));
    return path;
}

static void open_fails(const tensor *tensors, size_t n, const char *message) {
    rk_stored_tensors stored;
    char *path = write_checkpoint(tensors, n);
    FAILS(rk_stored_tensors_open(path, &stored), RK_BAD_DATA, message);
    rk_free(path);
}

/* Who reads keys has room for eight bytes each. */
static void test_keys_that_are_none(void **state) {
    (void)state;
    static const char message[] = "tensor 'table/t/keys' has no keys of I64, one a row";
    const tensor rows = {"table/t/rows", RK_F32, {4, 2}};
    open_fails((tensor[]){{"table/t/keys", RK_I64, {4, 5}}, rows}, 2, message);
    open_fails((tensor[]){{"table/t/keys", RK_F32, {4, 0}}, rows}, 2, message);
    open_fails((tensor[]){{"table/t/keys[0..1:4]", RK_I64, {1, 3}}, {"table/t/keys[1..4:4]", RK_I64, {3, 3}}},
               2, message);
}

/* As many rows as there are to be, but some twice and others not at all. */
static void test_parts_that_overlap(void **state) {
    (void)state;
    const tensor parts[] = {{"table/t/rows[0..2:4]", RK_F32, {2, 2}},
                            {"table/t/rows[1..3:4]", RK_F32, {2, 2}}},
                 whole = {"table/t/rows", RK_F32, {4, 2}};
    static const char message[] = "tensor 'table/t/rows' is there twice, in part or as a whole";
    rk_state_dict wanted;
    open_fails(parts, 2, message);
    char *path = write_checkpoint(parts, 2);
    make_state(&whole, 1, &wanted);
    FAILS(rk_checkpoint_read_tensors(path, &wanted), RK_BAD_DATA, message);
    rk_state_dict_release(&wanted);
    rk_free(path);
}

/* A name that begins as one of a table's does, without a last part. */
static void test_conversion_of_a_name_that_is_no_tables(void **state) {
    (void)state;
    static const char run[] =
        "data: {train: data.csv, labels: [{name: y}], features: [{name: u, hash: 10}]}\n"
        "embedding: {dim: 2, tables: [{name: u, max_capacity: 8}]}\nmodel: {kind: lr}\n";
    const tensor tensors[] = {{"table/x", RK_F32, {4, 2}}, {"table//rows", RK_F32, {4, 2}}};
    char output[300], message[400], *path = write_checkpoint(tensors, 2), *converted;
    const char *overrides[] = {output};
    rk_config *dynamic;
    snprintf(output, sizeof output, "train.output=%s/converted", directory);
    OK(rk_config_parse(run, "run.yaml", directory, overrides, 1, &dynamic));
    snprintf(message, sizeof message, "'%s' has no tensor 'table/u/linear/rows'", path);
    FAILS(rk_checkpoint_convert(path, dynamic, &converted), RK_CONFIG, message);
    rk_config_free(dynamic);
    rk_free(path);
}

static int set_up(void **state) {
    (void)state;
    static const char run[] =
        "data: {train: data.csv, labels: [{name: y}], features: [{name: u, hash: 10}]}\n"
        "embedding: {dim: 2}\nmodel: {kind: lr}\n";
    char path[300], output[300];
    const char *overrides[] = {output};
    if (!mkdtemp(directory)) return -1;
    snprintf(path, sizeof path, "%s/data.csv", directory);
    snprintf(output, sizeof output, "train.output=%s/run", directory);
    OK(rk_file_write(path, "u,y\n1,0\n2,1\n", 12));
    OK(rk_config_parse(run, "run.yaml", directory, overrides, 1, &config));
    OK(rk_comm_self(&comm));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    rk_comm_free(comm);
    rk_config_free(config);
    OK(rk_remove_tree(directory));
    return rk_alloc_live() == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys_that_are_none),
                                       cmocka_unit_test(test_parts_that_overlap),
                                       cmocka_unit_test(test_conversion_of_a_name_that_is_no_tables)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
