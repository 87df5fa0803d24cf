/* Triton's model repository API, by which versions are looked for, pinned and let go by hand
 * (https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_model_repository.md).
 * docs/serving.md has its requests. */
#ifndef RK_SERVER_MODEL_REPOSITORY_H
#define RK_SERVER_MODEL_REPOSITORY_H

#include "server/served_model.h"

typedef struct rk_repository {
    rk_served_model *models; /* [n_models] */
    int64_t n_models;
} rk_repository;

/* Does what the POST of a body to a path asks for. Its answer, JSON, is appended; returns its HTTP status. */
int rk_repository_answer(const rk_repository *repository, const char *url, rk_span body, rk_buffer *out);

#endif
