/* Models written out as graphs: every preset trains to the same bits as its own graph; what is drawn. */
#include "fixture.h"

#include "model/section/graph_section.h"

enum { MAX_TEXT = 1 << 16 };

static void graph_text(const fixture *f, char **out) {
    OK(rk_model_graph_text(&f->options, false, out));
}

/* The state and predictions after some steps. */
static char *trained(const fixture *f, int32_t n_tasks, size_t *n_bytes) {
    static drawn_batch b;
    rk_model *model;
    double loss;
    float predictions[60 * MAX_TASKS];
    OK(rk_model_build(&f->options, &model));
    for (uint64_t i = 0; i < 4; i++) {
        draw_batch(&b, i, 60, n_tasks);
        OK(rk_model_train(model, &b.batch, &loss));
    }
    OK(rk_model_predict(model, &b.batch, predictions));
    char *state = copy_state(model, n_bytes), *all;
    OK(rk_alloc(*n_bytes + sizeof predictions, 1, &all));
    memcpy(all, state, *n_bytes);
    memcpy(all + *n_bytes, predictions, sizeof(float) * 60 * (size_t)n_tasks);
    *n_bytes += sizeof(float) * 60 * (size_t)n_tasks;
    rk_free(state);
    rk_model_free(model);
    return all;
}

/* A third task, whose probability is that of the first and the second. */
static void make_product(fixture *f) {
    static char click[] = "click", rating[] = "rating", *factors[] = {click, rating};
    f->tasks[1].loss = 0;
    f->tasks[2] =
        (rk_label_section){.name = (char *)"bought", .weight = 1, .product_of = factors, .n_product_of = 2};
}

/* The case, and the same with the `model:` that it writes out: the same bits, and the same text once more. */
static void check_case(const usual_case *c, rk_dtype dtype) {
    static char text[MAX_TEXT];
    fixture f, g;
    char *graph, *again;
    size_t n_wanted, n_got;
    usual_init(&f, c);
    f.options.dtype = dtype;
    graph_text(&f, &graph);
    const char *embedding = strstr(c->text, "embedding:");
    snprintf(text, sizeof text, "%s%s", graph, embedding);
    fixture_init(&g, text, usual_features, N_USUAL, N_USUAL_DENSE, c->n_tasks);
    g.options.dtype = dtype;
    char *wanted = trained(&f, c->n_tasks, &n_wanted), *got = trained(&g, c->n_tasks, &n_got);
    if (n_got != n_wanted || memcmp(got, wanted, n_wanted) != 0)
        fail_msg("another model than '%s':\n%s", c->text, graph);
    graph_text(&g, &again);
    assert_string_equal(again, graph);
    rk_free(graph);
    rk_free(again);
    rk_free(wanted);
    rk_free(got);
    fixture_release(&f);
    fixture_release(&g);
}

static void test_presets(void **state) {
    (void)state;
    for (int kind = 0; rk_preset_of(kind); kind++) {
        char text[256];
        const rk_preset *preset = rk_preset_of(kind);
        if (preset->pairs) continue;
        const char *pairs = kind == RK_KIND_din ? ", attention: [{target: item, history: history}]" : "";
        const char *layers = preset->keys & RK_KEYS_DEEP     ? ", deep: [8, 6], dropout: 0.3"
                             : preset->keys & RK_KEYS_TOWERS ? ", dropout: 0.3"
                                                             : ""; /* dropout's masks, too */
        snprintf(text, sizeof text,
                 "model: {kind: %s%s%s}\nembedding: {dim: 4, features: [{name: history, table: item, "
                 "max_sequence_length: 3}, {name: item}]}",
                 preset->name, pairs, layers);
        check_case(&(usual_case){text, preset->one_task ? 1 : 2}, kind % 2 ? RK_BF16 : RK_F32);
    }
    for (int c = 0; c < N_USUAL_CASES; c++) check_case(&usual_cases[c], c % 2 ? RK_F32 : RK_BF16);
    assert_int_equal(rk_alloc_live(), 0);
}

/* What belongs to the labels stands beside the layers. */
static void test_tasks(void **state) {
    (void)state;
    static const char embedding[] = "\nembedding: {dim: 4}";
    static const char *const layers =
        "model: {kind: graph, layers: [{name: y, op: linear, inputs: [vectors], units: 2}]}\nembedding: "
        "{dim: 4}";
    for (int learns = 0; learns < 2; learns++) {
        char text[MAX_TEXT];
        fixture f, g;
        char *graph;
        size_t n_wanted, n_got;
        snprintf(text, sizeof text,
                 "model: {kind: mmoe, experts: 2, expert_units: [6], towers: [4], task_weights: %s}%s",
                 learns ? "uncertainty" : "fixed", embedding);
        fixture_init(&f, text, usual_features, N_USUAL, N_USUAL_DENSE, 3);
        make_product(&f);
        graph_text(&f, &graph);
        assert_true(!strstr(graph, "product_logit") && !strstr(graph, "log_variances") &&
                    (strstr(graph, "task_weights: uncertainty") != NULL) == learns);
        snprintf(text, sizeof text, "%s%s", graph, embedding);
        fixture_init(&g, text, usual_features, N_USUAL, N_USUAL_DENSE, 3);
        make_product(&g);
        char *wanted = trained(&f, 3, &n_wanted), *got = trained(&g, 3, &n_got);
        if (n_got != n_wanted || memcmp(got, wanted, n_wanted) != 0) fail_msg("another model:\n%s", graph);
        rk_free(graph);
        rk_free(wanted);
        rk_free(got);
        fixture_release(&f);
        fixture_release(&g);
    }
    fixture f;
    rk_model *model;
    fixture_init(&f, layers, usual_features, N_USUAL, N_USUAL_DENSE, 3);
    make_product(&f);
    OK(rk_model_build(&f.options, &model));
    rk_model_free(model);
    f.tasks[2] = (rk_label_section){.name = (char *)"bought", .weight = 1};
    FAILS(rk_model_build(&f.options, &model), RK_CONFIG,
          "run.yaml:1: the outputs have 2 logits a sample, but there are 3 labels\nhint: a linear layer of 3 "
          "units makes one logit a label");
    fixture_release(&f);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Which no layers stand for; it is drawn all the same. */
static void test_pairs(void **state) {
    (void)state;
    fixture f;
    char *text;
    fixture_init(&f, "model:\n  kind: two_tower\n  retrieval: {user: user, item: item}\nembedding: {dim: 4}",
                 usual_features, N_USUAL, 0, 0);
    FAILS(rk_model_graph_text(&f.options, false, &text), RK_CONFIG,
          "run.yaml:2: key 'kind': model 'two_tower' cannot be written as layers\nhint: 'reckon inspect "
          "--dot' draws it");
    OK(rk_model_graph_text(&f.options, true, &text));
    assert_true(strstr(text, "user_vector") && strstr(text, "item_vector") && strstr(text, ">softmax<"));
    rk_free(text);
    fixture_release(&f);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Layers that read `train.dtype` follow it, and those that a preset keeps in f32 stay there. */
static void test_dtype(void **state) {
    (void)state;
    fixture f;
    char *text;
    fixture_init(&f, "model: {kind: dnn, deep: [8]}\nembedding: {dim: 4}", usual_features, 2, 0, 1);
    graph_text(&f, &text);
    assert_string_equal(text,
                        "model:\n"
                        "  kind: graph\n"
                        "  layers:\n"
                        "    - {name: deep/linear_0, op: linear, inputs: vectors, units: 8, relu: true}\n"
                        "    - {name: logits, op: linear, inputs: deep/linear_0, units: 1, dtype: f32}\n"
                        "  outputs: [logits]\n");
    rk_free(text);
    fixture_release(&f);
}

static void bytes_of(const char *model, int32_t n_tasks, char **out, size_t *n) {
    char text[2048];
    fixture f;
    snprintf(text, sizeof text,
             "%s\nembedding: {dim: 4, features: [{name: history, table: item, max_sequence_length: 3}, "
             "{name: item}, {name: user, table: item}]}",
             model);
    fixture_init(&f, text, usual_features, N_USUAL, N_USUAL_DENSE, n_tasks);
    *out = trained(&f, n_tasks, n);
    fixture_release(&f);
}

static void same_models(const char *a, const char *b, int32_t n_tasks) {
    char *x, *y;
    size_t n_x, n_y;
    bytes_of(a, n_tasks, &x, &n_x);
    bytes_of(b, n_tasks, &y, &n_y);
    if (n_x != n_y || memcmp(x, y, n_x) != 0) fail_msg("these are not the same models:\n%s\n%s", a, b);
    rk_free(x);
    rk_free(y);
}

/* What stands for several operations, and single features, are what they say. */
static void test_conveniences(void **state) {
    (void)state;
    same_models(
        "model: {kind: graph, layers: [{name: x, op: concat, inputs: [vectors, dense]}, {name: deep, op: "
        "mlp, inputs: x, units: [8, 4], dropout: 0.2, activation: tanh},\n"
        "  {name: logits, op: linear, inputs: deep, units: 2, dtype: f32}]}",
        "model: {kind: dnn, deep: [8, 4], dropout: 0.2, activation: tanh}", 2);
    same_models(
        "model: {kind: graph, layers: [{name: c, op: cross, inputs: [dense, dense], rank: 2}, {name: y, op: "
        "linear, inputs: [c], units: 1}]}",
        "model: {kind: graph, layers: [{name: c/v, op: linear, inputs: dense, units: 2, bias: false}, {name: "
        "c/u, op: linear, inputs: c/v, units: 3},\n"
        "  {name: c, op: cross_combine, inputs: [dense, c/u, dense]}, {name: y, op: linear, inputs: [c], "
        "units: 1}]}",
        1);
    same_models(
        "model: {kind: graph, layers: [{name: x, op: concat, inputs: [dense, feature:history, user, tags, "
        "item, history]}, {name: y, op: linear, inputs: x, units: 1}]}",
        "model: {kind: graph, layers: [{name: h, op: slice, inputs: vectors, first: 12, count: 12}, {name: "
        "u, op: slice, inputs: vectors, count: 4},\n"
        "  {name: t, op: slice, inputs: vectors, first: 4, count: 4}, {name: i, op: slice, inputs: vectors, "
        "first: 8, count: 4}, {name: x, op: concat,\n"
        "  inputs: [dense, h, u, t, i, h]}, {name: y, op: linear, inputs: x, units: 1}]}",
        1);
    same_models(
        "model: {kind: graph, outputs: [b, a], layers: [{name: a, op: linear, inputs: dense, units: 1}, "
        "{name: b, op: linear, inputs: vectors, units: 1}]}",
        "model: {kind: graph, layers: [{name: a, op: linear, inputs: dense, units: 1}, {name: b, op: linear, "
        "inputs: vectors, units: 1},\n"
        "  {name: y, op: concat, inputs: [b, a]}]}",
        2);
    assert_int_equal(rk_alloc_live(), 0);
}

static bool has_graphviz(void) {
    return system("command -v dot >/dev/null 2>&1") == 0;
}

/* Graphviz takes what is drawn, of every usual model, whatever the names. */
static void test_drawn(void **state) {
    (void)state;
    rk_data_feature_info odd[N_USUAL];
    memcpy(odd, usual_features, sizeof odd);
    odd[0].name = "<b>\"us&er\\";
    for (int c = 0; c < N_USUAL_CASES; c++) {
        fixture f;
        char *text;
        bool named = strstr(usual_cases[c].text, "user") != NULL;
        fixture_init(&f, usual_cases[c].text, named ? usual_features : odd, N_USUAL, N_USUAL_DENSE,
                     usual_cases[c].n_tasks);
        OK(rk_model_graph_text(&f.options, true, &text));
        assert_non_null(strstr(text, "digraph model {"));
        assert_non_null(strstr(text, "<b>linear</b>"));
        if (has_graphviz()) {
            FILE *dot = popen("dot -Tsvg >/dev/null 2>/dev/null", "w");
            assert_non_null(dot);
            fputs(text, dot);
            if (pclose(dot) != 0) fail_msg("graphviz refuses:\n%s", text);
        }
        rk_free(text);
        fixture_release(&f);
    }
    if (!has_graphviz()) print_message("graphviz is not installed: nothing was rendered\n");
    assert_int_equal(rk_alloc_live(), 0);
}

static rk_status write_and_build(const fixture *f) {
    char *text = NULL, *drawn = NULL;
    rk_model *model = NULL;
    rk_status status = rk_model_graph_text(&f->options, false, &text);
    if (status == RK_OK) status = rk_model_graph_text(&f->options, true, &drawn);
    if (status == RK_OK) status = rk_model_build(&f->options, &model);
    rk_free(text);
    rk_free(drawn);
    rk_model_free(model);
    return status;
}

static void test_no_memory(void **state) {
    (void)state;
    fixture f;
    fixture_init(
        &f,
        "model: {kind: graph, outputs: [y, z], layers: [{name: x, op: concat, inputs: [user, history, "
        "dense]}, {name: d, op: mlp, inputs: x, units: 4},\n"
        "  {name: y, op: linear, inputs: d, units: 1}, {name: z, op: linear, inputs: linear, units: 1}]}\n"
        "embedding: {dim: 4, features: [{name: history, table: item, max_sequence_length: 3}]}",
        usual_features, N_USUAL, N_USUAL_DENSE, 2);
    long before = rk_alloc_live();
    rk_status status;
    int n = 0;
    do {
        rk_alloc_fail_after(++n, true);
        status = write_and_build(&f);
        rk_alloc_fail_after(0, false);
        if (status != RK_OK && status != RK_NO_MEMORY) fail_msg("allocation %d: %s", n, rk_last_error());
        assert_int_equal(rk_alloc_live(), before);
    } while (status != RK_OK);
    assert_true(n > 50);
    fixture_release(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets),   cmocka_unit_test(test_tasks),        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_dtype),     cmocka_unit_test(test_conveniences), cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
