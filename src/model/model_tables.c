/* Which of the data's features a model looks up, and in which tables. */

#include "base/memory.h"
#include "base/text/find_text.h"
#include "model/section/graph_section.h"

static bool layer_reads_input(const rk_layer_section *layer, int input) {
    return rk_text_is_one_of(rk_graph_inputs[input], layer->inputs, (size_t)layer->n_inputs);
}

bool rk_model_reads_input(const rk_model_section *section, int input) {
    const rk_preset *preset = rk_preset_of(section->kind);
    for (int64_t i = 0; i < section->n_layers; i++)
        if (layer_reads_input(&section->layers[i], input)) return true;
    if (!preset) return false;
    switch (input) {
        case RK_INPUT_VECTORS:
            return preset->vectors;
        case RK_INPUT_VECTOR_ROWS:
            return preset->equal_dims;
        case RK_INPUT_LINEAR:
            return preset->linear;
        case RK_INPUT_LENGTHS:
            return preset->lengths;
        default:
            return true;
    }
}

static rk_status find_input_uses(const rk_model_section *section, const rk_yaml *yaml,
                                 const rk_data_schema *schema, rk_graph_uses *uses) {
    if (section->kind == RK_KIND_GRAPH) return rk_graph_section_find_used_inputs(section, yaml, schema, uses);
    for (int i = 0; i < RK_N_INPUTS; i++) uses->inputs[i] = rk_model_reads_input(section, i);
    return RK_OK;
}

rk_status rk_model_make_collection_config(const rk_model_section *section,
                                          const rk_embedding_section *embedding, const rk_yaml *yaml,
                                          const rk_data_schema *schema, const rk_optimizer *fallback,
                                          rk_collection_config *out) {
    RK_AUTO(rk_graph_uses_release) rk_graph_uses uses = {0};
    RK_AUTOFREE rk_embedding_source *sources = NULL;
    RK_TRY(find_input_uses(section, yaml, schema, &uses));
    RK_TRY(rk_alloc((size_t)schema->n_features, sizeof *sources, &sources));
    for (int32_t f = 0; f < schema->n_features; f++) {
        const rk_data_feature_info *from = &schema->features[f];
        sources[f] = (rk_embedding_source){from->name, from->cardinality, from->weighted, from->n_parts,
                                           from->compose != RK_COMPOSE_POOL};
    }
    bool all = uses.inputs[RK_INPUT_VECTORS] || uses.inputs[RK_INPUT_VECTOR_ROWS];
    rk_embedding_wants wants = {.vectors = all || uses.n_features,
                                .linear = uses.inputs[RK_INPUT_LINEAR],
                                .linear_l2 = section->linear_l2,
                                .linear_l2_full = section->linear_l2_full,
                                .chosen = all ? NULL : uses.features};
    return rk_collection_config_resolve(embedding, yaml, sources, schema->n_features, wants, fallback, out);
}
