/* An export under way; for the files of this folder. */
#ifndef RK_EXPORT_EXPORT_INTERNAL_H
#define RK_EXPORT_EXPORT_INTERNAL_H

#include <reckon/export.h>

#include "base/buffer.h"
#include "export/stored_tensors.h"
#include "train/checkpoint/checkpoint.h"

typedef struct rk_exported_tensor {
    const rk_stored_tensor *stored;
    char *name;  /* as other programs see it: "embeddings.<table>.weight", "dense.<node>.<parameter>" */
    char *table; /* NULL: the dense part's */
    rk_export_rows rows;
    int32_t file;
} rk_exported_tensor;

typedef struct rk_exporting {
    const rk_export_options *options;
    char *checkpoint, *directory; /* what is read; what is written, under a temporary name */
    rk_manifest manifest;
    rk_config *config;
    rk_stored_tensors tensors;
    rk_exported_tensor *list; /* [n] */
    size_t n;
    int32_t n_files;
    uint64_t total_bytes;
    rk_state shard; /* the tensors list[first ..] that the file under way has */
    size_t first;
    char *stored, *written; /* a piece of a tensor, as it is stored and as it is written, */
    float *values;          /* and between them */
    size_t stored_capacity, written_capacity, values_capacity;
} rk_exporting;

/* The chosen tensors' files, and their index (export_safetensors.c). */
rk_status rk_export_write_tensors(rk_exporting *x);
/* README.md, as Hugging Face's hub shows it (model_card.c). */
rk_status rk_export_write_card(const rk_exporting *x);

#endif
