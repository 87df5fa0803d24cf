/* Running a graph over a batch: a block of samples at a time through all nodes, or, where samples depend on
 * each other, through a segment of them (graph_internal.h). */
#include <string.h>

#include "base/memory.h"
#include "base/thread/trace.h"
#include "nn/graph/graph_internal.h"

/* One pass over a batch. */
typedef struct pass pass;
struct pass {
    const rk_graph *graph;
    rk_graph *trained; /* the same, where gradients may be summed; NULL where it is only read */
    const rk_graph_hooks *hooks;
    rk_run run;        /* but for the block */
    int64_t block;     /* samples of a block, at most */
    rk_real **memory;  /* [n_threads], of a block each; or one of the whole batch, if is_kept */
    void **workspaces; /* [n_threads] */
    bool is_kept;
    const atomic_bool *cancel; /* no more blocks are begun once it is set; may be NULL */
    rk_status (*step)(const pass *p, const rk_run *run);
    int64_t first_gradient, last_gradient; /* of the parameters that the step adds to; equal: none */
    bool backward;                         /* of train_block: with other work beside */
    size_t first_node, last_node;          /* nodes first .. last-1 are the segment under way, */
    rk_node *summing;                      /* and this node's sums are gathered behind it, or NULL: */
    int32_t gather;                        /* the pass, */
    rk_real *partials;                     /* [n_blocks, gather_width] */
    size_t n_groups;
    atomic_size_t next_group, next_beside; /* to be begun */
    rk_parallel_failure failure;           /* of the lowest block */
};

static void run_blocks_of_group(void *context, size_t group, int thread) {
    pass *p = context;
    const rk_graph *g = p->graph;
    int64_t first, last;
    rk_graph_group_range(g, p->run.here, group, &first, &last);
    rk_run run = p->run;
    run.group = group;
    run.memory = p->memory[p->is_kept ? 0 : thread];
    run.workspace = p->workspaces[thread];
    bool adds = p->first_gradient < p->last_gradient;
    bool is_late =
        group + (size_t)g->n_threads >= p->n_groups; /* no other group comes after it on its thread */
    if (adds) run.gradients = rk_gradient_sum_acquire_buffer(p->trained, group);
    for (run.first = first; run.first < last; run.first += p->block) {
        if (p->cancel && atomic_load_explicit(p->cancel, memory_order_relaxed)) return;
        run.n = last - run.first < p->block ? last - run.first : p->block;
        run.opens = run.first == first;
        run.tells = p->backward && p->hooks->ready && is_late && run.first + run.n == last;
        run.skip = p->is_kept ? run.first : 0;
        rk_parallel_failure_record(&p->failure, run.first, p->step(p, &run));
    }
    if (!adds) return;
    uint64_t begin = rk_trace_begin();
    rk_gradient_sum_finish_group(p->trained, group, p->first_gradient);
    rk_trace_end(begin, "sum gradients");
}

/* Half of the threads begin with the groups and half with the work beside, which leans on memory where groups
 * lean on arithmetic; whoever runs out of one kind goes on with the other. Groups are begun in order either
 * way. */
static void run_group_or_side_work(void *context, size_t task, int thread) {
    (void)task;
    pass *p = context;
    bool prefers_beside = thread % 2 == 1;
    for (int attempt = 0; attempt < 2; attempt++) {
        bool beside = prefers_beside != (attempt == 1);
        size_t number = atomic_fetch_add(beside ? &p->next_beside : &p->next_group, 1);
        if (beside ? number >= p->hooks->n_beside : number >= p->n_groups) continue;
        if (beside)
            p->hooks->beside(p->hooks->context, number);
        else
            run_blocks_of_group(context, number, thread);
        return;
    }
}

static rk_status for_each_block(pass *p, rk_status (*step)(const pass *p, const rk_run *run)) {
    p->step = step;
    p->n_groups = rk_graph_n_groups(p->graph, p->run.here);
    if (p->first_gradient < p->last_gradient)
        rk_gradient_sum_begin(p->trained, &p->run, p->first_gradient, p->last_gradient, p->hooks,
                              &p->failure);
    if (p->hooks->n_beside > 0 && p->backward) {
        atomic_store(&p->next_group, 0);
        atomic_store(&p->next_beside, 0);
        rk_parallel_for(p->n_groups + p->hooks->n_beside, run_group_or_side_work, p);
    } else {
        rk_parallel_for(p->n_groups, run_blocks_of_group, p);
    }
    return rk_parallel_failure_status(&p->failure);
}

static rk_status call_hook(rk_status (*hook)(void *context, const rk_run *run), const pass *p,
                           const rk_run *run) {
    return hook ? hook(p->hooks->context, run) : RK_OK;
}

static bool is_computed_node(const rk_node *node) {
    return node->op && !node->op->is_view && !node->doer;
}

static void zero_node_gradient(const rk_run *run, const rk_node *root) {
    memset(rk_node_gradient(run, root), 0, (size_t)(run->n * rk_shape_size(root->shape)) * sizeof(rk_real));
}

/* The first block of a group writes a weight's gradient, be it to zeros. */
static void zero_weight_gradient(const rk_run *run, const rk_node *node) {
    const rk_parameter *weight = node->op && node->op->writes_weight && run->opens
                                     ? &run->graph->parameters[node->parameters[0]]
                                     : NULL;
    if (weight)
        memset(rk_node_parameter_gradient(run, node, 0), 0,
               (size_t)(weight->rows * weight->cols) * sizeof(rk_real));
}

/* Samples of a block that a node does not rest for. */
static int64_t samples_of_node(const pass *p, const rk_run *run, const rk_node *node) {
    int64_t n = run->here - p->hooks->n_rest - run->first;
    return !p->is_kept || !node->leads || n > run->n ? run->n : n < 0 ? 0 : n;
}

static rk_status forward_node(const pass *p, const rk_run *block, const rk_node *node) {
    rk_run run = *block;
    run.n = samples_of_node(p, block, node);
    if (run.n == 0 || !is_computed_node(node)) return RK_OK;
    if (run.context && rk_graph_context_fill(run.context, &run, node)) return RK_OK;
    return rk_forward_op(node, run.training)->forward(&run, node);
}

/* The first node to add to a gradient finds zeros, or may write it. */
static rk_status backward_node(const pass *p, const rk_run *block, const rk_node *node) {
    rk_run run = *block;
    run.n = samples_of_node(p, block, node);
    if (run.n == 0) {
        zero_weight_gradient(&run, node);
        return RK_OK;
    }
    bool is_view = node->op && node->op->is_view;
    if (node->doer) return RK_OK;
    if (!node->is_used && !node->is_output && !is_view)
        zero_node_gradient(&run, node); /* a value that nothing reads */
    if (!is_computed_node(node)) return RK_OK;
    for (int32_t k = 0; k < node->n_inputs; k++)
        if (node->first_gradient[k] && !node->op->writes_gradient)
            zero_node_gradient(&run, rk_graph_storage_node(run.graph, node->inputs[k]));
    return node->op->backward(&run, node);
}

/* Of nodes first .. last-1, those that run together at the end where a pass begins. */
static size_t count_elementwise(const rk_graph *g, size_t first, size_t last, bool backward) {
    size_t n = 0;
    while (n < last - first && rk_node_is_elementwise(g->nodes[backward ? last - 1 - n : first + n])) n++;
    return n ? n : 1;
}

static rk_status run_each(const pass *p, const rk_run *run, size_t first, size_t last, bool backward) {
    for (size_t i = 0; i < last - first; i++)
        RK_TRY(backward ? backward_node(p, run, p->graph->nodes[last - 1 - i])
                        : forward_node(p, run, p->graph->nodes[first + i]));
    return RK_OK;
}

/* A few samples at a time, whose values stay in the first caches from node to node. */
static rk_status run_elementwise(const pass *p, const rk_run *block, size_t first, size_t last,
                                 bool backward) {
    enum { CACHED_REALS = 1 << 14, LEAST = 16 };
    int64_t piece = CACHED_REALS / rk_shape_size(p->graph->nodes[first]->shape) / LEAST * LEAST;
    if (piece < LEAST) piece = LEAST;
    rk_run run = *block;
    for (int64_t at = 0; at < block->n; at += piece) {
        run.first = block->first + at;
        run.skip = block->skip + at;
        run.n = block->n - at < piece ? block->n - at : piece;
        RK_TRY(run_each(p, &run, first, last, backward));
    }
    return RK_OK;
}

/* Nodes first .. last-1 in turn; backward, the other way round. */
static rk_status run_nodes(const pass *p, const rk_run *run, bool backward) {
    const rk_graph *g = p->graph;
    for (size_t first = p->first_node, last = p->last_node; first < last;) {
        size_t n = count_elementwise(g, first, last, backward), begin = backward ? last - n : first;
        RK_TRY((n > 1 ? run_elementwise : run_each)(p, run, begin, begin + n, backward));
        if (backward && run->tells && g->nodes[begin]->n_parameters)
            rk_gradient_sum_finish_group(p->trained, run->group,
                                         g->parameters[g->nodes[begin]->parameters[0]].offset);
        *(backward ? &last : &first) = backward ? begin : begin + n;
    }
    return RK_OK;
}

static void gather_partials(const pass *p, const rk_run *run) {
    if (p->summing)
        p->summing->op->gather(
            run, p->summing, p->gather,
            p->partials + (int64_t)rk_graph_block_number_of_run(run) * p->summing->gather_width);
}

static rk_status forward_block(const pass *p, const rk_run *run) {
    if (p->first_node == 0) RK_TRY(call_hook(p->hooks->read, p, run));
    uint64_t begin = rk_trace_begin();
    if (run->context) rk_graph_context_fill_inputs(run->context, run);
    RK_TRY(run_nodes(p, run, false));
    gather_partials(p, run);
    rk_trace_end(begin, "forward");
    return p->last_node == p->graph->n_nodes ? call_hook(p->hooks->loss, p, run) : RK_OK;
}

static rk_status backward_block(const pass *p, const rk_run *run) {
    uint64_t begin = rk_trace_begin();
    RK_TRY(run_nodes(p, run, true));
    gather_partials(p, run);
    rk_trace_end(begin, "backward");
    return p->first_node == 0 ? call_hook(p->hooks->take, p, run) : RK_OK;
}

static rk_status train_block(const pass *p, const rk_run *run) {
    RK_TRY(forward_block(p, run));
    return backward_block(p, run);
}

/* The blocks' sums [n_blocks, width] to one sum, in front: in the order of the blocks of a micro-batch,
 * then of the tree of micro-batches. */
static void sum_statistics_of_blocks(const pass *p, size_t n_blocks, size_t width) {
    size_t a_micro_batch = rk_graph_blocks_of_micro_batch(p->graph);
    uint32_t first_micro_batch = (uint32_t)(p->run.base / p->graph->micro_batch);
    rk_tree_sum tree = {.depth = 0};
    for (size_t b = 0; b <= n_blocks; b++) {
        bool begins = b % a_micro_batch == 0, ends = b == n_blocks;
        uint32_t micro_batch = first_micro_batch + (uint32_t)(b / a_micro_batch);
        while (tree.depth > 1 && (ends || (begins && rk_tree_sum_must_join(&tree, micro_batch)))) {
            rk_tree_sum_join(&tree);
            for (size_t k = 0; k < width; k++)
                p->partials[(size_t)(tree.depth - 1) * width + k] +=
                    p->partials[(size_t)tree.depth * width + k];
        }
        if (ends) return;
        if (begins)
            rk_tree_sum_push(&tree, micro_batch); /* sums stand before the blocks that are still to come */
        rk_real *to = p->partials + (size_t)(tree.depth - 1) * width, *from = p->partials + b * width;
        for (size_t k = 0; k < width && to != from; k++) to[k] = begins ? from[k] : to[k] + from[k];
    }
}

/* A segment, and behind it a pass of the sums over the batch of the node that waits for it, or NULL: by
 * blocks here, then over all who run some. */
static rk_status run_segment(pass *p, rk_status (*step)(const pass *p, const rk_run *run), size_t first,
                             size_t last, rk_node *summing, int32_t gather) {
    p->first_node = first;
    p->last_node = last;
    p->summing = p->run.batch ? summing : NULL;
    p->gather = gather;
    if (!p->summing) return for_each_block(p, step);
    size_t n_blocks = rk_graph_n_blocks(p->graph, p->run.here), width = (size_t)summing->gather_width;
    RK_TRY(rk_alloc(n_blocks ? n_blocks * width : width, sizeof *p->partials, &p->partials));
    rk_status status = for_each_block(p, step);
    sum_statistics_of_blocks(p, n_blocks, width);
    if (p->hooks->sum && status == RK_OK) status = p->hooks->sum(p->hooks->context, p->partials, width);
    if (status == RK_OK) summing->op->combine(summing, gather, p->partials, p->run.batch);
    rk_free(p->partials);
    return status;
}

/* The node if it is summed over the batch first. */
static rk_node *summing_node(const rk_graph *g, size_t node) {
    return node < g->n_nodes && rk_node_n_passes(g->nodes[node]) ? g->nodes[node] : NULL;
}

static rk_status forward_by_segments(pass *p) {
    const rk_graph *g = p->graph;
    for (size_t first = 0, last; first < g->n_nodes; first = last) {
        for (last = first + 1; last < g->n_nodes && !rk_graph_begins_segment(g, last);) last++;
        rk_node *next = p->run.training ? summing_node(g, last) : NULL;
        RK_TRY(run_segment(p, forward_block, first, last, next, 0));
        for (int32_t k = 1; k < rk_node_n_passes(next); k++)
            RK_TRY(run_segment(p, forward_block, last, last, next, k));
    }
    return RK_OK;
}

/* Those of nodes first .. last-1, which stand one after the other. */
static void find_gradient_range(pass *p, size_t first, size_t last) {
    p->first_gradient = p->last_gradient = 0;
    for (size_t i = first; i < last; i++) {
        const rk_node *node = p->graph->nodes[i];
        for (int32_t k = 0; k < node->n_parameters; k++) {
            const rk_parameter *parameter = &p->graph->parameters[node->parameters[k]];
            if (p->last_gradient == 0) p->first_gradient = parameter->offset;
            p->last_gradient = parameter->offset + parameter->rows * parameter->cols;
        }
    }
}

/* The segment, and the sums of the node before it. */
static rk_status run_backward_segment(pass *p, size_t first, size_t last) {
    rk_node *next = first > 0 ? summing_node(p->graph, first - 1) : NULL;
    find_gradient_range(p, first, last);
    return run_segment(p, backward_block, first, last, next, rk_node_n_passes(next));
}

/* The other way round, where a node that waits for sums ends a segment. */
static rk_status backward_by_segments(pass *p) {
    const rk_graph *g = p->graph;
    if (summing_node(g, g->n_nodes - 1)) RK_TRY(run_backward_segment(p, g->n_nodes, g->n_nodes));
    for (size_t last = g->n_nodes, first; last > 0; last = first) {
        for (first = last - 1; first > 0 && !rk_graph_begins_segment(g, first - 1);) first--;
        RK_TRY(run_backward_segment(p, first, last));
    }
    return RK_OK;
}

typedef struct preparation {
    rk_graph *graph;
    bool training;
    pass *pass;
} preparation;

static void prepare_op_of_node(void *context, size_t task, int thread) {
    (void)thread;
    const preparation *p = context;
    rk_node *node = p->graph->nodes[task];
    const rk_op *op = rk_forward_op(node, p->training);
    if (op && op->prepare)
        rk_parallel_failure_record(&p->pass->failure, (int64_t)task,
                                   op->prepare(p->graph, node, p->training));
}

static void run_side_work(void *context, size_t piece, int thread) {
    (void)thread;
    const pass *p = context;
    p->hooks->beside(p->hooks->context, piece);
}

static const rk_graph_hooks no_hooks;

/* Predictions divide samples in other ways than micro-batches: all of them are here. */
static rk_run make_graph_run(const rk_graph *g, int64_t n, int64_t batch, int64_t step) {
    return (rk_run){.graph = g,
                    .here = n,
                    .batch = batch ? batch : n,
                    .base = batch ? g->local.first_micro_batch * g->micro_batch : 0,
                    .training = true,
                    .step = step};
}

/* A pass in the graph's own memory. */
static pass make_training_pass(rk_graph *g, int64_t n, int64_t step, const rk_graph_hooks *hooks) {
    return (pass){.graph = g,
                  .trained = g,
                  .hooks = hooks,
                  .failure = RK_FAILURE_INIT,
                  .run = make_graph_run(g, n, hooks->batch, step),
                  .block = g->block,
                  .memory = g->thread_memory,
                  .workspaces = g->thread_workspaces,
                  .is_kept = g->keeps};
}

static rk_status check_sample_count(const rk_graph *g, int64_t n) {
    RK_FAIL_IF(!g->finished || n < 0 || n > g->max_batch, RK_INVALID_ARGUMENT,
               "a batch of %lld samples, but the graph was made for at most %lld", (long long)n,
               (long long)g->max_batch);
    return RK_OK;
}

static rk_status begin_pass(rk_graph *g, int64_t n, bool training, int64_t step, const rk_graph_hooks *hooks,
                            pass *out) {
    RK_TRY(check_sample_count(g, n));
    RK_FAIL_IF(training && g->frozen, RK_INVALID_ARGUMENT, "a frozen graph only predicts");
    RK_TRY(rk_graph_allocate_memory(g));
    *out = make_training_pass(g, n, step, hooks ? hooks : &no_hooks);
    out->run.training = training;
    if (g->frozen) return RK_OK;
    preparation p = {g, training, out};
    uint64_t begin = rk_trace_begin();
    rk_parallel_for(g->n_nodes, prepare_op_of_node, &p);
    rk_trace_end(begin, "prepare");
    return rk_parallel_failure_status(&out->failure);
}

rk_status rk_graph_forward(rk_graph *g, int64_t n, bool training, int64_t step, const rk_graph_hooks *hooks) {
    pass p;
    RK_TRY(begin_pass(g, n, training, step, hooks, &p));
    g->last_step = step;
    return g->keeps ? forward_by_segments(&p) : run_segment(&p, forward_block, 0, g->n_nodes, NULL, 0);
}

/* Samples whose values stay in the second cache, about: of predictions, where blocks may have any length. But
 * each block reads all parameters: where these do not stay there, it has to be worth that, and the last one
 * is no shorter. Whole tiles of a product's rows. */
static int64_t choose_inference_block(const rk_graph *g, int64_t n) {
    enum { CACHED_REALS = 1 << 17, TILE = 12, MANY = 96 };
    int64_t samples = g->keeps ? g->max_batch : g->block,
            block = CACHED_REALS * samples / (g->memory_reals + 1) / TILE * TILE;
    if (block < TILE) block = TILE;
    if (g->gradient_reals > CACHED_REALS && block < MANY && n > 0) {
        int64_t first, last;
        rk_graph_group_range(g, n, 0, &first, &last);
        int64_t n_blocks = last < MANY ? 1 : last / MANY;
        block = (last + n_blocks - 1) / n_blocks;
    }
    return block < g->block ? block : g->block;
}

/* What is the same in all samples, from the first of them. */
static rk_status run_context_nodes(const pass *p, rk_graph_context *context) {
    rk_run run = p->run;
    run.n = 1;
    run.of_context = true;
    run.memory = p->memory[0];
    run.workspace = p->workspaces[0];
    RK_TRY(call_hook(p->hooks->read, p, &run));
    return rk_graph_context_forward(context, &run);
}

/* By blocks, of graphs that keep the whole batch in training too: no sample depends on another now. */
rk_status rk_graph_inference_run(rk_graph_inference *i, int64_t n, const rk_graph_hooks *hooks,
                                 const atomic_bool *cancel) {
    RK_TRY(check_sample_count(i->graph, n));
    pass p = {.graph = i->graph,
              .hooks = hooks,
              .failure = RK_FAILURE_INIT,
              .run = make_graph_run(i->graph, n, 0, 0),
              .block = choose_inference_block(i->graph, n),
              .memory = i->memory,
              .workspaces = i->workspaces,
              .cancel = cancel};
    p.run.training = false;
    p.run.unbound = true;
    if (n > 1 && hooks->has_context) {
        p.run.context = i->context;
        RK_TRY(run_context_nodes(&p, i->context));
    }
    RK_TRY(run_segment(&p, forward_block, 0, p.graph->n_nodes, NULL, 0));
    RK_FAIL_IF(cancel && atomic_load(cancel), RK_INTERRUPTED, "the run was cancelled");
    return RK_OK;
}

rk_status rk_graph_backward(rk_graph *g, int64_t n) {
    RK_FAIL_IF(!g->training || !g->keeps, RK_INVALID_ARGUMENT,
               "the graph is for prediction only, or does not keep the batch's values");
    RK_TRY(rk_graph_allocate_memory(g));
    pass p = make_training_pass(g, n, g->last_step, &no_hooks);
    return backward_by_segments(&p);
}

rk_status rk_graph_train(rk_graph *g, int64_t n, int64_t step, const rk_graph_hooks *hooks) {
    RK_FAIL_IF(!g->training, RK_INVALID_ARGUMENT, "the graph is for prediction only");
    pass p;
    RK_TRY(begin_pass(g, n, true, step, hooks, &p));
    if (g->keeps) { /* short loops: nothing beside them */
        rk_parallel_for(p.hooks->n_beside, run_side_work, &p);
        RK_TRY(forward_by_segments(&p));
        if (p.hooks->whole) RK_TRY(p.hooks->whole(p.hooks->context));
        return backward_by_segments(&p);
    }
    p.backward = true;
    p.last_gradient = g->gradient_reals;
    return run_segment(&p, train_block, 0, g->n_nodes, NULL, 0);
}
