/* A preset expands into the dense graph. */
#ifndef RK_MODEL_PRESETS_PRESET_H
#define RK_MODEL_PRESETS_PRESET_H

#include "model/model_config.h"
#include "nn/graph/layers.h"

/* A categorical feature's columns of `vectors`. */
typedef struct rk_preset_feature {
    const char *name;
    int32_t first, width;
    int32_t length;        /* of a sequence, in vectors, padding with it; 0: it is none */
    int32_t length_column; /* of `lengths`, if it is one */
} rk_preset_feature;

/* The graph's inputs; -1 where there is none. */
typedef struct rk_preset_inputs {
    rk_value dense;       /* [1, n_dense] */
    rk_value vectors;     /* [1, sum of widths]: all features' embeddings side by side */
    rk_value vector_rows; /* the same as [n_vectors, dim] where all dims are equal, else -1 */
    rk_value linear;      /* [1, n_linear]: one weight a feature */
    rk_value lengths;     /* [1, n_sequences]: how many vectors each sequence has */
    int32_t n_vectors, dim;
    int32_t n_tasks;
    rk_dtype dtype;                    /* of the linear layers */
    const rk_preset_feature *features; /* [n_features]: those of `vectors`, in order */
    int32_t n_features;
} rk_preset_inputs;

/* Groups of keys of the `model:` section; linear_l2 and linear_l2_full go with rk_preset.linear. */
enum {
    RK_KEYS_DEEP = 1,       /* deep, activation, batch_norm, dropout */
    RK_KEYS_BOTTOM = 2,     /* bottom */
    RK_KEYS_CROSS = 4,      /* cross_layers */
    RK_KEYS_CROSS_KIND = 8, /* cross_kind, cross_rank, cross_experts */
    RK_KEYS_STRUCTURE = 16, /* structure */
    RK_KEYS_CIN = 32,       /* cin */
    RK_KEYS_ATTENTION = 64, /* attention_layers, attention_heads, attention_dim */
    RK_KEYS_STREAMS = 128,  /* deep2, dropout2, fusion_heads, gates, gate_context, gate_context2, gate_deep */
    RK_KEYS_MASK = 256,     /* mask_blocks, reduction_ratio */
    RK_KEYS_TOWERS = 1 << 9,     /* towers; activation, batch_norm, dropout */
    RK_KEYS_EXPERTS = 1 << 10,   /* experts, expert_units */
    RK_KEYS_LEVELS = 1 << 11,    /* levels, task_experts, shared_experts, expert_units */
    RK_KEYS_RETRIEVAL = 1 << 12, /* retrieval */
    RK_KEYS_TARGETS = 1 << 13    /* attention, attention_deep, attention_softmax */
};

/* What a preset needs of the embeddings and the dense input. */
typedef struct rk_preset {
    const char *name;
    unsigned keys;         /* RK_KEYS_*: those that it uses */
    bool vectors, linear;  /* dim-d embeddings; dim-1 weights */
    bool equal_dims;       /* vector_rows must exist */
    bool lengths;          /* of sequences, if there are any */
    bool deep_is_optional; /* no deep part without `deep` */
    bool needs_features;   /* refused where the data has no categorical feature */
    bool one_task;         /* refused where the data has several labels */
    bool vector_pairs;     /* products of two vectors are what it is about */
    bool pairs;            /* learns from pairs of a user and an item, without labels (retrieval.h) */
    /* Builds the logits [1, n_tasks]; errors stick to the graph. */
    rk_value (*build)(rk_graph *graph, const rk_model_section *section, const rk_preset_inputs *inputs);
} rk_preset;

/* NULL if there is no such kind. */
const rk_preset *rk_preset_of(int kind);

#endif
