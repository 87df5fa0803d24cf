/* AutoInt (Song et al. 2019): layers of multi-head self-attention over the features' vectors, among which a
 * sequence's padding is not; with `deep`, a multilayer perceptron beside them. */
#include <stdio.h>

#include "model/presets/preset_blocks.h"

typedef struct interacting_layer {
    rk_graph *graph;
    rk_dtype dtype;
    int64_t number;
    int32_t heads, dim;
    rk_value mask;
} interacting_layer;

static rk_value add_projection(const interacting_layer *l, const char *part, rk_value x) {
    char name[64];
    snprintf(name, sizeof name, "interact_%d_%s", (int)l->number, part);
    return rk_linear_rows(l->graph, name, x, l->heads * l->dim, false, l->dtype);
}

/* relu(heads of attention, side by side + W x), row by row */
static rk_value add_interacting_layer(const interacting_layer *l, rk_value x) {
    rk_value heads = rk_attention(l->graph, add_projection(l, "query", x), add_projection(l, "key", x),
                                  add_projection(l, "value", x), l->mask, l->heads);
    return rk_relu(l->graph, rk_block_add_two(l->graph, heads, add_projection(l, "residual", x)));
}

/* A dense number is a feature like the others: its vector is a learned one, times the number. */
static rk_value concat_feature_and_dense_vectors(rk_graph *graph, const rk_preset_inputs *inputs) {
    if (inputs->dense < 0) return inputs->vector_rows;
    rk_value numbers = rk_number_vectors(graph, "numbers", inputs->dense, inputs->dim);
    int32_t n_rows = inputs->n_vectors + rk_graph_shape(graph, inputs->dense).cols;
    return rk_reshape(graph, rk_block_concat_two(graph, inputs->vectors, numbers), n_rows, inputs->dim);
}

static rk_value build_autoint(rk_graph *graph, const rk_model_section *section,
                              const rk_preset_inputs *inputs) {
    rk_value x = concat_feature_and_dense_vectors(graph, inputs);
    interacting_layer l = {
        .graph = graph,
        .dtype = inputs->dtype,
        .heads = (int32_t)(section->attention_heads ? section->attention_heads : 2),
        .dim = (int32_t)(section->attention_dim ? section->attention_dim : 32),
        .mask = rk_block_sequence_mask(graph, inputs, rk_graph_shape(graph, x).rows),
    };
    int64_t n = section->attention_layers ? section->attention_layers : 3;
    for (; l.number < n; l.number++) x = add_interacting_layer(&l, x);
    rk_value deep = section->n_deep
                        ? rk_block_deep_mlp(graph, section, inputs, rk_block_features(graph, inputs), NULL, 0)
                        : -1;
    return rk_block_logits(graph, inputs, "logits", rk_block_concat_two(graph, x, deep));
}

const rk_preset rk_preset_autoint = {.name = "autoint",
                                     .keys = RK_KEYS_DEEP | RK_KEYS_ATTENTION,
                                     .vectors = true,
                                     .equal_dims = true,
                                     .lengths = true,
                                     .deep_is_optional = true,
                                     .needs_features = true,
                                     .build = build_autoint};
