/* The trainable tensors of a graph, and the state of its nodes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "nn/graph/graph_internal.h"

enum { LINE_REALS = 64 / sizeof(rk_real) };

void rk_parameter_initialize(const rk_graph *graph, rk_parameter *parameter,
                             const rk_initializer *initializer) {
    int64_t n = parameter->rows * parameter->cols;
    rk_rng rng = {graph->seed, rk_hash_bytes(parameter->name, strlen(parameter->name), 0), 0};
    for (int64_t i = 0; i < n; i++) {
        double value = 0;
        switch (initializer->kind) {
            case RK_INIT_ONES:
                value = 1;
                break;
            case RK_INIT_CONSTANT:
                value = initializer->value;
                break;
            case RK_INIT_UNIFORM:
                value = initializer->min + (initializer->max - initializer->min) * rk_rng_uniform(&rng);
                break;
            case RK_INIT_NORMAL:
                value = initializer->mean + initializer->stddev * rk_rng_normal(&rng);
                break;
            case RK_INIT_TRUNCATED_NORMAL:
                do value = rk_rng_normal(&rng);
                while (fabs(value) > 2);
                value = initializer->mean + initializer->stddev * value;
                break;
            case RK_INIT_ZEROS:
            case RK_INIT_COUNT:
                break;
        }
        parameter->value[i] = (rk_real)value;
    }
}

rk_status rk_node_add_parameter(rk_graph *graph, rk_node *node, const char *name, int64_t rows, int64_t cols,
                                const rk_initializer *initializer, bool is_bias) {
    RK_TRY(rk_reserve_one_more(&graph->parameters, graph->n_parameters, &graph->parameters_capacity,
                               sizeof *graph->parameters));
    rk_parameter p = {.rows = rows,
                      .cols = cols,
                      .is_bias = is_bias,
                      .is_written = node->n_parameters == 0 && node->op->writes_weight};
    char *full = NULL;
    rk_status status;
    RK_GOTO(rk_alloc(strlen(node->name) + strlen(name) + 2, 1, &full));
    sprintf(full, "%s/%s", node->name, name);
    p.name = full;
    RK_GOTO(rk_alloc((size_t)(rows * cols), sizeof *p.value, &p.value));
    p.offset = graph->gradient_reals;
    rk_parameter_initialize(graph, &p, initializer);
    node->parameters[node->n_parameters++] = (int32_t)graph->n_parameters;
    graph->parameters[graph->n_parameters++] = p;
    graph->gradient_reals += (rows * cols + LINE_REALS - 1) / LINE_REALS * LINE_REALS;
    return RK_OK;
done:
    RK_FREE_ALL(full, p.value);
    return status;
}

rk_status rk_node_add_state(rk_node *node, const char *name, rk_real initial) {
    rk_real *values;
    size_t n = (size_t)rk_shape_size(node->shape);
    RK_TRY(rk_alloc(n, sizeof *values, &values));
    for (size_t i = 0; i < n; i++) values[i] = initial;
    node->state_names[node->n_states] = name;
    node->states[node->n_states++] = values;
    return RK_OK;
}

const rk_real *rk_node_parameter(const rk_run *run, const rk_node *node, int32_t index) {
    return run->graph->parameters[node->parameters[index]].value;
}

rk_real *rk_node_parameter_gradient(const rk_run *run, const rk_node *node, int32_t index) {
    return run->gradients + run->graph->parameters[node->parameters[index]].offset;
}

rk_real *rk_graph_gradients(rk_graph *graph, size_t *n) {
    *n = (size_t)graph->gradient_reals;
    return graph->gradients;
}

int32_t rk_graph_n_parameters(const rk_graph *graph) {
    return (int32_t)graph->n_parameters;
}

rk_parameter *rk_graph_parameter(rk_graph *graph, int32_t index) {
    return &graph->parameters[index];
}

rk_status rk_graph_state_dict(rk_graph *graph, rk_state_dict *state) {
    char name[512];
    for (size_t i = 0; i < graph->n_parameters; i++) {
        rk_parameter *p = &graph->parameters[i];
        snprintf(name, sizeof name, "dense/%s", p->name);
        RK_TRY(rk_state_dict_add(state, name, RK_F32, p->rows, p->cols, p->value));
        rk_state_dict_set_kind(state, RK_STATE_DENSE);
    }
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (int32_t k = 0; k < graph->nodes[i]->n_states; k++) {
            snprintf(name, sizeof name, "dense/%s/%s", graph->nodes[i]->name,
                     graph->nodes[i]->state_names[k]);
            RK_TRY(rk_state_dict_add(state, name, RK_F32, rk_shape_size(graph->nodes[i]->shape), 0,
                                     graph->nodes[i]->states[k]));
            rk_state_dict_set_kind(state, RK_STATE_STATISTIC);
        }
    return RK_OK;
}
