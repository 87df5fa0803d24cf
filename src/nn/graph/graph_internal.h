/* Inside a graph: what building, planning and running share. */
#ifndef RK_NN_GRAPH_GRAPH_INTERNAL_H
#define RK_NN_GRAPH_GRAPH_INTERNAL_H

#include <stdatomic.h>

#include "base/thread/parallel_failure.h"
#include "base/text/name_map.h"
#include "base/tree_sum.h"
#include "nn/graph/op.h"

enum { RK_MAX_GRADIENT_SLICES = 64, RK_SPARE_GRADIENTS = 2 };

/* The sum of the groups' gradients in the order of the groups, and of micro-batches in the order of their
 * tree, without one waiting for another: a group that is done is added by whoever finds it next in order.
 * Group g has gradients of its own, number g modulo n_buffers, but for group 0, whose are the sum's
 * beginning. Backward goes from the last parameters to the first, and so do groups: the last slices of a
 * group may be added, and of all groups be told, while it is still under way. */
typedef struct rk_gradient_sum {
    rk_real **buffers;   /* [n_buffers][gradient_reals], zero between groups but for what is_written */
    size_t n_buffers;    /* of threads and RK_SPARE_GRADIENTS */
    atomic_size_t *done; /* [n_buffers]: slices that its group is done with, the last ones, and n_slices for
                            each group before that one */
    struct rk_gradient_slice {
        atomic_flag busy;   /* a thread adds to this slice of the batch's gradients */
        atomic_size_t next; /* the group to be added */
        rk_tree_sum tree;   /* of micro-batches that are summed up to there; sums are in partials */
    } slices[RK_MAX_GRADIENT_SLICES];
    int n_slices;
    const rk_graph_hooks *hooks;  /* ready is called for slices that are complete, */
    atomic_flag telling;          /* by one thread at a time, */
    atomic_int told;              /* from the last slice down to this one; */
    rk_parallel_failure *failure; /* what it returns */
    int64_t first, last;          /* the part of the gradients that is added up */
    int64_t n;                    /* samples */
    uint32_t first_micro_batch;
    size_t n_groups;
    rk_real *partials[RK_TREE_DEPTH]; /* [gradient_reals] each; number 0 is the batch's own */
    int n_partials;
} rk_gradient_sum;

struct rk_graph {
    uint64_t seed;
    rk_status status; /* of building: the first failure */
    char error[1024]; /* its message */
    rk_node **nodes;  /* [n_nodes]; a node's number is its value */
    size_t n_nodes, nodes_capacity;
    rk_name_map names;        /* of the nodes */
    rk_parameter *parameters; /* [n_parameters] */
    size_t n_parameters, parameters_capacity;
    bool finished, training, frozen;
    bool keeps;               /* the memory holds the whole batch, */
    bool node_by_node;        /* and nodes run one by one */
    int64_t max_batch, block; /* samples */
    int64_t step_batch;       /* those of a training step */
    int64_t n_micro_batches,
        micro_batch; /* of the batch, and samples of each; only the batch's last ones may have fewer */
    rk_graph_local_part local; /* set by the caller: which micro-batches run here */
    int64_t last_step;         /* of the last forward: dropout's backward draws the same mask */
    int64_t memory_reals;      /* for `block` samples, or max_batch if it keeps; set by the plan */
    int64_t gradient_reals;    /* of all parameters */
    rk_real *gradients;        /* [gradient_reals]: the batch's */
    /* a thread each, made when a run first has so many */
    rk_real **thread_memory;  /* [n_threads][memory_reals]; one for all if it keeps */
    void **thread_workspaces; /* [n_threads][workspace_bytes] */
    size_t workspace_bytes;
    int n_threads;
    rk_gradient_sum sum;
};

/* A graph that keeps the whole batch runs a block of samples through a segment of its nodes, then the next.
 * Forward, a node that needs sums over the batch first begins a segment; backward it ends one. Where
 * gradients are to be whole early (rk_graph_runs_node_by_node), and in a graph for prediction alone, each
 * node is a segment. */
static inline int32_t rk_node_n_passes(const rk_node *node) {
    return node && node->op ? node->op->n_passes : 0;
}
static inline bool rk_node_is_elementwise(const rk_node *node) {
    return node->op && node->op->is_elementwise;
}
static inline bool rk_graph_begins_segment(const rk_graph *graph, size_t node) {
    return graph->node_by_node || rk_node_n_passes(graph->nodes[node]);
}

/* Give every node its place in the memory of a run (graph_memory_plan.c). */
rk_status rk_graph_plan_memory(rk_graph *graph);
/* How memory that is not the CPU's has a graph's values: arrays [n_nodes]. */
typedef struct rk_value_layout {
    int32_t *hosts; /* an input of which it is not -1 has no place of its own, but columns of that node, whose
                       value and gradient then live as long as an input's */
    int64_t *strides; /* values from a sample to the next, for a shape's size */
    int64_t *saved;   /* what each keeps of a sample, for its saved_width */
} rk_value_layout;
/* The same for other memory, where runs have `samples` samples at once, or by_segments blocks of them: places
 * [n_nodes], of *total reals. layout NULL: as on the CPU. */
rk_status rk_graph_assign_memory(const rk_graph *graph, int64_t samples, bool training, bool by_segments,
                                 const rk_value_layout *layout, rk_place *places, int64_t *total);
/* The node whose memory a view shows. */
rk_node *rk_graph_storage_node(const rk_graph *graph, rk_value value);
/* First values of a parameter, from (seed, its name, the place). */
void rk_parameter_initialize(const rk_graph *graph, rk_parameter *parameter,
                             const rk_initializer *initializer);

/* What a dropout node's masks depend on, beside the step (op_dropout.c). */
typedef struct rk_dropout_rule {
    uint64_t seed;
    uint32_t limit; /* rate * 2^32 */
    rk_real keep;   /* 1 / (1 - rate) */
} rk_dropout_rule;
rk_dropout_rule rk_dropout_rule_of(const rk_graph *graph, const rk_node *node);
/* Which values of the run's samples stay, and drawing that alone; not of rows. */
uint8_t *rk_dropout_kept_values(const rk_run *run, const rk_node *node);
void rk_dropout_draw_kept_values(const rk_run *run, const rk_node *node);
/* Each batch_norm that relu alone reads, and perhaps dropout alone that, does their work too (graph_fuse.c).
 */
void rk_graph_join_norms(rk_graph *graph);

/* Samples first .. last-1 whose gradients are added up by one thread; n_groups of them. A group is within a
 * micro-batch. */
size_t rk_graph_n_groups(const rk_graph *graph, int64_t n);
void rk_graph_group_range(const rk_graph *graph, int64_t n, size_t group, int64_t *first, int64_t *last);

typedef struct rk_graph_context rk_graph_context;

struct rk_graph_inference {
    const rk_graph *graph;
    int n_threads;
    rk_real **memory;          /* [n_threads][memory_reals] */
    void **workspaces;         /* [n_threads][workspace_bytes] */
    rk_graph_context *context; /* of rk_graph_inference_set_context, or NULL */
};

/* Nodes that predict together what the operations say one by one (graph_fuse.c), of a graph whose nodes
 * are finished; training still runs those. rk_target_pairs_fuse_linear: a linear over target_pairs
 * (ops/op_pair_linear.c). rk_target_pairs_fuse_mlp: linears over target_pairs up to one unit, each read by
 * the next alone, and the last by `pool` alone; NULL: by others (ops/op_pair_weights.c). */
rk_status rk_graph_fuse_ops(rk_graph *graph);
rk_status rk_target_pairs_fuse_linear(rk_graph *graph, rk_node *linear, rk_node *pairs);
rk_status rk_target_pairs_fuse_mlp(rk_graph *graph, rk_node *pairs, rk_node *const *layers, int32_t n_layers,
                                   const rk_node *pool);
extern const rk_op rk_op_pair_linear, rk_op_pair_rows, rk_op_pair_weights;

/* What is the same in all samples of a run (graph_shared_context.c). */
rk_status rk_graph_context_create(const rk_graph *graph, rk_graph_context **out);
void rk_graph_context_free(rk_graph_context *context);
/* Once a run, by a run of one sample whose inputs were read. */
rk_status rk_graph_context_forward(rk_graph_context *context, const rk_run *run);
/* Of each block: the context's columns of the inputs that are read sample by sample. */
void rk_graph_context_fill_inputs(const rk_graph_context *context, const rk_run *run);
/* A node of a block: true if the context decides it, so that it need not be computed. */
bool rk_graph_context_fill(const rk_graph_context *context, const rk_run *run, const rk_node *node);

/* Memory for every thread of the pool (graph_memory.c). */
rk_status rk_graph_allocate_memory(rk_graph *graph);
void rk_graph_release_memory(rk_graph *graph);
/* The sum of the gradients first .. last-1 of n_groups groups (graph_gradients.c). A group takes its
 * gradients, zeros but for what is_written, adds to them and is done, at once or with those from ever lower
 * offsets on. */
void rk_gradient_sum_begin(rk_graph *graph, const rk_run *run, int64_t first, int64_t last,
                           const rk_graph_hooks *hooks, rk_parallel_failure *failure);
rk_real *rk_gradient_sum_acquire_buffer(rk_graph *graph, size_t group);
void rk_gradient_sum_finish_group(rk_graph *graph, size_t group, int64_t first);

#endif
