/* A model's graph for graphviz: data at the top, one box an operation, shapes on the edges. Nodes named
 * "part/..." stand in a frame of their part. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text/text.h"
#include "model/section/graph_section.h"
#include "nn/graph/op.h"

enum { MAX_LISTED = 10 }; /* features of an input that are named */

static const char head[] =
    "digraph model {\n"
    "  graph [rankdir=TB, fontname=\"Helvetica\", nodesep=0.35, ranksep=0.45, margin=0.2, bgcolor=white]\n"
    "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11, margin=\"0.14,0.07\", "
    "penwidth=0.8, color=\"#5f6b7a\"]\n"
    "  edge [fontname=\"Helvetica\", fontsize=9, fontcolor=\"#5f6b7a\", color=\"#8a94a3\", arrowsize=0.6]\n";
static const char frame[] =
    "    style=rounded\n    color=\"#c3cad3\"\n    fontcolor=\"#5f6b7a\"\n    fontsize=10\n    labeljust=l\n "
    "   margin=12\n";
static const char data_color[] = "#fdf1d3", trained_color[] = "#d9e8fb", plain_color[] = "#f1f3f5",
                  task_color[] = "#dcf2e1";

typedef struct drawing {
    const rk_model *model;
    const rk_collection_config *collection;
    const rk_graph *graph;
    bool *needed; /* [nodes] */
    rk_buffer *out;
} drawing;

void rk_graph_mark_ancestors(const rk_graph *graph, rk_value last, bool *needed) {
    needed[last] = true;
    for (rk_value v = last; v >= 0; v--) {
        const rk_node *node = rk_graph_node(graph, v);
        for (int32_t k = 0; k < node->n_inputs && needed[v]; k++) needed[node->inputs[k]] = true;
    }
}

/* Of a label in graphviz's HTML. */
static void write_html_escaped(rk_buffer *out, const char *text) {
    for (const char *at = text; *at; at++) {
        if (*at == '<' || *at == '>' || *at == '&' || *at == '"')
            rk_buffer_printf(out, "&#%d;", *at);
        else
            rk_buffer_append_u8(out, (uint8_t)*at);
    }
}

static void write_tensor_shape(rk_buffer *out, rk_shape shape) {
    if (shape.rows == 1)
        rk_buffer_printf(out, "%d", shape.cols);
    else
        rk_buffer_printf(out, "%d × %d", shape.rows, shape.cols);
}

static void write_small_label(rk_buffer *out, const char *before, const char *text) {
    rk_buffer_printf(out, "%s<font point-size=\"9\" color=\"#5f6b7a\">", before);
    write_html_escaped(out, text);
    rk_buffer_append_text(out, "</font>");
}

/* One feature's part of an input, or how many are left unnamed. */
static void write_feature_label(const drawing *d, int32_t f) {
    const rk_table_config *table = &d->collection->tables[d->collection->table_of[f]];
    int32_t length = d->collection->features[f].max_sequence_length;
    char text[600];
    int n = snprintf(text, sizeof text, "%s: ", d->collection->features[f].name);
    if (length) n += snprintf(text + n, sizeof text - (size_t)n, "%d × ", length);
    n += snprintf(text + n, sizeof text - (size_t)n, "%d", table->dim);
    if (strcmp(table->name, d->collection->features[f].name) != 0)
        snprintf(text + n, sizeof text - (size_t)n, " of %s", table->name);
    write_small_label(d->out, "<br/>", text);
}

static void draw_input(const drawing *d, rk_value v) {
    const rk_node *node = rk_graph_node(d->graph, v);
    rk_buffer_printf(d->out, "  n%d [fillcolor=\"%s\", label=<<b>", v, data_color);
    write_html_escaped(d->out, node->name);
    rk_buffer_append_text(d->out, "</b>");
    int32_t listed = 0, all = 0;
    for (int32_t f = 0; f < d->model->n_lookups; f++) {
        if (d->model->lookups[f].input != v) continue;
        if (all++ >= MAX_LISTED) continue;
        listed++;
        if (f < d->collection->n_vectors)
            write_feature_label(d, f);
        else
            write_small_label(d->out, "<br/>", d->collection->features[f].name);
    }
    char rest[64];
    snprintf(rest, sizeof rest, "and %d more", all - listed);
    if (all > listed) write_small_label(d->out, "<br/>", rest);
    if (v == d->model->lengths) write_small_label(d->out, "<br/>", "of the sequences");
    if (v == d->model->dense) write_small_label(d->out, "<br/>", "the data's dense features");
    rk_buffer_append_text(d->out, ">]\n");
}

/* An operation's options, without those that its output's shape shows. */
static void write_node_options(rk_buffer *out, const rk_node *node) {
    const rk_op_options *o = &node->options;
    if (o->relu) rk_buffer_append_text(out, ", relu");
    if (o->softmax) rk_buffer_append_text(out, ", softmax");
    if (o->rate != 0) rk_buffer_printf(out, " %g", o->rate);
    if (o->count && node->op == &rk_op_slice)
        rk_buffer_printf(out, " %d to %d", o->first, o->first + o->count - 1);
    if (o->count && node->op == &rk_op_attention)
        rk_buffer_printf(out, ", %d head%s", o->count, o->count == 1 ? "" : "s");
}

static int64_t count_node_parameters(const drawing *d, const rk_node *node) {
    int64_t n = 0;
    for (int32_t p = 0; p < node->n_parameters; p++) {
        const rk_parameter *parameter = rk_graph_parameter(d->model->graph, node->parameters[p]);
        n += parameter->rows * parameter->cols;
    }
    return n;
}

static void draw_node(const drawing *d, rk_value v, const char *indent) {
    const rk_node *node = rk_graph_node(d->graph, v);
    int64_t n = count_node_parameters(d, node);
    rk_buffer_printf(d->out, "%sn%d [fillcolor=\"%s\", label=<<b>%s</b>", indent, v,
                     n ? trained_color : plain_color, node->op->name);
    write_node_options(d->out, node);
    write_small_label(d->out, "<br/>", node->name);
    char count[32], text[64];
    rk_format_count((double)n, count, sizeof count);
    snprintf(text, sizeof text, "%s parameter%s", count, n == 1 ? "" : "s");
    if (n) write_small_label(d->out, "<br/>", text);
    rk_buffer_append_text(d->out, ">]\n");
}

/* Bytes of the part that a node belongs to: "deep" of "deep/linear_0". */
static size_t name_prefix_bytes(const rk_node *node) {
    bool of_data = !node->op || strncmp(node->name, RK_FEATURE_PREFIX, sizeof RK_FEATURE_PREFIX - 1) == 0;
    const char *slash = of_data ? NULL : strchr(node->name, '/');
    return slash ? (size_t)(slash - node->name) : 0;
}

static bool has_name_prefix_of(const drawing *d, rk_value v, const rk_node *other, size_t n_bytes) {
    const rk_node *node = rk_graph_node(d->graph, v);
    return d->needed[v] && name_prefix_bytes(node) == n_bytes &&
           memcmp(node->name, other->name, n_bytes) == 0;
}

/* All nodes of the part of v, in a frame, if v is the first of them. */
static void draw_nodes_with_prefix(const drawing *d, rk_value v, size_t n_bytes) {
    const rk_node *node = rk_graph_node(d->graph, v);
    for (rk_value before = 0; before < v; before++)
        if (has_name_prefix_of(d, before, node, n_bytes)) return;
    rk_buffer_printf(d->out, "  subgraph cluster_%d {\n%s    label=<", v, frame);
    char part[256];
    snprintf(part, sizeof part, "%.*s", (int)n_bytes, node->name);
    write_html_escaped(d->out, part);
    rk_buffer_append_text(d->out, ">\n");
    for (rk_value after = v; after <= d->model->logits; after++)
        if (has_name_prefix_of(d, after, node, n_bytes)) draw_node(d, after, "    ");
    rk_buffer_append_text(d->out, "  }\n");
}

static void draw_nodes(const drawing *d) {
    for (rk_value v = 0; v <= d->model->logits; v++) {
        const rk_node *node = rk_graph_node(d->graph, v);
        if (!d->needed[v]) continue;
        if (!node->op)
            draw_input(d, v);
        else if (name_prefix_bytes(node))
            draw_nodes_with_prefix(d, v, name_prefix_bytes(node));
        else
            draw_node(d, v, "  ");
    }
}

static void draw_edges(const drawing *d) {
    for (rk_value v = 0; v <= d->model->logits; v++) {
        const rk_node *node = rk_graph_node(d->graph, v);
        for (int32_t k = 0; k < node->n_inputs && d->needed[v]; k++) {
            rk_buffer_printf(d->out, "  n%d -> n%d [label=\" ", node->inputs[k], v);
            write_tensor_shape(d->out, rk_graph_shape(d->graph, node->inputs[k]));
            rk_buffer_append_text(d->out, "\"]\n");
        }
    }
}

/* A product's arrows come from its factors. */
static void draw_tasks(const drawing *d) {
    for (int32_t t = 0; t < d->model->n_tasks; t++) {
        const rk_model_task *task = &d->model->tasks[t];
        rk_buffer_printf(d->out, "  t%d [fillcolor=\"%s\", label=<<b>", t, task_color);
        write_html_escaped(d->out, task->name);
        rk_buffer_append_text(d->out, "</b>");
        if (task->is_product) write_small_label(d->out, "<br/>", "product of probabilities");
        write_small_label(d->out, "<br/>", d->model->loss->name(d->model, t));
        rk_buffer_append_text(d->out, ">]\n");
        for (int i = 0; i < 2 && task->is_product; i++)
            rk_buffer_printf(d->out, "  t%d -> t%d\n", task->factors[i], t);
        if (!task->is_product) rk_buffer_printf(d->out, "  n%d -> t%d [label=\" 1\"]\n", d->model->logits, t);
    }
}

rk_status rk_graph_write_dot(const rk_model *model, const rk_collection_config *collection, rk_buffer *out) {
    drawing d = {.model = model, .collection = collection, .graph = model->graph, .out = out};
    RK_TRY(rk_alloc((size_t)rk_graph_n_values(model->graph), sizeof *d.needed, &d.needed));
    rk_graph_mark_ancestors(model->graph, model->logits, d.needed);
    rk_buffer_append_text(out, head);
    draw_nodes(&d);
    draw_edges(&d);
    draw_tasks(&d);
    rk_buffer_append_text(out, "}\n");
    rk_free(d.needed);
    return out->status;
}
