#include "base/memory.h"
#include "model/step/reducer.h"

typedef struct reducer_self {
    rk_reducer reducer;
    rk_status found; /* of the step that was posted */
    double loss;
} reducer_self;

static void self_hook_gradients(rk_reducer *reducer, const rk_local_batch *local_batch,
                                rk_graph_hooks *hooks) {
    (void)reducer, (void)local_batch, (void)hooks;
}

static rk_status self_post_status(rk_reducer *reducer, const rk_local_batch *local_batch, rk_status found,
                                  double loss) {
    reducer_self *r = (reducer_self *)reducer;
    (void)local_batch;
    r->found = found;
    r->loss = loss;
    return RK_OK;
}

static rk_status self_wait_status(rk_reducer *reducer, const rk_batch *batch, double *loss) {
    const reducer_self *r = (const reducer_self *)reducer;
    (void)batch;
    if (r->found != RK_OK) return r->found; /* rk_last_error says why */
    *loss = r->loss;
    return rk_reducer_check_dense_gradients(reducer);
}

static void free_reducer_self(rk_reducer *reducer) {
    rk_free(reducer);
}

static const rk_reducer_ops self_ops = {.free = free_reducer_self,
                                        .hook = self_hook_gradients,
                                        .post = self_post_status,
                                        .wait = self_wait_status};

rk_status rk_reducer_self_create(rk_model *model, rk_reducer **out) {
    reducer_self *r;
    RK_TRY(rk_alloc(1, sizeof *r, &r));
    r->reducer = (rk_reducer){.ops = &self_ops, .model = model};
    *out = &r->reducer;
    return RK_OK;
}
