/* Every preset's graph, built in double: its gradients, to every parameter and every input, against finite
 * differences. */
#include "testing.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"
#include "model/presets/preset.h"

enum { N = 5, N_VECTORS = 3, DIM = 4, N_DENSE = 3, N_TASKS = 2 };

typedef struct inputs {
    bool dense, vectors, linear;
} inputs;

static rk_graph *build(const rk_model_section *section, inputs given, rk_preset_inputs *out,
                       rk_value *logits) {
    const rk_preset *preset = rk_preset_of(section->kind);
    static const rk_preset_feature features[N_VECTORS] = {{"a", 0, DIM, 0, 0}, {"b", DIM, 2 * DIM, 2, 0}};
    rk_preset_inputs in = {.dense = -1,
                           .vectors = -1,
                           .vector_rows = -1,
                           .linear = -1,
                           .lengths = -1,
                           .n_vectors = N_VECTORS,
                           .dim = DIM,
                           .n_tasks = preset->one_task ? 1 : N_TASKS,
                           .dtype = RK_F32,
                           .features = features,
                           .n_features = 2};
    rk_graph *graph;
    OK(rk_graph_create(3, &graph));
    if (given.dense) in.dense = rk_graph_add_input(graph, "dense", (rk_shape){1, N_DENSE});
    if (given.vectors && preset->vectors)
        in.vectors = rk_graph_add_input(graph, "vectors", (rk_shape){1, N_VECTORS * DIM});
    if (in.vectors >= 0 && preset->equal_dims) in.vector_rows = rk_reshape(graph, in.vectors, N_VECTORS, DIM);
    if (given.linear && preset->linear)
        in.linear = rk_graph_add_input(graph, "linear", (rk_shape){1, N_VECTORS});
    if (preset->lengths) in.lengths = rk_graph_add_input(graph, "lengths", (rk_shape){1, 1});
    *logits = preset->build(graph, section, &in);
    rk_graph_mark_output(graph, *logits);
    rk_graph_retain_values(graph);
    OK(rk_graph_finish(graph, N, true));
    *out = in;
    return graph;
}

static void fill(rk_real *values, int64_t n, uint64_t stream) {
    rk_rng rng = {11, stream, 0};
    for (int64_t i = 0; i < n; i++) values[i] = 0.7 * rk_rng_normal(&rng);
}

/* What is differentiated: the logits' sum with fixed coefficients. */
static double objective(rk_graph *graph, rk_value logits) {
    rk_rng rng = {12, 0, 0};
    double sum = 0;
    OK(rk_graph_forward(graph, N, true, 1, NULL));
    for (int64_t i = 0; i < N * rk_graph_shape(graph, logits).cols; i++)
        sum += rk_rng_normal(&rng) * rk_graph_data(graph, logits)[i];
    return sum;
}

static void check(const char *what, rk_graph *graph, rk_value logits, rk_real *values,
                  const rk_real *gradient, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        rk_real kept = values[i];
        values[i] = kept + 1e-5;
        double above = objective(graph, logits);
        values[i] = kept - 1e-5;
        double below = objective(graph, logits);
        values[i] = kept;
        double wanted = (above - below) / 2e-5;
        if (!(fabs(gradient[i] - wanted) <= 1e-6 * (1 + fabs(wanted))))
            fail_msg("%s[%d]: %.12g, not %.12g", what, (int)i, gradient[i], wanted);
    }
}

static void check_input(const char *what, rk_graph *graph, rk_value logits, rk_value input) {
    if (input < 0) return;
    int64_t n = N * rk_graph_shape(graph, input).cols;
    rk_real *gradient;
    OK(rk_alloc((size_t)n, sizeof *gradient, &gradient)); /* the next forward may use its place */
    memcpy(gradient, rk_graph_gradient(graph, input), (size_t)n * sizeof *gradient);
    check(what, graph, logits, rk_graph_data(graph, input), gradient, n);
    rk_free(gradient);
}

static void gradients(rk_graph *graph, rk_value logits) {
    rk_rng rng = {12, 0, 0};
    objective(graph, logits);
    for (int64_t i = 0; i < N * rk_graph_shape(graph, logits).cols; i++)
        rk_graph_gradient(graph, logits)[i] = rk_rng_normal(&rng);
    OK(rk_graph_backward(graph, N));
}

static void check_case(rk_model_section section, inputs given) {
    rk_preset_inputs in;
    rk_value logits;
    rk_graph *graph = build(&section, given, &in, &logits);
    const rk_value all[] = {in.dense, in.vectors, in.linear};
    const char *const names[] = {"dense", "vectors", "linear"};
    for (int i = 0; i < 3; i++)
        if (all[i] >= 0)
            fill(rk_graph_data(graph, all[i]), N * rk_graph_shape(graph, all[i]).cols, (uint64_t)i);
    for (int64_t i = 0; i < N && in.lengths >= 0; i++) rk_graph_data(graph, in.lengths)[i] = (rk_real)(i % 3);
    for (int32_t p = 0; p < rk_graph_n_parameters(graph); p++) { /* biases too, which begin at zero */
        rk_parameter *parameter = rk_graph_parameter(graph, p);
        fill(parameter->value, parameter->rows * parameter->cols, 10 + (uint64_t)p);
    }
    for (int i = 0; i < 3; i++) {
        gradients(graph, logits);
        check_input(names[i], graph, logits, all[i]);
    }
    for (int32_t p = 0; p < rk_graph_n_parameters(graph); p++) {
        rk_parameter *parameter = rk_graph_parameter(graph, p);
        gradients(graph, logits);
        check(parameter->name, graph, logits, parameter->value, parameter->gradient,
              parameter->rows * parameter->cols);
    }
    rk_graph_free(graph);
}

static int kind_of(const char *name) {
    int kind = 0;
    while (strcmp(rk_preset_of(kind)->name, name) != 0) kind++;
    return kind;
}

/* Shapes and keys beside the defaults; `base` is smooth, but masks and interacting layers have relu in them,
 * whose kinks the fixed values are not near. */
static void check_ranking_models(rk_model_section base) {
    static int64_t cin[] = {3, 2}, deep2[] = {5, 6}, gate_deep[] = {3};
    static const inputs every = {true, true, true};
    char first[] = "a", second[] = "b", *context[] = {first}, *context2[] = {second};
    rk_model_section s = base;
    s.kind = kind_of("xdeepfm");
    s.cin = cin;
    s.n_cin = 2;
    check_case(s, every);
    s = base;
    s.kind = kind_of("autoint");
    s.attention_layers = 2;
    s.attention_heads = 3;
    s.attention_dim = 2;
    check_case(s, every);
    s.n_deep = 0;
    check_case(s, every);
    s = base;
    s.kind = kind_of("final_mlp");
    s.deep2 = deep2;
    s.n_deep2 = 2;
    s.fusion_heads = 3;
    s.dropout2 = 0.3;
    s.gate_context2 = context2;
    s.n_gate_context2 = 1;
    s.gate_deep = gate_deep;
    s.n_gate_deep = 1;
    check_case(s, every);
    s.gate_context = context;
    s.n_gate_context = 1;
    check_case(s, every);
    s = base;
    s.kind = kind_of("masknet");
    s.reduction_ratio = 1.5;
    check_case(s, every);
    s.structure = RK_STRUCTURE_STACKED;
    check_case(s, every);
    s.n_deep = 0;
    check_case(s, every);
    s = base;
    s.kind = kind_of("din");
    s.attention_softmax = true;
    check_case(s, every);
}

static void test_all(void **state) {
    (void)state;
    static int64_t deep[] = {4, 3}, bottom[] = {5, 0}, one_layer[] = {3}, cin[] = {3}, blocks[] = {4, 5};
    static rk_attention_pair pair[] = {{(char *)(size_t) "a", (char *)(size_t) "b"}};
    static char smooth[] = "tanh", gelu[] = "gelu"; /* no kinks between the two sides of a difference */
    static const inputs every = {true, true, true}, no_dense = {false, true, true},
                        dense_only = {true, false, false};
    rk_model_section base = {.cross_kind = -1,
                             .structure = -1,
                             .activation = smooth,
                             .deep = deep,
                             .n_deep = 2,
                             .linear_l2 = NAN,
                             .linear_l2_full = NAN,
                             .dropout2 = NAN,
                             .gates = true,
                             .cin = cin,
                             .n_cin = 1,
                             .attention_layers = 1,
                             .attention_dim = 3,
                             .mask_blocks = blocks,
                             .n_mask_blocks = 2,
                             .attention = pair,
                             .n_attention = 1,
                             .attention_deep = deep,
                             .n_attention_deep = 2};
    base.expert_units = base.towers = deep;
    base.n_expert_units = base.n_towers = 2;
    for (int kind = 0; rk_preset_of(kind); kind++) {
        base.kind = kind;
        check_case(base, every);
        check_case(base, no_dense);
        if (!rk_preset_of(kind)->needs_features) check_case(base, dense_only);
    }
    rk_model_section s = base;
    s.kind = kind_of("dnn");
    s.activation = gelu;
    s.batch_norm = true;
    s.dropout = 0.4;
    check_case(s, every);
    s = base;
    s.kind = kind_of("dlrm");
    s.bottom = bottom;
    s.n_bottom = 2;
    check_case(s, every);
    for (int structure = RK_STRUCTURE_PARALLEL; structure <= RK_STRUCTURE_STACKED; structure++) {
        s = base;
        s.structure = structure;
        s.cross_layers = 2;
        s.kind = kind_of("dcn");
        check_case(s, every);
        s.kind = kind_of("dcn_v2");
        s.cross_rank = 3;
        for (s.cross_kind = RK_CROSS_FULL; s.cross_kind <= RK_CROSS_MIXTURE; s.cross_kind++)
            check_case(s, every);
        s.cross_kind = RK_CROSS_MIXTURE;
        s.cross_experts = 1;
        s.bottom = bottom;
        s.n_bottom = 2;
        check_case(s, every);
    }
    for (int layers = 1; layers <= 2; layers++) {
        s = base;
        s.expert_units = s.towers = layers == 1 ? one_layer : deep;
        s.n_expert_units = s.n_towers = layers;
        s.kind = kind_of("mmoe");
        s.experts = layers == 1 ? 1 : 3;
        check_case(s, every);
        s.experts = 0;
        s.kind = kind_of("ple");
        s.task_experts = 2;
        s.shared_experts = 3 - layers;
        for (s.levels = 1; s.levels <= 3; s.levels++) check_case(s, every);
        s.levels = 2;
        s.batch_norm = true;
        s.dropout = 0.3;
        check_case(s, every);
    }
    check_ranking_models(base);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
