/* DLRM (Naumov et al. 2019): an MLP maps the dense numbers to the vectors' dim; its output and the dot
 * products of all pairs go to the top MLP. */
#include "model/presets/preset_blocks.h"

/* The dense input as one more vector, [1, dim]. */
static rk_value build_bottom_mlp(rk_graph *graph, const rk_model_section *section,
                                 const rk_preset_inputs *inputs) {
    rk_value bottom = rk_block_bottom_mlp(graph, section, inputs);
    int32_t units = rk_graph_shape(graph, bottom).cols;
    if (bottom < 0 || units == inputs->dim) return bottom;
    rk_error(RK_CONFIG, "the last layer of 'bottom' has %d units, but the embeddings' dim is %d", units,
             inputs->dim);
    rk_graph_set_error(graph, rk_error_hint(RK_CONFIG, "write 0 for the last layer: it stands for the dim"));
    return -1;
}

static rk_value build_dlrm(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs) {
    static const int64_t units[] = {512, 256};
    rk_value bottom = inputs->dense < 0 ? -1 : build_bottom_mlp(graph, section, inputs);
    int32_t n_rows = inputs->n_vectors + (inputs->dense >= 0);
    if (n_rows < 2) {
        rk_graph_set_error(graph,
                           rk_error(RK_CONFIG,
                                    "model 'dlrm' needs two vectors or more to interact: features, or a "
                                    "feature and dense input"));
        return -1;
    }
    rk_value rows =
        rk_reshape(graph, rk_block_concat_two(graph, bottom, inputs->vectors), n_rows, inputs->dim);
    rk_value top = rk_block_concat_two(graph, bottom, rk_dot_interaction(graph, rows));
    return rk_block_logits(graph, inputs, "logits", rk_block_deep_mlp(graph, section, inputs, top, units, 2));
}

const rk_preset rk_preset_dlrm = {.name = "dlrm",
                                  .keys = RK_KEYS_DEEP | RK_KEYS_BOTTOM,
                                  .vectors = true,
                                  .equal_dims = true,
                                  .needs_features = true,
                                  .build = build_dlrm};
