/* The layers of a graph: the tables that they want, what one takes, what is refused. */
#include "fixture.h"

#include "embedding/local/collection.h"
#include "model/section/graph_section.h"
#include "nn/graph/op.h"

/* Tables are made for what the layers read, and for nothing else. */
static void test_wants(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int32_t n_tables;
    } cases[] = {
        {"model: {kind: graph, layers: [{name: y, op: linear, inputs: dense, units: 1}]}", 0},
        {"model: {kind: graph, layers: [{name: x, op: concat, inputs: [user, item]}, {name: y, op: linear, "
         "inputs: x, units: 1}]}",
         2},
        {"model: {kind: graph, layers: [{name: x, op: concat, inputs: [user, vectors]}, {name: y, op: "
         "linear, inputs: x, units: 1}]}",
         4},
        {"model: {kind: graph, linear_l2: 0.1, layers: [{name: x, op: sum_all, inputs: linear}]}", 4},
        {"model: {kind: graph, layers: [{name: x, op: fm, inputs: vector_rows}, {name: l, op: sum_all, "
         "inputs: linear}, {name: y, op: add, inputs: [x, l]}]}",
         8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture f;
        rk_model *model;
        fixture_init(&f, cases[i].text, usual_features, N_USUAL, N_USUAL_DENSE, 1);
        OK(rk_model_build(&f.options, &model));
        rk_embeddings *e = rk_model_embeddings(model);
        assert_int_equal(e ? rk_embeddings_n_tables(e) : 0, cases[i].n_tables);
        rk_model_free(model);
        fixture_release(&f);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

#define LAYERS(text) "model:\n  kind: graph\n  layers:\n" text
static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
        int32_t n_tasks;
    } cases[] = {
        {"model: {kind: graph}",
         "run.yaml:1: key 'model': model 'graph' needs 'layers'\nhint: 'reckon inspect --graph' prints any "
         "model as layers, to begin with",
         1},
        {LAYERS("  - {name: y, op: linear, inputs: dense, units: 1, rate: 0.5}"),
         "run.yaml:4: key 'rate': operation 'linear' does not use 'rate'\nhint: it takes units, by_row, "
         "bias, relu, dtype, initializer",
         1},
        {LAYERS("  - {name: y, op: relu, inputs: dense, units: 3}"),
         "run.yaml:4: key 'units': operation 'relu' does not use 'units'\nhint: it takes no options", 1},
        {LAYERS("  - {name: y, op: mlp, inputs: dense}"), "run.yaml:4: operation 'mlp' needs 'units'", 1},
        {LAYERS("  - {name: y, op: linear, inputs: dense, units: [3, 4]}"),
         "run.yaml:4: key 'units': operation 'linear' takes one number as 'units'", 1},
        {LAYERS("  - {name: y, op: linear, inputs: dense}"),
         "run.yaml:4: node 'y' (linear): 'units' must be 1 or more, not 0", 1},
        {LAYERS("  - {name: y, op: linear, inputs: [dense, vectors], units: 1}"),
         "run.yaml:4: key 'inputs': operation 'linear' does not take 2 inputs\nhint: it takes 1", 1},
        {LAYERS("  - {name: y, op: concat}"),
         "run.yaml:4: operation 'concat' does not take 0 inputs\nhint: it takes 1 or more", 1},
        {LAYERS("  - {name: y, op: linear, inputs: dens, units: 1}"),
         "run.yaml:4: key 'inputs': there is no layer or categorical feature 'dens'\nhint: did you mean "
         "'dense'?",
         1},
        {LAYERS("  - {name: y, op: linear, inputs: feature:usr, units: 1}"),
         "run.yaml:4: key 'inputs': there is no layer or categorical feature 'usr'\nhint: did you mean "
         "'user'?",
         1},
        {LAYERS("  - {name: y, op: linear, inputs: nothing_like_it, units: 1}"),
         "run.yaml:4: key 'inputs': there is no layer or categorical feature 'nothing_like_it'\n"
         "hint: inputs are layers above, dense, vectors, vector_rows, linear, lengths, and the data's "
         "categorical features",
         1},
        {LAYERS("  - {name: a, op: relu, inputs: b}\n  - {name: b, op: relu, inputs: a}"),
         "run.yaml:4: key 'inputs': layer 'b' is defined further below\nhint: a layer reads those above it; "
         "for the feature of this name write 'feature:b'",
         1},
        {LAYERS("  - {name: a, op: relu, inputs: a}"),
         "run.yaml:4: key 'inputs': layer 'a' reads itself\nhint: a layer reads those above it; for the "
         "feature of this name write 'feature:a'",
         1},
        {LAYERS("  - {name: a, op: relu, inputs: dense}\n  - {name: a, op: relu, inputs: a}"),
         "run.yaml:5: key 'name': duplicate layer name 'a'", 1},
        {LAYERS("  - {name: a, op: relu, inputs: dense}\n  - {name: y, op: linear, inputs: dense, units: 1}"),
         "run.yaml:4: key 'name': nothing uses the layer 'a'\nhint: add it to the 'inputs' of a layer below "
         "or to 'outputs', or remove it",
         1},
        {LAYERS("  - {name: logits, op: relu, inputs: dense}\n  outputs: [logit]"),
         "run.yaml:5: key 'outputs': there is no layer 'logit'\nhint: did you mean 'logits'?", 1},
        {LAYERS("  - {name: dense, op: relu, inputs: dense}"),
         "run.yaml:4: key 'name': the layer name 'dense' is reserved", 1},
        {LAYERS("  - {name: 'a:b', op: relu, inputs: dense}"),
         "run.yaml:4: key 'name': a layer's name must be text without ':', not 'a:b'", 1},
        {LAYERS("  - {name: y, op: cross_combine, inputs: [dense, vectors, dense]}"),
         "run.yaml:4: node 'y' (cross_combine): the inputs must have the same shape, not [1, 3] and [1, 16]",
         1},
        {LAYERS("  - {name: y, op: mlp, inputs: dense, units: 3, activation: gelo}"),
         "run.yaml:4: unknown activation 'gelo'\nhint: it is one of relu, gelu, sigmoid, tanh, softmax, none",
         1},
        {LAYERS("  - {name: y, op: linear, inputs: dense, units: 1}"),
         "run.yaml:4: the outputs have 1 logits a sample, but there are 2 labels\nhint: a linear layer of 2 "
         "units makes one logit a label",
         2},
        {LAYERS("  - {name: task_log_variances, op: relu, inputs: dense}"),
         "run.yaml:4: key 'name': the layer name 'task_log_variances' is reserved", 1},
        {LAYERS("  - {name: y, op: gate, inputs: [dense, dense, dense]}"),
         "run.yaml:4: key 'inputs': operation 'gate' does not take 3 inputs\nhint: it takes 1 to 2", 1},
        {LAYERS("  - {name: y, op: constant, inputs: dense, units: 1}"),
         "run.yaml:4: node 'y' (constant): takes no inputs", 1},
        {LAYERS("  - {name: y, op: sum_all, inputs: lengths}"),
         "run.yaml:4: key 'inputs': 'lengths': none of the features that the layers read is a "
         "sequence\nhint: a sequence has a max_sequence_length in embedding.features",
         1},
        {LAYERS("  - {name: y, op: reshape, inputs: dense, rows: 2}"),
         "run.yaml:4: node 'y' (reshape): 3 values a sample cannot be reshaped to [2, 1]", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture f;
        rk_model *model = NULL;
        char text[2048];
        snprintf(text, sizeof text, "%s\nembedding: {dim: 4}", cases[i].text);
        fixture_init(&f, text, usual_features, N_USUAL, N_USUAL_DENSE, cases[i].n_tasks);
        FAILS(rk_model_build(&f.options, &model), RK_CONFIG, cases[i].message);
        fixture_release(&f);
    }
    fixture f;
    rk_model *model;
    fixture_init(&f, "model: {kind: graph, layers: [{name: y, op: linear, inputs: dense, units: 1}]}",
                 usual_features, 1, 0, 1);
    FAILS(rk_model_build(&f.options, &model), RK_CONFIG,
          "run.yaml:1: key 'inputs': 'dense': the data has no dense features");
    fixture_release(&f);
    assert_int_equal(rk_alloc_live(), 0);
}

static const struct option {
    const char *text;
    unsigned bit;
} options[] = {
    {"units: 3", RK_OPTION_units},
    {"by_row: true", RK_OPTION_by_row},
    {"bias: false", RK_OPTION_no_bias},
    {"relu: true", RK_OPTION_relu},
    {"softmax: true", RK_OPTION_softmax},
    {"dtype: f32", RK_OPTION_dtype},
    {"rate: 0.25", RK_OPTION_rate},
    {"epsilon: 0.5", RK_OPTION_epsilon},
    {"momentum: 0.5", RK_OPTION_momentum},
    {"first: 1", RK_OPTION_first},
    {"count: 3", RK_OPTION_count},
    {"rows: 3", RK_OPTION_rows},
    {"cols: 3", RK_OPTION_cols},
    {"initializer: {kind: uniform, min: -0.5, max: 0.25}", RK_OPTION_initializer},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

/* A layer of three numbers, with what it needs beside the option. */
static void option_text(int op, const struct option *option, char *text, size_t n_bytes) {
    static const char *const inputs[] = {"", "dense", "dense, dense", "dense, dense, dense"};
    const char *needs = "", *reads = op == RK_OP_attention_pool
                                         ? "w, dense, dense"
                                         : inputs[rk_op_find(rk_layer_ops[op])->min_inputs];
    if ((op == RK_OP_linear || op == RK_OP_cin) && option->bit != RK_OPTION_units) needs = ", units: 2";
    if (op == RK_OP_mask && option->bit != RK_OPTION_rows) needs = ", rows: 3";
    if (op == RK_OP_slice && option->bit != RK_OPTION_count) needs = ", count: 1";
    snprintf(text, n_bytes,
             "model: {kind: graph, layers: [{name: w, op: slice, inputs: dense, count: 1}, {name: y, op: %s, "
             "inputs: [%s], %s%s},\n"
             "  {name: x, op: concat, inputs: [w, y]}, {name: z, op: linear, inputs: x, units: 1}]}",
             rk_layer_ops[op], reads, option->text, needs);
}

static void check_option(int op, const struct option *option) {
    char text[512], *graph;
    fixture f;
    option_text(op, option, text, sizeof text);
    fixture_init(&f, text, usual_features, 0, N_USUAL_DENSE, 1);
    rk_status status = rk_model_graph_text(&f.options, false, &graph);
    if (rk_op_find(rk_layer_ops[op])->options & option->bit) {
        OK(status);
        if (!strstr(graph, option->text)) fail_msg("%s is not in\n%s", option->text, graph);
        rk_free(graph);
    } else {
        assert_int_equal(status, RK_CONFIG);
        assert_non_null(strstr(rk_last_error(), "does not use"));
    }
    fixture_release(&f);
}

/* Every operation: an option that it has is taken and written out again, one that it has not is refused. */
static void test_options(void **state) {
    (void)state;
    assert_int_equal(N_OPTIONS, RK_N_OP_OPTIONS);
    for (int op = 0; op < RK_LAYER_MLP; op++)
        for (int i = 0; i < N_OPTIONS; i++)
            if (op != RK_OP_dot_interaction)
                check_option(op, &options[i]); /* of one row: no pairs; it has no options */
    rk_graph *graph;
    OK(rk_graph_create(1, &graph));
    rk_value x = rk_graph_add_input(graph, "x", (rk_shape){1, 3});
    assert_int_equal(rk_graph_add_op(graph, "relu", NULL, &(rk_op_options){.rate = 0.5}, &x, 1), -1);
    FAILS(rk_graph_status(graph), RK_INVALID_ARGUMENT, "operation 'relu' has no option 'rate'");
    rk_graph_free(graph);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_written_out(void **state) {
    (void)state;
    static const char text[] =
        "model: {kind: graph, outputs: [y], layers: [{name: x, op: mlp, inputs: [dense], units: [3, 4], "
        "batch_norm: true}, {name: y, op: linear,\n"
        "  inputs: [x], units: 1, initializer: {kind: normal, stddev: 0.1}}]}";
    fixture f, g;
    rk_buffer once = {0}, twice = {0};
    fixture_init(&f, text, usual_features, 0, 3, 1);
    rk_buffer_append_text(&once, "model:\n");
    rk_schema_emit(&rk_model_schema, &f.model, 2, &once);
    assert_non_null(
        strstr(once.data,
               "  layers:\n    - {name: x, op: mlp, inputs: dense, units: [3, 4], batch_norm: true}\n"
               "    - {name: y, op: linear, inputs: x, units: 1, initializer: {kind: normal, stddev: 0.1}}\n "
               " outputs: [y]\n"));
    fixture_init(&g, once.data, usual_features, 0, 3, 1);
    OK(rk_model_section_check_keys(&g.model, &g.yaml));
    rk_buffer_append_text(&twice, "model:\n");
    rk_schema_emit(&rk_model_schema, &g.model, 2, &twice);
    assert_string_equal(twice.data, once.data);
    rk_buffer_release(&once);
    rk_buffer_release(&twice);
    fixture_release(&f);
    fixture_release(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wants),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_written_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
