/* The dense optimizer on a GPU. The host's optimizer has the step, the learning rate and a copy of the
 * slots. */
#include <string.h>

#include "base/memory.h"
#include "nn/cuda/device_graph_internal.h"

enum {
    PIECE_VALUES = 2048
}; /* of a block: enough blocks for all processors from some 300,000 parameters on */

static bool is_rowwise_optimizer(rk_optimizer_kind kind) {
    return kind == RK_OPTIMIZER_ROWWISE_ADAGRAD || kind == RK_OPTIMIZER_ROWWISE_ADAM;
}

/* A row, or a chunk: also where the CPU takes the tensor at once, for blocks that share its sums. */
static int64_t values_per_update_piece(rk_optimizer_kind kind, const rk_parameter *p) {
    return is_rowwise_optimizer(kind) ? p->cols : PIECE_VALUES;
}

static int64_t count_update_pieces(rk_optimizer_kind kind, const rk_parameter *p) {
    int64_t step = values_per_update_piece(kind, p);
    return (p->rows * p->cols + step - 1) / step;
}

static rk_status make_update_pieces(rk_device_graph *g) {
    rk_device_update *u = &g->update;
    rk_optimizer_kind kind = u->dense.kind;
    const rk_graph *graph = g->graph;
    RK_AUTOFREE rk_cuda_dense_piece *pieces = NULL;
    for (size_t i = 0; i < graph->n_parameters; i++)
        u->dense.n_pieces += count_update_pieces(kind, &graph->parameters[i]);
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)u->dense.n_pieces, u->tensors),
                        RK_ARRAY((size_t)u->dense.n_pieces, pieces)));
    int64_t at = 0, row = 0;
    for (size_t i = 0; i < graph->n_parameters; i++) {
        const rk_parameter *p = &graph->parameters[i];
        int64_t n = p->rows * p->cols, step = values_per_update_piece(kind, p), first_piece = at;
        for (int64_t first = 0; first < n; first += step, at++) {
            u->tensors[at] = (int32_t)i;
            pieces[at] = (rk_cuda_dense_piece){.first = g->offsets[i] + first,
                                               .count = n - first < step ? n - first : step,
                                               .row = row + first / p->cols,
                                               .tensor_first = (int32_t)first_piece,
                                               .tensor_count = (int32_t)count_update_pieces(kind, p),
                                               .is_bias = p->is_bias};
        }
        row += p->rows;
    }
    size_t n_bytes = (size_t)u->dense.n_pieces * sizeof *pieces;
    RK_TRY(rk_device_alloc(g->device, n_bytes ? n_bytes : 1, &u->dense.pieces));
    return n_bytes ? rk_device_upload(g->device, (void *)(size_t)u->dense.pieces, pieces, n_bytes) : RK_OK;
}

static int64_t count_parameter_rows(const rk_graph *graph) {
    int64_t rows = 0;
    for (size_t i = 0; i < graph->n_parameters; i++) rows += graph->parameters[i].rows;
    return rows;
}

static rk_status allocate_optimizer_memory(rk_device_graph *g) {
    rk_device_update *u = &g->update;
    const rk_dense_optimizer *o = u->optimizer;
    for (int s = 0; s < o->n_slots; s++)
        RK_TRY(rk_device_graph_allocate_floats(
            g, o->slots[s].per_row ? count_parameter_rows(g->graph) : g->n_parameters, &u->dense.slots[s]));
    RK_TRY(
        rk_device_alloc(g->device, (size_t)(2 * u->dense.n_pieces + 1) * sizeof(double), &u->dense.squares));
    RK_TRY(rk_device_alloc(g->device, sizeof *u->dense.state, &u->dense.state));
    RK_TRY(rk_device_alloc(g->device, sizeof *u->dense.update, &u->dense.update));
    RK_TRY(rk_device_alloc_host(g->device, sizeof *u->step_status, &u->step_status));
    for (int i = 0; i < 2; i++) {
        RK_TRY(rk_device_alloc_host(g->device, sizeof *u->sends[i].update, &u->sends[i].update));
        RK_TRY(rk_stream_event_create(g->device, &u->sends[i].event));
    }
    return RK_OK;
}

rk_status rk_device_optimizer_create(rk_device_graph *g, rk_dense_optimizer *optimizer) {
    RK_FAIL_IF(!g->options.training, RK_INVALID_ARGUMENT, "a graph for prediction only has no optimizer");
    rk_device_update *u = &g->update;
    u->optimizer = optimizer;
    u->dense = (rk_cuda_dense){.kind = optimizer->config.optimizer.kind,
                               .l2 = (float)optimizer->config.l2,
                               .max_norm = optimizer->config.max_gradient_norm,
                               .values = g->parameters,
                               .gradients = g->gradients};
    RK_TRY(make_update_pieces(g));
    return allocate_optimizer_memory(g);
}

void rk_device_optimizer_free(rk_device_graph *g) {
    rk_device_update *u = &g->update;
    void *const memory[] = {(void *)(size_t)u->dense.pieces,
                            u->dense.slots[0],
                            u->dense.slots[1],
                            u->dense.squares,
                            u->dense.state,
                            (void *)(size_t)u->dense.update};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) rk_device_free(g->device, memory[i]);
    for (int i = 0; i < 2; i++) {
        rk_device_free_host(g->device, u->sends[i].update);
        rk_stream_event_free(u->sends[i].event);
    }
    rk_device_free_host(g->device, u->step_status);
    rk_free(u->tensors);
}

rk_status rk_device_optimizer_copy_slots(rk_device_graph *g, bool to_device) {
    const rk_dense_optimizer *o = g->update.optimizer;
    int64_t row = 0;
    for (size_t i = 0; o && i < g->graph->n_parameters; i++) {
        const rk_parameter *p = &g->graph->parameters[i];
        for (int s = 0; s < o->n_slots; s++) {
            size_t slot = i * (size_t)o->n_slots + (size_t)s,
                   n_bytes = (size_t)o->slot_counts[slot] * sizeof(float);
            float *at = g->update.dense.slots[s] + (o->slots[s].per_row ? row : g->offsets[i]);
            RK_TRY(to_device ? rk_device_upload(g->device, at, o->slot_values[slot], n_bytes)
                             : rk_device_download(g->device, o->slot_values[slot], at, n_bytes));
        }
        row += p->rows;
    }
    return RK_OK;
}

rk_status rk_device_graph_prepare_update(rk_device_graph *g, rk_stream *stream) {
    rk_device_update *u = &g->update;
    struct rk_device_update_send *send = &u->sends[u->next_send];
    u->next_send = !u->next_send;
    RK_TRY(rk_stream_event_sync(send->event));
    rk_optimizer_set_step_coefficients(&u->optimizer->config.optimizer, u->optimizer->step,
                                       u->optimizer->factor, send->update);
    rk_stream_upload(stream, (void *)(size_t)u->dense.update, send->update, sizeof *send->update);
    rk_stream_record_event(stream, send->event);
    return RK_OK;
}

void rk_device_graph_compute_gradient_norm(rk_device_graph *g, rk_stream *stream, uint32_t *stop) {
    rk_cuda_dense_gradient_norm(stream, &g->update.dense, stop);
}

void rk_device_graph_update(rk_device_graph *g, rk_stream *stream, const uint32_t *stop) {
    rk_cuda_dense_optimizer_step(stream, &g->update.dense, stop);
    if (g->n_states) rk_cuda_copy_if(stream, g->n_states, stop, g->kept_states, g->live_states);
}

void rk_device_graph_end_step(rk_device_graph *g, bool applied) {
    g->update.optimizer->step += applied;
}

rk_status rk_device_graph_check_step(rk_device_graph *g, rk_stream *stream) {
    rk_device_update *u = &g->update;
    rk_stream_download(stream, u->step_status, u->dense.state, sizeof *u->step_status);
    RK_TRY(rk_stream_sync(stream));
    if (u->step_status->bad_piece >= u->dense.n_pieces) return RK_OK;
    return rk_error(RK_NOT_FINITE, "the gradient of the parameter '%s' is not finite",
                    g->graph->parameters[u->tensors[u->step_status->bad_piece]].name);
}
