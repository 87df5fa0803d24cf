/* The `model:` section: what each kind takes and what it refuses, by file and line. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "model/model_config.h"
#include "model/presets/preset.h"

/* Bind and check the text's `model:`; the section stays bound on success. */
static rk_status read(const char *text, rk_model_section *out) {
    rk_yaml yaml;
    OK(rk_yaml_parse("run.yaml", text, strlen(text), &yaml));
    rk_status status = rk_schema_bind(&rk_model_schema, &yaml, rk_yaml_find_key(yaml.root, "model"), out);
    if (status == RK_OK) {
        status = rk_model_section_check_keys(out, &yaml);
        if (status != RK_OK) rk_schema_release(&rk_model_schema, out);
    }
    rk_yaml_release(&yaml);
    return status;
}

static void test_defaults(void **state) {
    (void)state;
    rk_model_section section;
    OK(read("model: dnn", &section));
    assert_string_equal(rk_preset_of(section.kind)->name, "dnn");
    assert_true(section.n_deep == 0 && !section.activation && !section.batch_norm && section.dropout == 0 &&
                isnan(section.linear_l2));
    rk_schema_release(&rk_model_schema, &section);
    OK(
        read("model: {kind: dcn_v2, deep: [8, 4], activation: gelu, batch_norm: true, dropout: 0.5, "
             "cross_layers: 2, cross_kind: mixture,\n"
             "  cross_rank: 5, cross_experts: 3, structure: stacked}",
             &section));
    assert_true(section.n_deep == 2 && section.deep[1] == 4 && section.cross_kind == RK_CROSS_MIXTURE &&
                section.cross_rank == 5);
    assert_true(section.cross_experts == 3 && section.structure == RK_STRUCTURE_STACKED &&
                section.dropout == 0.5);
    rk_schema_release(&rk_model_schema, &section);
    assert_int_equal(rk_alloc_live(), 0);
}

/* The kinds' names are their presets' names, in order. */
static void test_presets(void **state) {
    (void)state;
    static const char *const names[] = {
#define NAME(name) #name,
        RK_PRESET_LIST(NAME)
#undef NAME
    };
    int n = sizeof names / sizeof names[0];
    for (int kind = 0; kind < n; kind++) assert_string_equal(rk_preset_of(kind)->name, names[kind]);
    assert_null(rk_preset_of(-1));
    assert_null(rk_preset_of(n));
}

/* A section written out with its defaults reads back and passes the check again. */
static void test_written_out(void **state) {
    (void)state;
    static const char *const texts[] = {"model: lr",
                                        "model: {kind: dcn, structure: stacked}",
                                        "model: {kind: fm, linear_l2: 0.5}",
                                        "model: {kind: dlrm, bottom: [4, 0], deep: 7, activation: tanh}",
                                        "model: {kind: final_mlp, gate_context: [user, item], dropout2: 0.5}",
                                        "model: {kind: final_mlp, gates: false}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        rk_model_section section, again;
        rk_buffer written = {0};
        OK(read(texts[i], &section));
        rk_buffer_append_text(&written, "model:\n");
        rk_schema_emit(&rk_model_schema, &section, 2, &written);
        OK(written.status);
        OK(read(written.data, &again));
        assert_true(again.kind == section.kind && again.structure == section.structure &&
                    again.n_deep == section.n_deep);
        assert_true(again.gates == section.gates && again.n_gate_context == section.n_gate_context);
        assert_true(again.dropout2 == section.dropout2 || isnan(section.dropout2));
        assert_true(again.n_bottom == section.n_bottom &&
                    (again.linear_l2 == section.linear_l2 || isnan(section.linear_l2)));
        rk_schema_release(&rk_model_schema, &section);
        rk_schema_release(&rk_model_schema, &again);
        rk_buffer_release(&written);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"model: {deep: [3]}",
         "run.yaml:1: key 'model': the 'model' section needs the key 'kind'\nhint: it is one of lr, fm, dnn, "
         "wide_deep, deepfm, dlrm, dcn, dcn_v2, "
         "xdeepfm, autoint, final_mlp, masknet, din, shared_bottom, mmoe, ple, two_tower, graph"},
        {"model: deep_fm", "run.yaml:1: key 'model': there is no 'deep_fm'\nhint: did you mean 'deepfm'?"},
        {"model:\n  kind: dnn\n  cross_layers: 2",
         "run.yaml:3: key 'cross_layers': model 'dnn' does not use 'cross_layers'\nhint: 'cross_layers' is "
         "for dcn, dcn_v2"},
        {"model:\n  kind: lr\n  dropout: 0.5",
         "run.yaml:3: key 'dropout': model 'lr' does not use 'dropout'\nhint: 'dropout' is for dnn, "
         "wide_deep, deepfm, dlrm, dcn, dcn_v2, xdeepfm, autoint, "
         "final_mlp, masknet, din, shared_bottom, mmoe, ple, two_tower"},
        {"model: {kind: dnn, linear_l2: 0}",
         "run.yaml:1: key 'linear_l2': model 'dnn' does not use 'linear_l2'\nhint: 'linear_l2' is for lr, "
         "fm, wide_deep, deepfm, xdeepfm, graph"},
        {"model: {kind: dnn, layers: [{name: y, op: relu, inputs: dense}]}",
         "run.yaml:1: key 'layers': model 'dnn' does not use 'layers'\nhint: 'layers' is for graph"},
        {"model: {kind: graph, deep: 3}",
         "run.yaml:1: key 'deep': model 'graph' does not use 'deep'\nhint: 'deep' is for dnn, wide_deep, "
         "deepfm, dlrm, dcn, dcn_v2, xdeepfm, "
         "autoint, final_mlp, masknet, din, shared_bottom, two_tower"},
        {"model: {kind: graph, layers: [{name: y, op: liner, inputs: dense}]}",
         "run.yaml:1: key 'op': there is no 'liner'\nhint: did you mean 'linear'?"},
        {"model: {kind: graph, layers: [{name: y, op: relu, input: dense}]}",
         "run.yaml:1: key 'input': unknown key in 'layers'\nhint: did you mean 'inputs'?"},
        {"model: {kind: dcn, cross_kind: full}",
         "run.yaml:1: key 'cross_kind': model 'dcn' does not use 'cross_kind'\nhint: 'cross_kind' is for "
         "dcn_v2"},
        {"model: {kind: dnn, bottom: 3}",
         "run.yaml:1: key 'bottom': model 'dnn' does not use 'bottom'\nhint: 'bottom' is for dlrm, dcn_v2"},
        {"model: {kind: dcn_v2, cross_rank: 3}",
         "run.yaml:1: key 'cross_rank': full cross layers have no rank\nhint: set cross_kind to low_rank or "
         "mixture"},
        {"model: {kind: dcn_v2, cross_kind: low_rank, cross_experts: 3}",
         "run.yaml:1: key 'cross_experts': only mixture cross layers have experts\nhint: set cross_kind to "
         "mixture"},
        {"model: {kind: dnn, activation: gelo}",
         "run.yaml:1: key 'activation': unknown activation 'gelo'\nhint: did you mean 'gelu'?"},
        {"model: {kind: dnn, activation: swish}",
         "run.yaml:1: key 'activation': unknown activation 'swish'\nhint: it is one of relu, gelu, sigmoid, "
         "tanh, none"},
        {"model: {kind: dlrm, bottom: [0, 8]}",
         "run.yaml:1: key 'bottom': only the last layer may have 0 units, which stand for the embedding dim"},
        {"model: {kind: deepfm, cin: [4]}",
         "run.yaml:1: key 'cin': model 'deepfm' does not use 'cin'\nhint: 'cin' is for xdeepfm"},
        {"model: {kind: dnn, attention_dim: 4}",
         "run.yaml:1: key 'attention_dim': model 'dnn' does not use 'attention_dim'\nhint: 'attention_dim' "
         "is for autoint"},
        {"model: {kind: dnn, structure: stacked}",
         "run.yaml:1: key 'structure': model 'dnn' does not use 'structure'\nhint: 'structure' is for dcn, "
         "dcn_v2, masknet"},
        {"model: {kind: masknet, cross_layers: 2}",
         "run.yaml:1: key 'cross_layers': model 'masknet' does not use 'cross_layers'\nhint: 'cross_layers' "
         "is for dcn, dcn_v2"},
        {"model: {kind: dnn, reduction_ratio: 2}",
         "run.yaml:1: key 'reduction_ratio': model 'dnn' does not use 'reduction_ratio'\nhint: "
         "'reduction_ratio' is for masknet"},
        {"model: {kind: dnn, attention_softmax: true}",
         "run.yaml:1: key 'attention_softmax': model 'dnn' does not use 'attention_softmax'\nhint: "
         "'attention_softmax' is for din"},
        {"model: {kind: din, attention: [{target: item}]}",
         "run.yaml:1: 'attention' needs the key 'history'"},
        {"model: {kind: dnn, gates: false}",
         "run.yaml:1: key 'gates': model 'dnn' does not use 'gates'\nhint: 'gates' is for final_mlp"},
        {"model: {kind: final_mlp, gates: false, gate_context2: [user]}",
         "run.yaml:1: key 'gate_context2': the gates are turned off\nhint: remove 'gates: false'"},
        {"model: {kind: final_mlp, gate_deep: 8}",
         "run.yaml:1: key 'gate_deep': only gates with a context have hidden layers\nhint: name features in "
         "gate_context or gate_context2"},
        {"model: {kind: autoint, batch_norm: true}",
         "run.yaml:1: key 'batch_norm': 'batch_norm' needs hidden layers, but model 'autoint' has "
         "none\nhint: set their units: deep: [256, 128]"},
        {"model: {kind: xdeepfm, cin: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, "
         "20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33]}",
         "run.yaml:1: key 'cin': more than 32 layers"},
        {"model: {kind: dnn, deep: [0]}", "run.yaml:1: key 'deep': must be between 1 and 1048576, not '0'"},
        {"model: {kind: dnn, dropout: 1}", "run.yaml:1: key 'dropout': must be between 0 and 0.99, not '1'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rk_model_section section;
        FAILS(read(cases[i].text, &section), RK_CONFIG, cases[i].message);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_written_out),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
