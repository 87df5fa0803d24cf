#include "nn/dense_optimizer_internal.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "kernels/kernels.h"

enum { CHUNK = 8192 };

static rk_status add_update_pieces(rk_dense_optimizer *o, int32_t index) {
    const rk_parameter *p = rk_graph_parameter(o->graph, index);
    rk_optimizer_kind kind = o->config.optimizer.kind;
    bool rows = kind == RK_OPTIMIZER_ROWWISE_ADAGRAD || kind == RK_OPTIMIZER_ROWWISE_ADAM;
    bool whole = kind == RK_OPTIMIZER_LAMB || kind == RK_OPTIMIZER_LARS;
    int64_t n = p->rows * p->cols;
    o->n_values += (uint64_t)n;
    int64_t step = rows ? p->cols : whole ? n : CHUNK;
    for (int64_t first = 0; first < n; first += step) {
        RK_TRY(rk_reserve_one_more(&o->pieces, o->n_pieces, &o->pieces_capacity, sizeof *o->pieces));
        o->pieces[o->n_pieces++] =
            (rk_dense_piece){index, first, n - first < step ? n - first : step, first / step};
    }
    return RK_OK;
}

static rk_status add_parameter_slots(rk_dense_optimizer *o, int32_t index) {
    const rk_parameter *p = rk_graph_parameter(o->graph, index);
    for (int s = 0; s < o->n_slots; s++) {
        int64_t n = o->slots[s].per_row ? p->rows : p->rows * p->cols;
        float **values = &o->slot_values[index * o->n_slots + s];
        RK_TRY(rk_alloc((size_t)n, sizeof **values, values));
        for (int64_t i = 0; i < n; i++) (*values)[i] = o->slots[s].initial;
        o->slot_counts[index * o->n_slots + s] = n;
    }
    return RK_OK;
}

rk_status rk_dense_optimizer_create(const rk_dense_optimizer_config *config, rk_graph *graph,
                                    rk_dense_optimizer **out) {
    RK_TRY(rk_optimizer_validate(&config->optimizer));
    RK_FAIL_IF(!(config->max_gradient_norm >= 0) || !(config->l2 >= 0), RK_INVALID_ARGUMENT,
               "max_gradient_norm and l2 must be 0 or more");
    rk_dense_optimizer *o;
    RK_TRY(rk_alloc(1, sizeof *o, &o));
    *o = (rk_dense_optimizer){.config = *config, .graph = graph, .factor = 1};
    o->n_slots = rk_optimizer_list_slots(&config->optimizer, o->slots);
    size_t n_slots = (size_t)rk_graph_n_parameters(graph) * (size_t)o->n_slots;
    rk_status status;
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY(n_slots, o->slot_values), RK_ARRAY(n_slots, o->slot_counts)));
    for (int32_t i = 0; i < rk_graph_n_parameters(graph); i++) {
        RK_GOTO(add_update_pieces(o, i));
        RK_GOTO(add_parameter_slots(o, i));
    }
    RK_GOTO(rk_alloc(o->n_pieces, sizeof *o->squares, &o->squares));
    *out = o;
    return RK_OK;
done:
    rk_dense_optimizer_free(o);
    return status;
}

void rk_dense_optimizer_free(rk_dense_optimizer *o) {
    if (!o) return;
    size_t n_slots = o->slot_values ? (size_t)rk_graph_n_parameters(o->graph) * (size_t)o->n_slots : 0;
    for (size_t i = 0; i < n_slots; i++) rk_free(o->slot_values[i]);
    RK_FREE_ALL(o->slot_values, o->slot_counts, o->pieces, o->squares, o);
}

static void add_l2_and_sum_squares(void *context, size_t task, int thread) {
    (void)thread;
    const rk_dense_optimizer *o = context;
    const rk_dense_piece *at = &o->pieces[task];
    rk_parameter *p = rk_graph_parameter(o->graph, at->parameter);
    float l2 = p->is_bias ? 0 : (float)o->config.l2;
    for (int64_t i = at->first; i < at->first + at->count && l2 != 0; i++) p->gradient[i] += l2 * p->value[i];
    rk_squares_sum(p->gradient + at->first, at->count, &o->squares[task]);
}

static void update_parameter_piece(void *context, size_t task, int thread) {
    (void)thread;
    const rk_dense_optimizer *o = context;
    const rk_dense_piece *at = &o->pieces[task];
    rk_parameter *p = rk_graph_parameter(o->graph, at->parameter);
    float *g = p->gradient + at->first, *slots[RK_MAX_SLOTS] = {0};
    if (o->gradient_scale != 1.0f)
        for (int64_t i = 0; i < at->count; i++) g[i] *= o->gradient_scale;
    for (int s = 0; s < o->n_slots; s++)
        slots[s] =
            o->slot_values[at->parameter * o->n_slots + s] + (o->slots[s].per_row ? at->row : at->first);
    rk_update update = o->update;
    if (p->is_bias) update.decay = update.weight_decay = 0;
    rk_optimizer_step(&update, p->value + at->first, slots[0], slots[1], g, at->count);
}

rk_status rk_dense_optimizer_check_gradients(rk_dense_optimizer *o) {
    rk_parallel_for_work(o->n_pieces, o->n_values, add_l2_and_sum_squares, o);
    double sum = 0;
    for (size_t i = 0; i < o->n_pieces; i++) {
        RK_FAIL_IF(!isfinite(o->squares[i]), RK_NOT_FINITE,
                   "the gradient of the parameter '%s' is not finite",
                   rk_graph_parameter(o->graph, o->pieces[i].parameter)->name);
        sum += o->squares[i];
    }
    double norm = sqrt(sum), most = o->config.max_gradient_norm;
    o->gradient_scale = most > 0 && norm > most ? (float)(most / norm) : 1.0f;
    return RK_OK;
}

void rk_dense_optimizer_apply(rk_dense_optimizer *o) {
    rk_optimizer_set_step_coefficients(&o->config.optimizer, o->step, o->factor, &o->update);
    rk_parallel_for_work(o->n_pieces, o->n_values, update_parameter_piece, o);
    o->step++;
}

void rk_dense_optimizer_scale_learning_rate(rk_dense_optimizer *o, double factor) {
    o->factor = factor;
}

rk_status rk_dense_optimizer_state_dict(rk_dense_optimizer *o, rk_state_dict *state) {
    char name[512];
    for (int32_t i = 0; i < rk_graph_n_parameters(o->graph); i++)
        for (int s = 0; s < o->n_slots; s++) {
            snprintf(name, sizeof name, "dense/%s/%s", rk_graph_parameter(o->graph, i)->name,
                     o->slots[s].name);
            RK_TRY(rk_state_dict_add(state, name, RK_F32, o->slot_counts[i * o->n_slots + s], 0,
                                     o->slot_values[i * o->n_slots + s]));
        }
    return rk_state_dict_add(state, "dense/step", RK_I64, 1, 0, &o->step);
}

uint64_t rk_dense_optimizer_bytes(const rk_dense_optimizer *o) {
    uint64_t n = 0;
    for (int64_t i = 0; i < (int64_t)rk_graph_n_parameters(o->graph) * o->n_slots; i++)
        n += (uint64_t)o->slot_counts[i];
    return n * sizeof(float);
}
