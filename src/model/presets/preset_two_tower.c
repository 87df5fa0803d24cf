/* Two towers and the product of their vectors (docs/retrieval.md). The last of the features is the item. */
#include "model/presets/preset_blocks.h"

static rk_value add_named_op(rk_graph *graph, const char *op, const char *name, rk_value x) {
    return rk_graph_add_op(graph, op, name, NULL, &x, 1);
}

/* Hidden layers, and the last of `deep` linear. */
static rk_value build_tower_mlp(rk_graph *graph, const rk_model_section *section,
                                const rk_preset_inputs *inputs, const char *name, const char *last,
                                rk_value x) {
    rk_mlp hidden = {.units = section->deep,
                     .n = section->n_deep - 1,
                     .activation = section->activation ? section->activation : "relu",
                     .dropout = section->dropout,
                     .dtype = inputs->dtype};
    return rk_linear(graph, last, rk_mlp_build(graph, name, x, &hidden),
                     (int32_t)section->deep[section->n_deep - 1], true, inputs->dtype);
}

/* x: n vectors side by side, and perhaps dense numbers, which need an MLP. */
static rk_value build_tower_vector(rk_graph *graph, const rk_model_section *section, const char *name,
                                   rk_value x) {
    bool cosine = section->retrieval.similarity == RK_SIMILARITY_COSINE;
    return add_named_op(graph, cosine ? "l2_normalize" : "sum_rows", name, x);
}

static rk_value sum_feature_vectors(rk_graph *graph, const rk_preset_inputs *inputs, rk_value x, int32_t n) {
    return rk_sum_rows(graph, rk_reshape(graph, x, n, inputs->dim));
}

/* The user's n vectors, the history's by a matrix: u + V h (SimpleX: Mao et al., 2021, equation 8; its
 * factors are in what is learned). */
static rk_value add_history_projection(rk_graph *graph, const rk_preset_inputs *inputs, int32_t n) {
    const char *const but[] = {"history", inputs->features[inputs->n_features - 1].name};
    rk_value h =
        rk_slice(graph, inputs->vectors, rk_preset_find_feature(inputs, "history")->first, inputs->dim);
    h = rk_linear(graph, "history", h, inputs->dim, false, inputs->dtype);
    return n == 1
               ? h
               : rk_block_add_two(graph,
                                  sum_feature_vectors(graph, inputs,
                                                      rk_block_features_except(graph, inputs, but, 2), n - 1),
                                  h);
}

static rk_value build_user_tower(rk_graph *graph, const rk_model_section *section,
                                 const rk_preset_inputs *inputs) {
    int32_t n = inputs->n_vectors - 1;
    bool is_linear = section->retrieval.history_linear;
    rk_value x = rk_slice(graph, inputs->vectors, 0, n * inputs->dim);
    if (section->n_deep && is_linear)
        rk_graph_set_error(
            graph,
            rk_error(RK_CONFIG, "'history_linear' is not supported with 'deep'\nhint: remove one of them"));
    if (section->n_deep)
        return build_tower_mlp(graph, section, inputs, "user", "user/last",
                               rk_block_concat_two(graph, x, inputs->dense));
    if (inputs->dense >= 0)
        rk_graph_set_error(graph, rk_error(RK_CONFIG,
                                           "a two_tower with dense features needs hidden layers\nhint: set "
                                           "'deep', or remove the dense features"));
    return is_linear ? add_history_projection(graph, inputs, n) : sum_feature_vectors(graph, inputs, x, n);
}

static rk_value build_item_tower(rk_graph *graph, const rk_model_section *section,
                                 const rk_preset_inputs *inputs) {
    rk_value x = rk_slice(graph, inputs->vectors, (inputs->n_vectors - 1) * inputs->dim, inputs->dim);
    return section->n_deep ? build_tower_mlp(graph, section, inputs, "item", "item/last", x) : x;
}

/* Without an MLP dropout is of the user's vector as the product takes it, normalized (SimpleX: Mao et al.,
 * 2021). */
static rk_value add_user_normalization_and_dropout(rk_graph *graph, const rk_model_section *section,
                                                   rk_value x) {
    static const char *const name = "user_vector";
    if (section->n_deep || section->dropout == 0) return build_tower_vector(graph, section, name, x);
    x = build_tower_vector(graph, section, NULL, x);
    return rk_graph_add_op(graph, "dropout", name, &(rk_op_options){.rate = section->dropout}, &x, 1);
}

static rk_value build_two_tower(rk_graph *graph, const rk_model_section *section,
                                const rk_preset_inputs *inputs) {
    if (section->batch_norm)
        rk_graph_set_error(
            graph, rk_error(RK_CONFIG,
                            "'batch_norm' is not supported by model 'two_tower'\nhint: remove 'batch_norm'"));
    if (inputs->n_vectors < 2)
        rk_graph_set_error(graph, rk_error(RK_CONFIG, "a two_tower needs a feature for its user tower"));
    rk_value user =
        add_user_normalization_and_dropout(graph, section, build_user_tower(graph, section, inputs));
    rk_value item =
        build_tower_vector(graph, section, "item_vector", build_item_tower(graph, section, inputs));
    return rk_sum_all(graph, rk_multiply(graph, user, item));
}

const rk_preset rk_preset_two_tower = {.name = "two_tower",
                                       .keys = RK_KEYS_DEEP | RK_KEYS_RETRIEVAL,
                                       .vectors = true,
                                       .equal_dims = true,
                                       .needs_features = true,
                                       .one_task = true,
                                       .pairs = true,
                                       .build = build_two_tower};
