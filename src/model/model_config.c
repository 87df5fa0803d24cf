#include "model/model_config.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/find_text.h"
#include "base/text/text.h"
#include "model/section/graph_section.h"

static const char *const kinds[] = {
#define RK_PRESET_TEXT(name) #name,
    RK_PRESET_LIST(RK_PRESET_TEXT)
#undef RK_PRESET_TEXT
        [RK_KIND_GRAPH] = "graph"};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };
static const char *const cross_kinds[] = {"full", "low_rank", "mixture"};
static const char *const structures[] = {"parallel", "stacked"};
static const char *const task_weights[] = {"fixed", "uncertainty"};
static const char *const activations[] = {"relu", "gelu", "sigmoid", "tanh", "none"};

static const rk_field pair_fields[] = {
    RK_FIELD_TEXT(rk_attention_pair, target, true, NULL, "a categorical feature"),
    RK_FIELD_TEXT(rk_attention_pair, history, true, NULL, "the sequence feature with the history"),
};
static const rk_schema pair_schema = RK_SCHEMA("attention", rk_attention_pair, pair_fields);

#define TASK_FIELDS                                                \
    RK_FIELD_ENUM(rk_model_section, task_weights, 0, task_weights, \
                  "weights of the labels' losses: as the labels say, or learned (uncertainty)")
#define LINEAR_FIELDS                                                                                    \
    RK_FIELD_F64(rk_model_section, linear_l2, RK_UNSET, 0, INFINITY,                                     \
                 "lr, fm, wide_deep, deepfm, xdeepfm, graph: l2 of the features' dim-1 weights; unset: " \
                 "embedding.l2"),                                                                        \
        RK_FIELD_F64(rk_model_section, linear_l2_full, RK_UNSET, 0, INFINITY,                            \
                     "likewise l2_full; unset: embedding.l2_full")
#define LAYER_FIELDS                                                           \
    RK_FIELD_LIST(rk_model_section, layers, n_layers, &rk_layer_schema, false, \
                  "graph: its operations; each reads those above it"),         \
        RK_FIELD_ARRAY(                                                        \
            TEXTS, rk_model_section, outputs, n_outputs, 0, 0,                 \
            "graph: the layers whose values, side by side, are the labels' logits; empty: the last")

static const rk_field fields[] = {
    RK_FIELD_ENUM(rk_model_section, kind, -1, kinds, "which model (docs/models.md)"),
    RK_FIELD_ARRAY(I64S, rk_model_section, deep, n_deep, 1, RK_MAX_UNITS,
                   "hidden units of the MLP; by default 256, 128, 64 (dlrm: 512, 256; shared_bottom: 256, "
                   "128; autoint, two_tower: none); []: none"),
    RK_FIELD_ARRAY(I64S, rk_model_section, bottom, n_bottom, 0, RK_MAX_UNITS,
                   "dlrm, dcn_v2: units of the MLP over the dense input; 0 as the last: the embedding dim, "
                   "which dlrm needs; by default 128, 0 (dcn_v2: none); []: none"),
    RK_FIELD_TEXT(rk_model_section, activation, false, NULL,
                  "activation of hidden layers: relu (the default), gelu, sigmoid, tanh, none"),
    RK_FIELD_BOOL(rk_model_section, batch_norm, false,
                  "batch normalization in the deep part: linear, batch norm, activation, dropout"),
    RK_FIELD_F64(rk_model_section, dropout, 0, 0, 0.99,
                 "dropout rate after each hidden layer of the deep part; of a two_tower without one: of "
                 "users' vectors"),
    RK_FIELD_F64(rk_model_section, feature_dropout, 0, 0, 0.99,
                 "dropout rate of whole feature vectors of a sample in training"),
    RK_FIELD_I64(rk_model_section, cross_layers, 0, 0, 64, "dcn, dcn_v2: cross layers; 0: 3"),
    RK_FIELD_ENUM(rk_model_section, cross_kind, -1, cross_kinds,
                  "dcn_v2: a cross layer's matrix; full by default"),
    RK_FIELD_I64(rk_model_section, cross_rank, 0, 0, RK_MAX_UNITS,
                 "low_rank, mixture: the rank of the cross matrices; 0: 64"),
    RK_FIELD_I64(rk_model_section, cross_experts, 0, 0, RK_MAX_EXPERTS,
                 "mixture: experts of a cross layer; 0: 4"),
    RK_FIELD_ENUM(rk_model_section, structure, -1, structures,
                  "dcn, dcn_v2: cross and deep side by side (parallel, the default), or deep after cross; "
                  "masknet: the blocks"),
    RK_FIELD_ARRAY(I64S, rk_model_section, cin, n_cin, 1, RK_MAX_UNITS,
                   "xdeepfm: feature maps of each layer of the compressed interaction network; by default "
                   "128, 128; []: none"),
    RK_FIELD_I64(rk_model_section, attention_layers, 0, 0, 64, "autoint: interacting layers; 0: 3"),
    RK_FIELD_I64(rk_model_section, attention_heads, 0, 0, RK_MAX_HEADS, "autoint: heads of a layer; 0: 2"),
    RK_FIELD_I64(rk_model_section, attention_dim, 0, 0, 4096, "autoint: columns of a head; 0: 32"),
    RK_FIELD_ARRAY(I64S, rk_model_section, deep2, n_deep2, 1, RK_MAX_UNITS,
                   "final_mlp: hidden layers' units of the second stream; by default as deep; []: none"),
    RK_FIELD_F64(rk_model_section, dropout2, RK_UNSET, 0, 0.99,
                 "final_mlp: dropout rate of the second stream; unset: dropout"),
    RK_FIELD_I64(rk_model_section, fusion_heads, 0, 0, RK_MAX_HEADS,
                 "final_mlp: heads of the fusion: equal parts of the streams' outputs; 0: 1"),
    RK_FIELD_BOOL(rk_model_section, gates, true, "final_mlp: a gate for each column of each stream's input"),
    RK_FIELD_ARRAY(TEXTS, rk_model_section, gate_context, n_gate_context, 0, 0,
                   "final_mlp: features that the first stream's gates are computed from; the streams do not "
                   "read them; none: the gates are learned constants"),
    RK_FIELD_ARRAY(TEXTS, rk_model_section, gate_context2, n_gate_context2, 0, 0,
                   "final_mlp: likewise of the second stream"),
    RK_FIELD_ARRAY(
        I64S, rk_model_section, gate_deep, n_gate_deep, 1, RK_MAX_UNITS,
        "final_mlp: hidden layers' units between a context and its gates; by default 64; []: none"),
    RK_FIELD_ARRAY(I64S, rk_model_section, mask_blocks, n_mask_blocks, 1, RK_MAX_UNITS,
                   "masknet: units of each block; by default 128, 128, 128"),
    RK_FIELD_F64(rk_model_section, reduction_ratio, 0, 0, 64,
                 "masknet: width of a mask's first layer to the mask's; 0: 2"),
    RK_FIELD_I64(rk_model_section, experts, 0, 0, RK_MAX_EXPERTS, "mmoe: experts that all tasks share; 0: 4"),
    RK_FIELD_I64(rk_model_section, task_experts, 0, 0, RK_MAX_EXPERTS,
                 "ple: experts of each task's own, in each level; 0: 1"),
    RK_FIELD_I64(rk_model_section, shared_experts, 0, 0, RK_MAX_EXPERTS,
                 "ple: experts that all tasks share, in each level; 0: 1"),
    RK_FIELD_I64(rk_model_section, levels, 0, 0, RK_MAX_LEVELS, "ple: levels of experts and gates; 0: 2"),
    RK_FIELD_ARRAY(I64S, rk_model_section, expert_units, n_expert_units, 1, RK_MAX_UNITS,
                   "mmoe, ple: units of an expert's layers; by default 256, 128"),
    RK_FIELD_ARRAY(
        I64S, rk_model_section, towers, n_towers, 1, RK_MAX_UNITS,
        "shared_bottom, mmoe, ple: units of each task's own hidden layers; by default 64; []: none"),
    TASK_FIELDS,
    RK_FIELD_LIST(rk_model_section, attention, n_attention, &pair_schema, false,
                  "din: histories that are pooled by attention to a target"),
    RK_FIELD_ARRAY(I64S, rk_model_section, attention_deep, n_attention_deep, 1, RK_MAX_UNITS,
                   "din: hidden layers' units of the activation unit; by default 64, 32; []: none"),
    RK_FIELD_BOOL(rk_model_section, attention_softmax, false,
                  "din: softmax over a history's attention weights"),
    LINEAR_FIELDS,
    RK_FIELD_STRUCT(rk_model_section, retrieval, &rk_retrieval_schema,
                    "two_tower: pairs, negatives and loss (docs/retrieval.md)"),
    LAYER_FIELDS,
};
static bool kind_accepts_key(const rk_yaml_node *node, const char *key);
const rk_schema rk_model_schema = {
    .name = "model",
    .struct_bytes = sizeof(rk_model_section),
    .fields = fields,
    .n_fields = sizeof fields / sizeof fields[0],
    .scalar_key = "kind",
    .takes = kind_accepts_key,
    .has_line = true,
    .line_offset = offsetof(rk_model_section, line),
};

static const rk_field graph_fields[] = {RK_FIELD_ENUM(rk_model_section, kind, -1, kinds, NULL), TASK_FIELDS,
                                        LINEAR_FIELDS, LAYER_FIELDS};
const rk_schema rk_graph_schema = RK_SCHEMA("model", rk_model_section, graph_fields);

enum { KEYS_LINEAR = 1 << 16, KEYS_GRAPH = 1 << 17, KEYS_VECTORS = 1 << 18 };

static unsigned accepted_keys_of_kind(int kind) {
    const rk_preset *preset = rk_preset_of(kind);
    if (!preset) return (unsigned)(KEYS_LINEAR | KEYS_GRAPH);
    return preset->keys | (preset->linear ? (unsigned)KEYS_LINEAR : 0) |
           (preset->vectors && !preset->pairs ? (unsigned)KEYS_VECTORS : 0);
}

/* The node of a key of the section, else the section's, else NULL. */
static const rk_yaml_node *find_model_key_node(const rk_yaml *yaml, const char *key) {
    const rk_yaml_node *model = yaml ? rk_yaml_find_key(yaml->root, "model") : NULL;
    const rk_yaml_node *node = rk_yaml_find_key(model, key);
    return node ? node : model;
}

static void append_to_name_list(char *list, size_t list_bytes, const char *name) {
    size_t n = strlen(list);
    snprintf(list + n, list_bytes - n, "%s%s", n ? ", " : "", name);
}

static rk_status unused_key_error(const rk_model_section *section, const rk_yaml *yaml, const char *key,
                                  unsigned group) {
    char users[256] = "";
    for (int kind = 0; kind < N_KINDS; kind++)
        if (accepted_keys_of_kind(kind) & group) append_to_name_list(users, sizeof users, kinds[kind]);
    rk_yaml_error(yaml, find_model_key_node(yaml, key), "model '%s' does not use '%s'", kinds[section->kind],
                  key);
    return rk_error_hint(RK_CONFIG, "'%s' is for %s", key, users);
}

/* The keys that not every kind uses: whether a section gives them, and who does. */
typedef struct key_use {
    const char *key;
    bool given;
    unsigned group;
} key_use;
enum { N_KEY_USES = 38 };

static void list_used_keys(const rk_model_section *section, key_use out[N_KEY_USES]) {
    const key_use uses[] = {
        {"deep", section->deep != NULL, RK_KEYS_DEEP},
        {"activation", section->activation != NULL, RK_KEYS_DEEP | RK_KEYS_TOWERS},
        {"batch_norm", section->batch_norm, RK_KEYS_DEEP | RK_KEYS_TOWERS},
        {"dropout", section->dropout != 0, RK_KEYS_DEEP | RK_KEYS_TOWERS},
        {"feature_dropout", section->feature_dropout != 0, KEYS_VECTORS},
        {"bottom", section->bottom != NULL, RK_KEYS_BOTTOM},
        {"cross_layers", section->cross_layers != 0, RK_KEYS_CROSS},
        {"structure", section->structure >= 0, RK_KEYS_STRUCTURE},
        {"cross_kind", section->cross_kind >= 0, RK_KEYS_CROSS_KIND},
        {"cross_rank", section->cross_rank != 0, RK_KEYS_CROSS_KIND},
        {"cross_experts", section->cross_experts != 0, RK_KEYS_CROSS_KIND},
        {"experts", section->experts != 0, RK_KEYS_EXPERTS},
        {"task_experts", section->task_experts != 0, RK_KEYS_LEVELS},
        {"shared_experts", section->shared_experts != 0, RK_KEYS_LEVELS},
        {"levels", section->levels != 0, RK_KEYS_LEVELS},
        {"expert_units", section->expert_units != NULL, RK_KEYS_EXPERTS | RK_KEYS_LEVELS},
        {"towers", section->towers != NULL, RK_KEYS_TOWERS},
        {"retrieval", section->retrieval.line != 0, RK_KEYS_RETRIEVAL},
        {"cin", section->cin != NULL, RK_KEYS_CIN},
        {"attention_layers", section->attention_layers != 0, RK_KEYS_ATTENTION},
        {"attention_heads", section->attention_heads != 0, RK_KEYS_ATTENTION},
        {"attention_dim", section->attention_dim != 0, RK_KEYS_ATTENTION},
        {"deep2", section->deep2 != NULL, RK_KEYS_STREAMS},
        {"dropout2", !isnan(section->dropout2), RK_KEYS_STREAMS},
        {"fusion_heads", section->fusion_heads != 0, RK_KEYS_STREAMS},
        {"gates", !section->gates, RK_KEYS_STREAMS},
        {"gate_context", section->n_gate_context > 0, RK_KEYS_STREAMS},
        {"gate_context2", section->n_gate_context2 > 0, RK_KEYS_STREAMS},
        {"gate_deep", section->gate_deep != NULL, RK_KEYS_STREAMS},
        {"mask_blocks", section->mask_blocks != NULL, RK_KEYS_MASK},
        {"reduction_ratio", section->reduction_ratio != 0, RK_KEYS_MASK},
        {"attention", section->n_attention > 0, RK_KEYS_TARGETS},
        {"attention_deep", section->attention_deep != NULL, RK_KEYS_TARGETS},
        {"attention_softmax", section->attention_softmax, RK_KEYS_TARGETS},
        {"linear_l2", !isnan(section->linear_l2), KEYS_LINEAR},
        {"linear_l2_full", !isnan(section->linear_l2_full), KEYS_LINEAR},
        {"layers", section->n_layers > 0, KEYS_GRAPH},
        {"outputs", section->n_outputs > 0, KEYS_GRAPH},
    };
    static_assert(sizeof uses == N_KEY_USES * sizeof *uses, "as many as there are");
    memcpy(out, uses, sizeof uses);
}

static rk_status check_unused_keys(const rk_model_section *section, const rk_yaml *yaml) {
    key_use keys[N_KEY_USES];
    list_used_keys(section, keys);
    for (size_t i = 0; i < N_KEY_USES; i++)
        if (keys[i].given && !(accepted_keys_of_kind(section->kind) & keys[i].group))
            return unused_key_error(section, yaml, keys[i].key, keys[i].group);
    return RK_OK;
}

static bool kind_accepts_key(const rk_yaml_node *node, const char *key) {
    static const rk_model_section none;
    const rk_yaml_node *said = rk_yaml_find_key(node, "kind");
    key_use keys[N_KEY_USES];
    int kind = N_KINDS;
    if (!said && node) said = node->short_form;
    while (said && said->scalar && --kind >= 0 && strcmp(kinds[kind], said->scalar) != 0) continue;
    if (kind < 0 || kind == N_KINDS) return true;
    list_used_keys(&none, keys);
    const struct key_use *use = RK_FIND_BY(key, key, keys, N_KEY_USES);
    return !use || (accepted_keys_of_kind(kind) & use->group);
}

static rk_status check_cross_keys(const rk_model_section *section, const rk_yaml *yaml) {
    bool full = section->cross_kind != RK_CROSS_LOW_RANK && section->cross_kind != RK_CROSS_MIXTURE;
    if (section->cross_rank && full)
        return rk_yaml_error(yaml, find_model_key_node(yaml, "cross_rank"),
                             "full cross layers have no rank\nhint: set cross_kind to low_rank or mixture");
    if (section->cross_experts && section->cross_kind != RK_CROSS_MIXTURE)
        return rk_yaml_error(yaml, find_model_key_node(yaml, "cross_experts"),
                             "only mixture cross layers have experts\nhint: set cross_kind to mixture");
    return RK_OK;
}

static rk_status check_gate_keys(const rk_model_section *section, const rk_yaml *yaml) {
    bool context = section->n_gate_context || section->n_gate_context2;
    const char *context_key = section->n_gate_context ? "gate_context" : "gate_context2";
    if (context && !section->gates)
        return rk_yaml_error(yaml, find_model_key_node(yaml, context_key),
                             "the gates are turned off\nhint: remove 'gates: false'");
    if (section->n_gate_deep && !context)
        return rk_yaml_error(yaml, find_model_key_node(yaml, "gate_deep"),
                             "only gates with a context have hidden layers\nhint: name features in "
                             "gate_context or gate_context2");
    if (section->n_gate_context > RK_MAX_CONTEXT || section->n_gate_context2 > RK_MAX_CONTEXT)
        return rk_yaml_error(yaml, find_model_key_node(yaml, context_key), "more than %d features",
                             RK_MAX_CONTEXT);
    return RK_OK;
}

/* Keys of a deep part that is not there. */
static rk_status check_keys_of_absent_deep(const rk_model_section *section, const rk_yaml *yaml) {
    if (!rk_preset_of(section->kind)->deep_is_optional || section->n_deep) return RK_OK;
    const char *key = section->activation     ? "activation"
                      : section->batch_norm   ? "batch_norm"
                      : section->dropout != 0 ? "dropout"
                                              : NULL;
    if (!key) return RK_OK;
    rk_yaml_error(yaml, find_model_key_node(yaml, key), "'%s' needs hidden layers, but model '%s' has none",
                  key, kinds[section->kind]);
    return rk_error_hint(RK_CONFIG, "set their units: deep: [256, 128]");
}

static rk_status check_activation(const char *name, const rk_yaml *yaml) {
    enum { N = sizeof activations / sizeof activations[0] };
    if (!name || rk_text_is_one_of(name, activations, N)) return RK_OK;
    const char *nearest = rk_nearest_name(name, activations, N);
    rk_yaml_error(yaml, find_model_key_node(yaml, "activation"), "unknown activation '%s'", name);
    if (nearest) return rk_error_hint(RK_CONFIG, "did you mean '%s'?", nearest);
    return rk_error_hint(RK_CONFIG, "it is one of relu, gelu, sigmoid, tanh, none");
}

static rk_status check_layer_sizes(const rk_model_section *section, const rk_yaml *yaml) {
    const rk_yaml_node *bottom = find_model_key_node(yaml, "bottom");
    const struct {
        const char *key;
        int64_t n;
    } layers[] = {{"deep", section->n_deep},
                  {"bottom", section->n_bottom},
                  {"cin", section->n_cin},
                  {"deep2", section->n_deep2},
                  {"gate_deep", section->n_gate_deep},
                  {"mask_blocks", section->n_mask_blocks},
                  {"towers", section->n_towers},
                  {"expert_units", section->n_expert_units},
                  {"attention_deep", section->n_attention_deep}};
    const struct {
        const char *key;
        bool is_empty;
    } needed[] = {{"mask_blocks", section->mask_blocks && section->n_mask_blocks == 0},
                  {"expert_units", section->expert_units && section->n_expert_units == 0}};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        if (layers[i].n > RK_MAX_LAYERS)
            return rk_yaml_error(yaml, find_model_key_node(yaml, layers[i].key), "more than %d layers",
                                 RK_MAX_LAYERS);
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (needed[i].is_empty)
            return rk_yaml_error(yaml, find_model_key_node(yaml, needed[i].key),
                                 "must not be empty for model '%s'", kinds[section->kind]);
    if (section->n_attention > RK_MAX_PAIRS)
        return rk_yaml_error(yaml, find_model_key_node(yaml, "attention"), "more than %d pairs",
                             RK_MAX_PAIRS);
    for (int64_t i = 0; i + 1 < section->n_bottom; i++)
        if (section->bottom[i] == 0)
            return rk_yaml_error(yaml, bottom,
                                 "only the last layer may have 0 units, which stand for the embedding dim");
    return RK_OK;
}

rk_status rk_model_section_check_keys(const rk_model_section *section, const rk_yaml *yaml) {
    if (section->kind < 0) {
        char list[256] = "";
        for (int kind = 0; kind < N_KINDS; kind++) append_to_name_list(list, sizeof list, kinds[kind]);
        rk_yaml_error(yaml, find_model_key_node(yaml, ""), "the 'model' section needs the key 'kind'");
        return rk_error_hint(RK_CONFIG, "it is one of %s", list);
    }
    RK_TRY(check_unused_keys(section, yaml));
    if (section->kind == RK_KIND_GRAPH) return rk_graph_section_check(section, yaml);
    RK_TRY(check_cross_keys(section, yaml));
    RK_TRY(check_gate_keys(section, yaml));
    RK_TRY(check_keys_of_absent_deep(section, yaml));
    RK_TRY(check_activation(section->activation, yaml));
    if (rk_preset_of(section->kind)->pairs)
        RK_TRY(rk_retrieval_section_check(&section->retrieval, yaml, find_model_key_node(yaml, "retrieval")));
    return check_layer_sizes(section, yaml);
}
