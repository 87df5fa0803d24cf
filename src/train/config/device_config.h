/* `device:` and `cuda:` of a run file: what computes a run. */
#ifndef RK_TRAIN_CONFIG_DEVICE_CONFIG_H
#define RK_TRAIN_CONFIG_DEVICE_CONFIG_H

#include <reckon/tensor.h>

#include "base/yaml/schema.h"
#include "model/cuda/gpu_options.h"

/* A plain word in a run file: `device: cuda`. */
typedef struct rk_device_section {
    int kind; /* rk_device_kind */
} rk_device_section;

typedef struct rk_cuda_section {
    int line;     /* 0: not given */
    char *memory; /* "40GB"; NULL: as much as there is */
    bool tf32;
    int64_t number;
} rk_cuda_section;

extern const rk_schema rk_device_schema, rk_cuda_schema;

/* The section as a model takes it. Errors name the line. */
rk_status rk_cuda_section_resolve(const rk_cuda_section *section, const rk_yaml *yaml, rk_model_device *out);
void rk_device_section_emit(const rk_device_section *section, rk_buffer *out);
void rk_device_section_document(rk_buffer *out); /* one row of a table of keys */

#endif
