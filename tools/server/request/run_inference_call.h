/* A call from its body to its answer on one worker's memory. */
#ifndef RK_SERVER_RUN_INFERENCE_CALL_H
#define RK_SERVER_RUN_INFERENCE_CALL_H

#include "server/request/inference_call.h"
#include "server/request/retrieve_v1.h"

/* A worker's, which serves again. Zero-initialize. */
typedef struct rk_call_memory {
    rk_json json;
    float *predictions; /* [n_rows, n_tasks] */
    size_t capacity;
    rk_retrieval retrieval;
} rk_call_memory;

void rk_call_memory_release(rk_call_memory *memory);

/* Of the first n_rows of the worker's rows, which were read before, into memory->predictions. */
rk_status rk_predict_rows(const rk_served_version *version, int worker, size_t n_rows,
                          rk_call_memory *memory);
/* Reads the call alone into the worker's rows, predicts or retrieves, and answers. After an error there is no
 * answer yet. */
rk_status rk_call_run(rk_call *call, const rk_call_limits *limits, int worker, rk_call_memory *memory);

#endif
