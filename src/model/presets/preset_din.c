/* DIN (Zhou et al. 2018): a user's history is pooled with weights that an activation unit computes from each
 * item and the target; then a multilayer perceptron. */
#include <stdio.h>

#include "model/presets/preset_blocks.h"

static rk_value fail_graph(rk_graph *graph) {
    rk_graph_set_error(graph, RK_CONFIG);
    return -1;
}

/* The target's and the history's features, or an error that names them. */
static bool find_attention_pair(rk_graph *graph, const rk_preset_inputs *inputs,
                                const rk_attention_pair *pair, const rk_preset_feature **target,
                                const rk_preset_feature **history) {
    *target = rk_preset_find_feature(inputs, pair->target);
    *history = rk_preset_find_feature(inputs, pair->history);
    if (!*target || !*history) {
        rk_error(RK_CONFIG, "'attention' names '%s', which is not a categorical feature",
                 *target ? pair->history : pair->target);
    } else if (!(*history)->length || (*target)->length) {
        rk_error(RK_CONFIG,
                 (*target)->length ? "the target '%s' must not be a sequence"
                                   : "the history '%s' must be a sequence",
                 (*target)->length ? pair->target : pair->history);
        rk_error_hint(
            RK_CONFIG,
            "set max_sequence_length in embedding.features for the history, and not for its target");
    } else if ((*target)->width * (*history)->length != (*history)->width) {
        rk_error(RK_CONFIG, "the target '%s' has dim %d, but its history '%s' has dim %d", pair->target,
                 (*target)->width, pair->history, (*history)->width / (*history)->length);
        rk_error_hint(RK_CONFIG, "look both up in one table: embedding.features: [{name: %s, table: %s}]",
                      pair->history, pair->target);
    } else {
        return true;
    }
    fail_graph(graph);
    return false;
}

/* The activation unit: an MLP over [q, k, q - k, q * k] of each position, to one weight; a bias would change
 * nothing in a softmax. */
static rk_value add_attention_weights(rk_graph *graph, const rk_model_section *section,
                                      const rk_preset_inputs *inputs, int64_t number, rk_value x) {
    static const int64_t units[] = {64, 32};
    char name[64];
    snprintf(name, sizeof name, "attention_%d", (int)number);
    rk_mlp mlp = {.units = section->attention_deep ? section->attention_deep : units,
                  .n = section->attention_deep ? section->n_attention_deep : 2,
                  .activation = section->activation ? section->activation : "relu",
                  .dtype = inputs->dtype,
                  .by_row = true};
    x = rk_mlp_build(graph, name, x, &mlp);
    snprintf(name, sizeof name, "attention_%d/weight", (int)number);
    return rk_linear_rows(graph, name, x, 1, !section->attention_softmax, RK_F32);
}

static rk_value add_attention_pooling(rk_graph *graph, const rk_model_section *section,
                                      const rk_preset_inputs *inputs, int64_t number) {
    const rk_preset_feature *target, *history;
    if (!find_attention_pair(graph, inputs, &section->attention[number], &target, &history)) return -1;
    rk_value q = rk_slice(graph, inputs->vectors, target->first, target->width);
    rk_value k = rk_reshape(graph, rk_slice(graph, inputs->vectors, history->first, history->width),
                            history->length, target->width);
    rk_value w = add_attention_weights(graph, section, inputs, number, rk_target_pairs(graph, q, k));
    return rk_attention_pool(graph, w, k, inputs->lengths, history->length_column,
                             section->attention_softmax);
}

static rk_value build_din(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs) {
    static const int64_t units[] = {256, 128, 64};
    const char *histories[RK_MAX_PAIRS];
    if (section->n_attention == 0) {
        rk_error(RK_CONFIG, "model 'din' needs 'attention'");
        rk_error_hint(RK_CONFIG,
                      "name a target and its history: attention: [{target: item, history: clicks}]");
        return fail_graph(graph);
    }
    rk_value x = -1;
    for (int64_t i = 0; i < section->n_attention; i++) {
        histories[i] = section->attention[i].history;
        x = rk_block_concat_two(graph, x, add_attention_pooling(graph, section, inputs, i));
    }
    x = rk_block_concat_two(
        graph, rk_block_features_except(graph, inputs, histories, (int32_t)section->n_attention), x);
    return rk_block_logits(graph, inputs, "logits", rk_block_deep_mlp(graph, section, inputs, x, units, 3));
}

const rk_preset rk_preset_din = {.name = "din",
                                 .keys = RK_KEYS_DEEP | RK_KEYS_TARGETS,
                                 .vectors = true,
                                 .lengths = true,
                                 .needs_features = true,
                                 .build = build_din};
