/* One layer of `model: {kind: graph, layers: [...]}`: an operation of the dense graph (nn/graph/op_list.h)
 * with its options, or a composite of several. */
#ifndef RK_MODEL_SECTION_LAYER_SECTION_H
#define RK_MODEL_SECTION_LAYER_SECTION_H

#include "base/yaml/schema.h"
#include "embedding/config/embedding_config.h"

/* An option that the operation does not use stays at its default. */
typedef struct rk_layer_section {
    int line;
    char *name;
    int op;        /* index: the operations, then the composites */
    char **inputs; /* layers above, dense, vectors, vector_rows, linear, lengths, or features */
    int64_t n_inputs;
    int64_t *units; /* mlp: one a layer; others: one */
    int64_t n_units;
    bool by_row, bias, relu, softmax;
    int dtype; /* 0: f32; -1: the run's */
    double rate, epsilon, momentum;
    int64_t first, count, rows, cols;
    rk_initializer_config initializer; /* line 0: the operation's own */
    char *activation;                  /* mlp */
    bool batch_norm;
    double dropout;
    int64_t rank; /* cross */
} rk_layer_section;

extern const rk_schema rk_layer_schema;

#endif
