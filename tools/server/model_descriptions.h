/* What the server says of itself and of its models: the documents that GET answers with. */
#ifndef RK_SERVER_MODEL_DESCRIPTIONS_H
#define RK_SERVER_MODEL_DESCRIPTIONS_H

#include "base/buffer.h"
#include "server/served_model.h"

/* Why a version could not be loaded, without the folders of the server's disk; under the model's mutex. */
void rk_describe_failure(const rk_served_model *model, rk_buffer *out);
/* TensorFlow Serving's: states of versions (all, or the one of a number), and what a version reads and
 * answers. Returns false where there is no such version, neither in use nor failed. */
bool rk_describe_status(rk_served_model *model, const int64_t *only, rk_buffer *out);
void rk_describe_metadata(const rk_served_version *version, rk_buffer *out);
/* The Open Inference Protocol's, of the server and of a version. */
void rk_describe_server(rk_buffer *out);
void rk_describe_model_ready(const rk_served_model *model, bool ready, rk_buffer *out);
void rk_describe_model(rk_served_model *model, const rk_served_version *version, rk_buffer *out);

#endif
