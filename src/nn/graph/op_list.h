/* Every operation of the graph, once: to add one, write src/nn/ops/op_<name>.c and a line here
 * (docs/operations.md). */
#ifndef RK_NN_GRAPH_OP_LIST_H
#define RK_NN_GRAPH_OP_LIST_H

#define RK_OP_LIST(X)  \
    X(linear)          \
    X(relu)            \
    X(gelu)            \
    X(sigmoid)         \
    X(tanh)            \
    X(softmax)         \
    X(batch_norm)      \
    X(layer_norm)      \
    X(dropout)         \
    X(concat)          \
    X(slice)           \
    X(reshape)         \
    X(add)             \
    X(multiply)        \
    X(sum_rows)        \
    X(sum_all)         \
    X(bias)            \
    X(fm)              \
    X(dot_interaction) \
    X(cross_v1)        \
    X(cross_combine)   \
    X(batch_matmul)    \
    X(product_logit)   \
    X(constant)        \
    X(l2_normalize)    \
    X(transpose)       \
    X(cin)             \
    X(attention)       \
    X(number_vectors)  \
    X(gate)            \
    X(target_pairs)    \
    X(attention_pool)  \
    X(mask)

#endif
