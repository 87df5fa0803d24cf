/* DCN v2 (Wang et al. 2021): x' = x0 * y(x) + x, where y is
 *     full      W x + b
 *     add_low_rank_cross  U (V x) + b
 *     mixture   sum_i G_i(x) U_i tanh(C_i tanh(V_i x)) + b, with G = softmax(gate x) */
#include <stdio.h>

#include "model/presets/preset_blocks.h"

typedef struct cross {
    rk_graph *graph;
    rk_dtype dtype;
    int64_t layer;
    int32_t width, rank, n_experts;
} cross;

/* "cross_<layer>_<part>", or "cross_<layer>" for the part "". */
static rk_value add_cross_projection(const cross *c, const char *part, int64_t number, rk_value x,
                                     int32_t units, bool bias) {
    char name[64];
    int n = snprintf(name, sizeof name, "cross_%d%s%s", (int)c->layer, *part ? "_" : "", part);
    if (number >= 0) snprintf(name + n, sizeof name - (size_t)n, "%d", (int)number);
    return rk_linear(c->graph, name, x, units, bias, c->dtype);
}

static rk_value add_low_rank_cross(const cross *c, rk_value x) {
    return add_cross_projection(c, "u", -1, add_cross_projection(c, "v", -1, x, c->rank, false), c->width,
                                true);
}

/* All experts' V stand side by side in one matrix, and so do their U, so that the wide products are two,
 * whatever the number of experts: sum_i G_i U_i c_i = [U_1 ... U_k] [G_1 c_1 ... G_k c_k]. */
static rk_value add_mixture_of_experts_cross(const cross *c, rk_value x) {
    rk_graph *g = c->graph;
    int32_t all = c->n_experts * c->rank;
    rk_value gates = rk_reshape(g, rk_softmax(g, add_cross_projection(c, "gate", -1, x, c->n_experts, false)),
                                c->n_experts, 1);
    rk_value v = rk_activation_by_name(g, add_cross_projection(c, "v", -1, x, all, false), "tanh");
    rk_value experts[RK_MAX_EXPERTS];
    for (int32_t i = 0; i < c->n_experts; i++)
        experts[i] = add_cross_projection(c, "c", i, rk_slice(g, v, i * c->rank, c->rank), c->rank, false);
    rk_value rows = rk_reshape(g, rk_activation_by_name(g, rk_concat(g, experts, c->n_experts), "tanh"),
                               c->n_experts, c->rank);
    return add_cross_projection(c, "u", -1, rk_reshape(g, rk_multiply(g, rows, gates), 1, all), c->width,
                                true);
}

static rk_value build_dcn_v2(rk_graph *graph, const rk_model_section *section,
                             const rk_preset_inputs *inputs) {
    bool with_bottom = section->n_bottom && inputs->dense >= 0; /* as MLPerf's DLRM-DCNv2 has it */
    rk_value x0 = with_bottom ? rk_block_concat_two(graph, rk_block_bottom_mlp(graph, section, inputs),
                                                    inputs->vectors)
                              : rk_block_features(graph, inputs),
             x = x0;
    cross c = {
        .graph = graph,
        .dtype = inputs->dtype,
        .width = rk_graph_shape(graph, x0).cols,
        .rank = (int32_t)(section->cross_rank ? section->cross_rank : 64),
        .n_experts = (int32_t)(section->cross_experts ? section->cross_experts : 4),
    };
    for (; c.layer < rk_block_n_cross_layers(section); c.layer++) {
        rk_value y = section->cross_kind == RK_CROSS_LOW_RANK ? add_low_rank_cross(&c, x)
                     : section->cross_kind == RK_CROSS_MIXTURE
                         ? add_mixture_of_experts_cross(&c, x)
                         : add_cross_projection(&c, "", -1, x, c.width, true);
        x = rk_cross_combine(graph, x0, y, x);
    }
    return rk_block_cross_and_deep(graph, section, inputs, x0, x);
}

const rk_preset rk_preset_dcn_v2 = {
    .name = "dcn_v2",
    .keys = RK_KEYS_DEEP | RK_KEYS_BOTTOM | RK_KEYS_CROSS | RK_KEYS_STRUCTURE | RK_KEYS_CROSS_KIND,
    .vectors = true,
    .build = build_dcn_v2};
