/* The `model:` section of a run file. */
#ifndef RK_MODEL_MODEL_CONFIG_H
#define RK_MODEL_MODEL_CONFIG_H

#include "base/yaml/schema.h"
#include "model/section/layer_section.h"
#include "model/retrieval/retrieval_config.h"

/* Every model preset, once: X(name). Each is src/model/preset_<name>.c (docs/models.md says how to add
 * one). */
// clang-format off
#define RK_PRESET_LIST(X)                                                                                 \
    X(lr)                                                                                                 \
    X(fm)                                                                                                 \
    X(dnn)                                                                                                \
    X(wide_deep)                                                                                          \
    X(deepfm)                                                                                             \
    X(dlrm)                                                                                               \
    X(dcn) X(dcn_v2) X(xdeepfm) X(autoint) X(final_mlp) X(masknet) X(din) X(shared_bottom) X(mmoe) X(ple) \
        X(two_tower)
// clang-format on

/* A section's kind: a preset, or a graph that the file writes out (graph_section.h). */
enum {
#define RK_KIND_NUMBER(name) RK_KIND_##name,
    RK_PRESET_LIST(RK_KIND_NUMBER)
#undef RK_KIND_NUMBER
        RK_KIND_GRAPH
};
enum { RK_CROSS_FULL, RK_CROSS_LOW_RANK, RK_CROSS_MIXTURE };
enum { RK_STRUCTURE_PARALLEL, RK_STRUCTURE_STACKED };
enum { RK_TASK_WEIGHTS_FIXED, RK_TASK_WEIGHTS_UNCERTAINTY };
enum {
    RK_MAX_LAYERS = 32,
    RK_MAX_EXPERTS = 64,
    RK_MAX_HEADS = 64,
    RK_MAX_CONTEXT = 32,
    RK_MAX_PAIRS = 16,
    RK_MAX_LEVELS = 8,
    RK_MAX_TOWERS = 64,
    RK_MAX_UNITS = 1 << 20
};

/* A feature, and the sequence of those before it. */
typedef struct rk_attention_pair {
    char *target, *history;
} rk_attention_pair;

/* What the file does not give is left empty here (0, NULL, NaN, -1 of an enum): the preset's own default
 * stands for it (preset_blocks.h). */
typedef struct rk_model_section {
    int line;
    int kind;      /* RK_KIND_* */
    int64_t *deep; /* hidden units of the deep part; its own default a preset */
    int64_t n_deep;
    double feature_dropout; /* of presets but two_tower: a feature's vector, whole */
    int64_t *bottom; /* dlrm: of the MLP over the dense input; the last must equal the embedding dim, or be 0,
                        which stands for it */
    int64_t n_bottom;
    char *activation;                     /* relu */
    bool batch_norm;                      /* false */
    double dropout;                       /* 0 */
    int64_t cross_layers;                 /* dcn, dcn_v2: 3 */
    int cross_kind;                       /* dcn_v2: full */
    int64_t cross_rank;                   /* low_rank, mixture: 64 */
    int64_t cross_experts;                /* mixture: 4 */
    int64_t experts;                      /* mmoe: 4 */
    int64_t task_experts, shared_experts; /* ple: of a level, a task's own and those of all; 1 each */
    int64_t levels;                       /* ple: 2 */
    int64_t *expert_units;                /* mmoe, ple: layers of an expert */
    int64_t n_expert_units;
    int64_t *towers; /* shared_bottom, mmoe, ple: layers of a task's tower */
    int64_t n_towers;
    int task_weights; /* fixed */
    int structure;    /* dcn, dcn_v2, masknet: parallel */
    int64_t *cin;     /* xdeepfm: maps of each layer */
    int64_t n_cin;
    int64_t attention_layers, attention_heads, attention_dim; /* autoint: 3, 2, 32 */
    int64_t *deep2;                                           /* final_mlp: units of the second stream */
    int64_t n_deep2;
    double dropout2;                      /* NaN: dropout */
    int64_t fusion_heads;                 /* 1 */
    bool gates;                           /* true */
    char **gate_context, **gate_context2; /* features; none: the gates are learned as such */
    int64_t n_gate_context, n_gate_context2;
    int64_t *gate_deep; /* hidden units from a context to its gate: 64 */
    int64_t n_gate_deep;
    int64_t *mask_blocks; /* masknet: units of each block */
    int64_t n_mask_blocks;
    double reduction_ratio;       /* 2 */
    rk_attention_pair *attention; /* din */
    int64_t n_attention;
    int64_t *attention_deep; /* units of the activation unit: 64, 32 */
    int64_t n_attention_deep;
    bool attention_softmax; /* false */
    double linear_l2;       /* of the dim-1 tables of the wide part; NaN: embedding.l2 */
    double linear_l2_full;
    rk_retrieval_section retrieval; /* two_tower */
    rk_layer_section *layers;       /* graph */
    int64_t n_layers;
    char **outputs; /* graph: layers; empty: the last one */
    int64_t n_outputs;
} rk_model_section;

extern const rk_schema rk_model_schema;
extern const rk_schema rk_graph_schema; /* the same struct, but only the keys of a graph */

/* What the keys mean together: a kind, and only keys that the kind uses. Errors name the line through `yaml`
 * (NULL: no line known). */
rk_status rk_model_section_check_keys(const rk_model_section *section, const rk_yaml *yaml);

#endif
