/* The layers of a graph, as far as they can be checked without the data. */
#include "model/section/graph_section.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/text/text.h"
#include "nn/graph/op.h"

#define OP_NAME(name) #name,
const char *const rk_layer_ops[RK_N_LAYER_OPS] = {
    RK_OP_LIST(OP_NAME)[RK_LAYER_MLP] = "mlp", [RK_LAYER_CROSS] = "cross"};
#undef OP_NAME
static const char *const dtypes[] = {"f32"};
const char *const rk_graph_inputs[RK_N_INPUTS] = {"dense", "vectors", "vector_rows", "linear", "lengths"};

int rk_graph_input_from_name(const char *name) {
    return (int)rk_text_position(name, rk_graph_inputs, RK_N_INPUTS);
}

static const rk_field fields[] = {
    RK_FIELD_TEXT(rk_layer_section, name, true, NULL, "unique name; the initial parameters depend on it"),
    {.key = "op",
     .kind = RK_FIELD_KIND_ENUM,
     .offset = offsetof(rk_layer_section, op),
     .default_number = RK_REQUIRED_NUMBER,
     .names = rk_layer_ops,
     .n_names = RK_N_LAYER_OPS,
     .doc = "the operation (docs/operations.md), or mlp or cross, which stand for several"},
    RK_FIELD_ARRAY(TEXTS, rk_layer_section, inputs, n_inputs, 0, 0,
                   "layers above, dense, vectors, vector_rows, linear, lengths, or features"),
    RK_FIELD_ARRAY(I64S, rk_layer_section, units, n_units, 1, RK_MAX_UNITS,
                   "linear, cin, constant, mlp (one a layer): outputs; number_vectors: of each"),
    RK_FIELD_BOOL(
        rk_layer_section, by_row, false,
        "linear: over each row by itself; layer_norm: each row has scales of its own; dropout: whole rows"),
    RK_FIELD_BOOL(rk_layer_section, bias, true, "linear: adds b"),
    RK_FIELD_BOOL(rk_layer_section, relu, false, "linear: max(x W + b, 0)"),
    RK_FIELD_BOOL(rk_layer_section, softmax, false, "attention_pool: of the weights"),
    RK_FIELD_ENUM(rk_layer_section, dtype, -1, dtypes,
                  "linear, cin, mlp, cross: f32 whatever train.dtype says"),
    RK_FIELD_F64(rk_layer_section, rate, 0, 0, 0.99, "dropout"),
    RK_FIELD_F64(rk_layer_section, epsilon, 0, 0, INFINITY,
                 "batch_norm, layer_norm; 0: 1e-5; l2_normalize; 0: 1e-12"),
    RK_FIELD_F64(rk_layer_section, momentum, 0, 0, 1, "batch_norm: weight of the new statistics; 0: 0.1"),
    RK_FIELD_I64(rk_layer_section, first, 0, 0, INT32_MAX,
                 "slice: the first column; attention_pool, mask: the column with the lengths"),
    RK_FIELD_I64(rk_layer_section, count, 0, 0, INT32_MAX,
                 "slice: columns; attention: heads; mask: rows before the sequence"),
    RK_FIELD_I64(rk_layer_section, rows, 0, 0, INT32_MAX, "reshape; 0: what cols leave; mask: rows"),
    RK_FIELD_I64(rk_layer_section, cols, 0, 0, INT32_MAX, "reshape; 0: what rows leave"),
    RK_FIELD_STRUCT(rk_layer_section, initializer, &rk_initializer_schema,
                    "linear: initial weights; by default glorot uniform"),
    RK_FIELD_TEXT(rk_layer_section, activation, false, NULL, "mlp: as model.activation"),
    RK_FIELD_BOOL(rk_layer_section, batch_norm, false, "mlp: as model.batch_norm"),
    RK_FIELD_F64(rk_layer_section, dropout, 0, 0, 0.99, "mlp: as model.dropout"),
    RK_FIELD_I64(rk_layer_section, rank, 0, 0, RK_MAX_UNITS, "cross: of its matrix; 0: a full one"),
};
const rk_schema rk_layer_schema = {.name = "layers",
                                   .struct_bytes = sizeof(rk_layer_section),
                                   .fields = fields,
                                   .n_fields = sizeof fields / sizeof fields[0],
                                   .has_line = true,
                                   .line_offset = offsetof(rk_layer_section, line),
                                   .flow = true};

enum {
    LAYER_activation = 1 << RK_N_OP_OPTIONS,
    LAYER_batch_norm = LAYER_activation << 1,
    LAYER_dropout = LAYER_activation << 2,
    LAYER_rank = LAYER_activation << 3
};

/* What a layer may be. */
typedef struct layer_kind {
    unsigned options; /* RK_OPTION_* and LAYER_* */
    int32_t min_inputs, max_inputs;
} layer_kind;

static layer_kind layer_kind_of_op(int op) {
    if (op == RK_LAYER_MLP)
        return (layer_kind){
            RK_OPTION_units | RK_OPTION_dtype | LAYER_activation | LAYER_batch_norm | LAYER_dropout, 1, 1};
    if (op == RK_LAYER_CROSS) return (layer_kind){RK_OPTION_dtype | LAYER_rank, 2, 2};
    const rk_op *found = rk_op_find(rk_layer_ops[op]);
    return (layer_kind){found->options, found->min_inputs, found->max_inputs};
}

const rk_yaml_node *rk_layer_yaml_node(const rk_yaml *yaml, int64_t layer, const char *key) {
    const rk_yaml_node *model = yaml ? rk_yaml_find_key(yaml->root, "model") : NULL,
                       *layers = rk_yaml_find_key(model, "layers");
    if (!layers || layers->kind != RK_YAML_SEQUENCE || (size_t)layer >= layers->n_children) return model;
    const rk_yaml_node *node = layers->children[layer], *child = rk_yaml_find_key(node, key);
    return child ? child : node;
}

rk_status rk_layer_names_index(const rk_model_section *section, rk_name_index *out) {
    return rk_name_index_init(out, section->layers, sizeof *section->layers, offsetof(rk_layer_section, name),
                              (int32_t)section->n_layers);
}

static rk_status check_layer_options(const rk_layer_section *l, int64_t number, const rk_yaml *yaml) {
    const struct {
        const char *key;
        unsigned bit;
        bool given;
    } options[] = {
        {"units", RK_OPTION_units, l->n_units > 0},
        {"by_row", RK_OPTION_by_row, l->by_row},
        {"bias", RK_OPTION_no_bias, !l->bias},
        {"relu", RK_OPTION_relu, l->relu},
        {"softmax", RK_OPTION_softmax, l->softmax},
        {"dtype", RK_OPTION_dtype, l->dtype >= 0},
        {"rate", RK_OPTION_rate, l->rate != 0},
        {"epsilon", RK_OPTION_epsilon, l->epsilon != 0},
        {"momentum", RK_OPTION_momentum, l->momentum != 0},
        {"first", RK_OPTION_first, l->first != 0},
        {"count", RK_OPTION_count, l->count != 0},
        {"rows", RK_OPTION_rows, l->rows != 0},
        {"cols", RK_OPTION_cols, l->cols != 0},
        {"initializer", RK_OPTION_initializer, l->initializer.line != 0},
        {"activation", LAYER_activation, l->activation != NULL},
        {"batch_norm", LAYER_batch_norm, l->batch_norm},
        {"dropout", LAYER_dropout, l->dropout != 0},
        {"rank", LAYER_rank, l->rank != 0},
    };
    enum { N = sizeof options / sizeof options[0] };
    unsigned taken = layer_kind_of_op(l->op).options;
    char list[256] = "no options";
    for (int i = 0, n = 0; i < N; i++)
        if (taken & options[i].bit)
            n += snprintf(list + n, sizeof list - (size_t)n, "%s%s", n ? ", " : "", options[i].key);
    for (int i = 0; i < N; i++) {
        if (!options[i].given || (taken & options[i].bit)) continue;
        rk_yaml_error(yaml, rk_layer_yaml_node(yaml, number, options[i].key),
                      "operation '%s' does not use '%s'", rk_layer_ops[l->op], options[i].key);
        return rk_error_hint(RK_CONFIG, "it takes %s", list);
    }
    if (l->op == RK_LAYER_MLP ? l->n_units == 0 : l->n_units > 1)
        return rk_yaml_error(
            yaml, rk_layer_yaml_node(yaml, number, "units"),
            l->n_units ? "operation '%s' takes one number as 'units'" : "operation '%s' needs 'units'",
            rk_layer_ops[l->op]);
    return RK_OK;
}

static rk_status check_layer_name(const rk_layer_section *l, int64_t number, const rk_yaml *yaml) {
    const rk_yaml_node *node = rk_layer_yaml_node(yaml, number, "name");
    if (!*l->name || strchr(l->name, ':'))
        return rk_yaml_error(yaml, node, "a layer's name must be text without ':', not '%s'", l->name);
    if (rk_graph_input_from_name(l->name) < 0 && strcmp(l->name, RK_OUTPUTS_NAME) != 0 &&
        strcmp(l->name, RK_LOG_VARIANCES_NAME) != 0)
        return RK_OK;
    return rk_yaml_error(yaml, node, "the layer name '%s' is reserved", l->name);
}

static rk_status check_layer(const rk_layer_section *l, int64_t number, const rk_yaml *yaml) {
    layer_kind kind = layer_kind_of_op(l->op);
    RK_TRY(check_layer_name(l, number, yaml));
    RK_TRY(check_layer_options(l, number, yaml));
    if (l->n_inputs >= kind.min_inputs && (!kind.max_inputs || l->n_inputs <= kind.max_inputs)) return RK_OK;
    rk_yaml_error(yaml, rk_layer_yaml_node(yaml, number, "inputs"), "operation '%s' does not take %d inputs",
                  rk_layer_ops[l->op], (int)l->n_inputs);
    if (kind.max_inputs > kind.min_inputs)
        return rk_error_hint(RK_CONFIG, "it takes %d to %d", kind.min_inputs, kind.max_inputs);
    return rk_error_hint(RK_CONFIG, kind.max_inputs ? "it takes %d" : "it takes %d or more", kind.min_inputs);
}

/* Only what stands above may be read, so that there is no circle. */
static rk_status check_layer_order(const rk_model_section *s, const rk_yaml *yaml, const rk_name_index *index,
                                   bool *used) {
    for (int64_t i = 0; i < s->n_layers; i++)
        for (int64_t k = 0; k < s->layers[i].n_inputs; k++) {
            const char *input = s->layers[i].inputs[k];
            int32_t found = rk_name_index_find(index, input);
            if (found >= 0 && found < i) used[found] = true;
            if (found < i) continue;
            rk_yaml_error(yaml, rk_layer_yaml_node(yaml, i, "inputs"),
                          found == i ? "layer '%s' reads itself" : "layer '%s' is defined further below",
                          input);
            return rk_error_hint(
                RK_CONFIG,
                "a layer reads those above it; for the feature of this name write '" RK_FEATURE_PREFIX "%s'",
                input);
        }
    return RK_OK;
}

static rk_status check_output_names(const rk_model_section *s, const rk_yaml *yaml,
                                    const rk_name_index *index, bool *used) {
    if (s->n_outputs == 0) used[s->n_layers - 1] = true;
    for (int64_t i = 0; i < s->n_outputs; i++) {
        int32_t found = rk_name_index_find(index, s->outputs[i]);
        if (found >= 0) {
            used[found] = true;
            continue;
        }
        rk_yaml_error(yaml, rk_yaml_find_key(rk_yaml_find_key(yaml ? yaml->root : NULL, "model"), "outputs"),
                      "there is no layer '%s'", s->outputs[i]);
        return rk_hint_nearest_name(RK_CONFIG, s->outputs[i], s->layers, sizeof *s->layers,
                                    offsetof(rk_layer_section, name), (size_t)s->n_layers);
    }
    for (int64_t i = 0; i < s->n_layers; i++) {
        if (used[i]) continue;
        rk_yaml_error(yaml, rk_layer_yaml_node(yaml, i, "name"), "nothing uses the layer '%s'",
                      s->layers[i].name);
        return rk_error_hint(RK_CONFIG,
                             "add it to the 'inputs' of a layer below or to 'outputs', or remove it");
    }
    return RK_OK;
}

static rk_status check_duplicates_and_outputs(const rk_model_section *s, const rk_yaml *yaml,
                                              const rk_name_index *index, bool *used) {
    int32_t twin = rk_name_index_find_duplicate(index);
    if (twin >= 0)
        return rk_yaml_error(yaml, rk_layer_yaml_node(yaml, twin, "name"), "duplicate layer name '%s'",
                             s->layers[twin].name);
    RK_TRY(check_layer_order(s, yaml, index, used));
    return check_output_names(s, yaml, index, used);
}

rk_status rk_graph_section_check(const rk_model_section *s, const rk_yaml *yaml) {
    if (s->n_layers == 0) {
        rk_yaml_error(yaml, rk_layer_yaml_node(yaml, 0, "layers"), "model 'graph' needs 'layers'");
        return rk_error_hint(RK_CONFIG, "'reckon inspect --graph' prints any model as layers, to begin with");
    }
    for (int64_t i = 0; i < s->n_layers; i++) RK_TRY(check_layer(&s->layers[i], i, yaml));
    RK_AUTO(rk_name_index_release) rk_name_index index = {0};
    RK_AUTOFREE bool *used = NULL;
    RK_TRY(rk_layer_names_index(s, &index));
    RK_TRY(rk_alloc((size_t)s->n_layers, sizeof *used, &used));
    return check_duplicates_and_outputs(s, yaml, &index, used);
}
