#include "server/request/run_inference_call.h"

#include "base/memory.h"

void rk_call_memory_release(rk_call_memory *memory) {
    rk_json_release(&memory->json);
    rk_free(memory->predictions);
    rk_retrieval_release(&memory->retrieval);
}

rk_status rk_predict_rows(const rk_served_version *v, int worker, size_t n_rows, rk_call_memory *m) {
    rk_request_table rows, context;
    rk_session *session = v->sessions[worker];
    size_t n_tasks = (size_t)v->n_tasks;
    RK_TRY(rk_reserve(&m->predictions, &m->capacity, n_rows * n_tasks + 1, sizeof *m->predictions));
    RK_TRY(rk_request_rows_to_arrow(&v->rows[worker], n_rows, &rows, &context));
    RK_TRY(context.schema ? rk_session_score(session, context.schema, context.array, rows.schema, rows.array,
                                             m->predictions)
                          : rk_session_run(session, rows.schema, rows.array, m->predictions));
    rk_served_version_count_unknown(v, session);
    return RK_OK;
}

rk_status rk_call_run(rk_call *call, const rk_call_limits *limits, int worker, rk_call_memory *m) {
    const rk_served_version *v = call->version;
    rk_request_rows *rows = &v->rows[worker];
    rk_request_rows_truncate(rows, 0);
    rows->takes_context = v->catalog == NULL;
    rk_status status = rk_call_read_rows(call, limits, &m->json, rows, 0);
    rows->takes_context = false;
    RK_TRY(status);
    if (v->catalog) {
        RK_TRY(rk_run_retrieval(call, limits, rows, v->sessions[worker], &m->retrieval));
        rk_write_retrieve_reply(call, &m->retrieval);
        return RK_OK;
    }
    RK_TRY(rk_predict_rows(v, worker, (size_t)call->n_rows, m));
    rk_call_write_reply(call, m->predictions);
    return RK_OK;
}
