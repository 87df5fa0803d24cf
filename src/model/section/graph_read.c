/* From the layers of a run file to the graph. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text/text.h"
#include "model/section/graph_section.h"
#include "nn/graph/op.h"

static const char *feature_name_of_input(const char *input) {
    size_t n = sizeof RK_FEATURE_PREFIX - 1;
    return strncmp(input, RK_FEATURE_PREFIX, n) == 0 ? input + n : input;
}

static rk_status unknown_input_error(const rk_model_section *s, int64_t layer, const rk_yaml *yaml,
                                     const rk_data_schema *schema, const char *input) {
    size_t n = 0;
    RK_AUTOFREE const char **names = NULL;
    RK_TRY(rk_alloc((size_t)(schema->n_features + layer + RK_N_INPUTS), sizeof *names, &names));
    for (int i = 0; i < RK_N_INPUTS; i++) names[n++] = rk_graph_inputs[i];
    for (int64_t i = 0; i < layer; i++) names[n++] = s->layers[i].name;
    for (int32_t f = 0; f < schema->n_features; f++) names[n++] = schema->features[f].name;
    const char *nearest = rk_nearest_name(feature_name_of_input(input), names, n);
    rk_yaml_error(yaml, rk_layer_yaml_node(yaml, layer, "inputs"),
                  "there is no layer or categorical feature '%s'", feature_name_of_input(input));
    if (nearest) return rk_error_hint(RK_CONFIG, "did you mean '%s'?", nearest);
    return rk_error_hint(RK_CONFIG,
                         "inputs are layers above, dense, vectors, vector_rows, linear, lengths, and the "
                         "data's categorical features");
}

static rk_status mark_input_used(rk_graph_uses *uses, const rk_model_section *s, int64_t layer,
                                 const rk_yaml *yaml, const rk_data_schema *schema,
                                 const rk_name_index *features, const char *input) {
    int known = rk_graph_input_from_name(input);
    if (known >= 0) {
        bool there = known == RK_INPUT_DENSE ? schema->n_dense > 0 : schema->n_features > 0;
        uses->inputs[known] = true;
        if (there) return RK_OK;
        return rk_yaml_error(yaml, rk_layer_yaml_node(yaml, layer, "inputs"),
                             "'%s': the data has no %s features", input,
                             known == RK_INPUT_DENSE ? "dense" : "categorical");
    }
    int32_t f = rk_name_index_find(features, feature_name_of_input(input));
    if (f < 0) return unknown_input_error(s, layer, yaml, schema, input);
    if (!uses->features[f]) uses->n_features++;
    uses->features[f] = true;
    return RK_OK;
}

void rk_graph_uses_release(rk_graph_uses *uses) {
    rk_free(uses->features);
}

rk_status rk_graph_section_find_used_inputs(const rk_model_section *s, const rk_yaml *yaml,
                                            const rk_data_schema *schema, rk_graph_uses *uses) {
    RK_AUTO(rk_name_index_release) rk_name_index layers = {0}, features = {0};
    *uses = (rk_graph_uses){0};
    RK_TRY(rk_layer_names_index(s, &layers));
    RK_TRY(rk_name_index_init(&features, schema->features, sizeof *schema->features,
                              offsetof(rk_data_feature_info, name), schema->n_features));
    RK_TRY(rk_alloc((size_t)schema->n_features, sizeof *uses->features, &uses->features));
    for (int64_t i = 0; i < s->n_layers; i++)
        for (int64_t k = 0; k < s->layers[i].n_inputs; k++)
            if (rk_name_index_find(&layers, s->layers[i].inputs[k]) < 0)
                RK_TRY(mark_input_used(uses, s, i, yaml, schema, &features, s->layers[i].inputs[k]));
    return RK_OK;
}

typedef struct reader {
    rk_graph *graph;
    const rk_model_section *section;
    const rk_yaml *yaml;
    const rk_model *model;
    const rk_collection_config *collection;
    const rk_preset_inputs *inputs;
    rk_name_index layers, features; /* of the collection's vectors */
    rk_value *values;               /* [n_layers]: what each yields */
    rk_value *of_feature;           /* [n_vectors], -1 until one is asked for */
    rk_value *gathered;             /* [of the most inputs that a layer has] */
} reader;

/* Its columns of `vectors`: [1, dim], or [length, dim] of a sequence. */
static rk_value find_feature_value(reader *r, int32_t f) {
    rk_value *made = &r->of_feature[f];
    if (*made >= 0) return *made;
    const rk_preset_feature *feature = &r->inputs->features[f];
    int32_t length = feature->length;
    char name[512];
    snprintf(name, sizeof name, RK_FEATURE_PREFIX "%s%s", feature->name, length ? "/columns" : "");
    rk_op_options columns = {.first = feature->first, .count = feature->width}, rows = {.rows = length};
    *made = rk_graph_add_op(r->graph, "slice", name, &columns, &r->inputs->vectors, 1);
    snprintf(name, sizeof name, RK_FEATURE_PREFIX "%s", feature->name);
    if (length) *made = rk_graph_add_op(r->graph, "reshape", name, &rows, made, 1);
    return *made;
}

static rk_value find_input_value(reader *r, const char *input) {
    int32_t layer = rk_name_index_find(&r->layers, input);
    if (layer >= 0) return r->values[layer];
    switch (rk_graph_input_from_name(input)) {
        case RK_INPUT_DENSE:
            return r->inputs->dense;
        case RK_INPUT_VECTORS:
            return r->inputs->vectors;
        case RK_INPUT_VECTOR_ROWS:
            return r->inputs->vector_rows;
        case RK_INPUT_LINEAR:
            return r->inputs->linear;
        case RK_INPUT_LENGTHS:
            return r->inputs->lengths;
        default:
            return find_feature_value(r, rk_name_index_find(&r->features, feature_name_of_input(input)));
    }
}

static rk_op_options op_options_of_layer(const rk_layer_section *l, rk_dtype dtype) {
    const rk_initializer_config *i = &l->initializer;
    bool products = rk_op_find(rk_layer_ops[l->op])->options & RK_OPTION_dtype;
    return (rk_op_options){
        .units = l->n_units ? (int32_t)l->units[0] : 0,
        .by_row = l->by_row,
        .no_bias = !l->bias,
        .relu = l->relu,
        .softmax = l->softmax,
        .dtype = products ? dtype : RK_F32,
        .rate = l->rate,
        .epsilon = l->epsilon,
        .momentum = l->momentum,
        .first = (int32_t)l->first,
        .count = (int32_t)l->count,
        .rows = (int32_t)l->rows,
        .cols = (int32_t)l->cols,
        .initializer = {(rk_initializer_kind)i->kind, i->mean, i->stddev, i->min, i->max, i->value},
        .has_initializer = i->line != 0};
}

/* One cross layer of DCN v2 (Wang et al. 2021): x0 * (W x + b) + x, or U (V x) in place of W x. */
static rk_value add_cross_layer(reader *r, const rk_layer_section *l, rk_dtype dtype) {
    char name[256];
    rk_value x0 = r->gathered[0], y = r->gathered[1], x = y;
    snprintf(name, sizeof name, "%s/v", l->name);
    if (l->rank) y = rk_linear(r->graph, name, y, (int32_t)l->rank, false, dtype);
    snprintf(name, sizeof name, "%s/%c", l->name, l->rank ? 'u' : 'w');
    y = rk_linear(r->graph, name, y, rk_graph_shape(r->graph, x0).cols, true, dtype);
    return rk_graph_add_op(r->graph, "cross_combine", l->name, NULL, (rk_value[]){x0, y, x}, 3);
}

static rk_status check_lengths_are_available(const reader *r, int64_t layer) {
    const rk_layer_section *l = &r->section->layers[layer];
    for (int64_t k = 0; k < l->n_inputs && r->inputs->lengths < 0; k++) {
        if (rk_graph_input_from_name(l->inputs[k]) != RK_INPUT_LENGTHS) continue;
        rk_yaml_error(r->yaml, rk_layer_yaml_node(r->yaml, layer, "inputs"),
                      "'lengths': none of the features that the layers read is a sequence");
        return rk_error_hint(RK_CONFIG, "a sequence has a max_sequence_length in embedding.features");
    }
    return RK_OK;
}

static rk_value add_layer_of_section(reader *r, const rk_layer_section *l) {
    rk_dtype dtype = l->dtype < 0 ? r->inputs->dtype : RK_F32;
    for (int64_t k = 0; k < l->n_inputs; k++) r->gathered[k] = find_input_value(r, l->inputs[k]);
    if (l->op == RK_LAYER_CROSS) return add_cross_layer(r, l, dtype);
    if (l->op == RK_LAYER_MLP) {
        const char *activation = l->activation ? l->activation : "relu";
        rk_mlp mlp = {.units = l->units,
                      .n = l->n_units,
                      .activation = activation,
                      .batch_norm = l->batch_norm,
                      .dropout = l->dropout,
                      .dtype = dtype};
        return rk_mlp_build(r->graph, l->name, r->gathered[0], &mlp);
    }
    rk_op_options options = op_options_of_layer(l, dtype);
    return rk_graph_add_op(r->graph, rk_layer_ops[l->op], l->name, &options, r->gathered,
                           (int32_t)l->n_inputs);
}

/* The graph's own message, with the line. */
static rk_status report_graph_error(const reader *r, const rk_yaml_node *node) {
    rk_status status = rk_graph_status(r->graph);
    return status == RK_OK || status == RK_NO_MEMORY ? status
                                                     : rk_yaml_error(r->yaml, node, "%s", rk_last_error());
}

static rk_status concat_outputs(reader *r, rk_value *out) {
    const rk_model_section *s = r->section;
    int64_t n = s->n_outputs ? s->n_outputs : 1;
    int32_t n_logits = r->inputs->n_tasks;
    RK_AUTOFREE rk_value *values = NULL;
    RK_TRY(rk_alloc((size_t)n, sizeof *values, &values));
    values[0] = r->values[s->n_layers - 1];
    for (int64_t i = 0; i < s->n_outputs; i++)
        values[i] = r->values[rk_name_index_find(&r->layers, s->outputs[i])];
    *out =
        n == 1 ? values[0] : rk_graph_add_op(r->graph, "concat", RK_OUTPUTS_NAME, NULL, values, (int32_t)n);
    const rk_yaml_node *outputs =
        rk_yaml_find_key(rk_yaml_find_key(r->yaml ? r->yaml->root : NULL, "model"), "outputs");
    if (!outputs) outputs = rk_layer_yaml_node(r->yaml, s->n_layers - 1, "");
    RK_TRY(report_graph_error(r, outputs));
    rk_shape shape = rk_graph_shape(r->graph, *out);
    if (shape.rows == 1 && shape.cols == n_logits) return RK_OK;
    rk_yaml_error(r->yaml, outputs, "the outputs have %lld logits a sample, but there %s %d label%s%s",
                  (long long)shape.rows * shape.cols, n_logits > 1 ? "are" : "is", n_logits,
                  n_logits > 1 ? "s" : "", n_logits < r->model->n_tasks ? ", not counting products" : "");
    return rk_error_hint(RK_CONFIG, "a linear layer of %d unit%s makes one logit a label", n_logits,
                         n_logits > 1 ? "s" : "");
}

static rk_status add_layers_of_section(reader *r) {
    const rk_model_section *s = r->section;
    int64_t most = 1;
    for (int64_t i = 0; i < s->n_layers; i++)
        most = s->layers[i].n_inputs > most ? s->layers[i].n_inputs : most;
    RK_TRY(rk_layer_names_index(s, &r->layers));
    RK_TRY(rk_name_index_init(&r->features, r->collection->features, sizeof *r->collection->features,
                              offsetof(rk_feature_config, name), r->collection->n_vectors));
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)s->n_layers, r->values),
                        RK_ARRAY((size_t)r->collection->n_vectors, r->of_feature),
                        RK_ARRAY((size_t)most, r->gathered)));
    for (int32_t f = 0; f < r->collection->n_vectors; f++) r->of_feature[f] = -1;
    for (int64_t i = 0; i < s->n_layers; i++) {
        RK_TRY(check_lengths_are_available(r, i));
        r->values[i] = add_layer_of_section(r, &s->layers[i]);
        RK_TRY(report_graph_error(r, rk_layer_yaml_node(r->yaml, i, "")));
    }
    return RK_OK;
}

rk_status rk_graph_section_build(rk_model *model, const rk_model_options *options,
                                 const rk_collection_config *collection, const rk_preset_inputs *inputs) {
    reader r = {.graph = model->graph,
                .section = options->model,
                .yaml = options->yaml,
                .model = model,
                .collection = collection,
                .inputs = inputs};
    rk_status status = add_layers_of_section(&r);
    if (status == RK_OK) status = concat_outputs(&r, &model->logits);
    rk_name_index_release(&r.layers);
    rk_name_index_release(&r.features);
    RK_FREE_ALL(r.values, r.of_feature, r.gathered);
    return status;
}
