/* Factorization machine (Rendle 2010): lr + sum of v_i . v_j over all pairs of vectors. */
#include "model/presets/preset_blocks.h"

static rk_value build_fm(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs) {
    (void)section;
    rk_value first = rk_block_linear_terms(graph, inputs, true);
    return rk_bias(graph, "bias", rk_block_add_two(graph, first, rk_fm(graph, inputs->vector_rows)));
}

const rk_preset rk_preset_fm = {.name = "fm",
                                .vectors = true,
                                .linear = true,
                                .equal_dims = true,
                                .vector_pairs = true,
                                .needs_features = true,
                                .one_task = true,
                                .build = build_fm};
