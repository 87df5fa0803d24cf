/* What the layers above ask of a model on a GPU. */
#ifndef RK_MODEL_CUDA_GPU_OPTIONS_H
#define RK_MODEL_CUDA_GPU_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rk_model_device {
    int32_t number;        /* of the GPU */
    uint64_t memory_bytes; /* of its memory, for rows and slots; 0: as much as is free */
    bool tf32;
    bool late; /* rk_model_train begins a batch and returns the loss of the one before
                  (rk_model_finish_oldest_batch), so that the next one's ids travel beside a step */
} rk_model_device;

#endif
