/* From a graph to the layers of a run file. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "model/section/graph_section.h"
#include "nn/graph/op.h"

typedef struct writer {
    const rk_graph *graph;
    bool *needed;             /* [nodes]: the logits follow from it */
    rk_layer_section *layers; /* [n_layers]; their texts are the graph's */
    int64_t n_layers;
    int64_t *units; /* [nodes]: what layers point to */
    char **inputs;  /* [all nodes' inputs, and the output]: likewise */
    int64_t n_inputs;
} writer;

/* Made by the reader without a layer: the graph's inputs, vectors by rows, and single features. */
static bool is_implied_node(const rk_node *node) {
    return !node->op || rk_graph_input_from_name(node->name) >= 0 ||
           strncmp(node->name, RK_FEATURE_PREFIX, sizeof RK_FEATURE_PREFIX - 1) == 0;
}

static bool is_outputs_concat(const rk_node *node) {
    return strcmp(node->name, RK_OUTPUTS_NAME) == 0;
}

static int layer_op_of_node_op(const rk_op *op) {
    int number = 0;
    while (strcmp(rk_layer_ops[number], op->name) != 0) number++;
    return number;
}

static void append_input_names(writer *w, const rk_node *node) {
    for (int32_t k = 0; k < node->n_inputs; k++)
        w->inputs[w->n_inputs++] = rk_graph_node(w->graph, node->inputs[k])->name;
}

static rk_layer_section layer_of_node(const rk_node *node) {
    const rk_op_options *o = &node->options;
    const rk_initializer *i = &o->initializer;
    bool stays_f32 = (node->op->options & RK_OPTION_dtype) && o->dtype == RK_F32;
    return (rk_layer_section){
        .line = 1,
        .name = node->name,
        .op = layer_op_of_node_op(node->op),
        .by_row = o->by_row,
        .bias = !o->no_bias,
        .relu = o->relu,
        .softmax = o->softmax,
        .dtype = stays_f32 ? 0 : -1,
        .rate = o->rate,
        .epsilon = o->epsilon,
        .momentum = o->momentum,
        .first = o->first,
        .count = o->count,
        .rows = o->rows,
        .cols = o->cols,
        .initializer = {o->has_initializer, (int)i->kind, i->mean, i->stddev, i->min, i->max, i->value}};
}

static void append_layer(writer *w, const rk_node *node) {
    rk_layer_section *l = &w->layers[w->n_layers];
    *l = layer_of_node(node);
    int64_t *units = &w->units[w->n_layers++];
    *units = node->options.units;
    l->units = *units > 0 ? units : NULL;
    l->n_units = *units > 0;
    l->inputs = node->n_inputs ? w->inputs + w->n_inputs : NULL;
    l->n_inputs = node->n_inputs;
    append_input_names(w, node);
}

static rk_status allocate_layers(writer *w) {
    size_t n = (size_t)rk_graph_n_values(w->graph), n_inputs = 0;
    for (size_t i = 0; i < n; i++) n_inputs += (size_t)rk_graph_node(w->graph, (rk_value)i)->n_inputs;
    n_inputs++; /* the output */
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, w->needed), RK_ARRAY(n, w->layers), RK_ARRAY(n, w->units)));
    return rk_alloc(n_inputs, sizeof *w->inputs, &w->inputs);
}

static rk_status write_layers(writer *w, rk_value logits, const rk_model_section *section, rk_buffer *out) {
    RK_TRY(allocate_layers(w));
    rk_graph_mark_ancestors(w->graph, logits, w->needed);
    for (rk_value v = 0; v <= logits; v++) {
        const rk_node *node = rk_graph_node(w->graph, v);
        if (w->needed[v] && !is_implied_node(node) && !is_outputs_concat(node)) append_layer(w, node);
    }
    const rk_node *last = rk_graph_node(w->graph, logits);
    rk_model_section graph = {
        .kind = RK_KIND_GRAPH,
        .layers = w->layers,
        .n_layers = w->n_layers,
        .outputs = w->inputs + w->n_inputs,
        .n_outputs = is_outputs_concat(last) ? last->n_inputs : 1,
        .task_weights = section->task_weights == RK_TASK_WEIGHTS_FIXED
                            ? -1
                            : section->task_weights, /* left out where it is the default */
        .linear_l2 = section->linear_l2,
        .linear_l2_full = section->linear_l2_full};
    if (is_outputs_concat(last))
        append_input_names(w, last);
    else
        graph.outputs[0] = last->name;
    rk_buffer_append_text(out, "model:\n");
    rk_schema_emit(&rk_graph_schema, &graph, 2, out);
    return out->status;
}

rk_status rk_graph_section_write(const rk_graph *graph, rk_value logits, const rk_model_section *section,
                                 rk_buffer *out) {
    writer w = {.graph = graph};
    rk_status status = write_layers(&w, logits, section, out);
    RK_FREE_ALL(w.needed, w.layers, w.units, w.inputs);
    return status;
}
