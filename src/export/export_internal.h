/* An export under way; for the files of this folder. */
#ifndef RK_EXPORT_EXPORT_INTERNAL_H
#define RK_EXPORT_EXPORT_INTERNAL_H

#include <reckon/export.h>

#include "base/buffer.h"
#include "base/file/directory_lock.h"
#include "embedding/config/row_formats.h"
#include "train/checkpoint/stored_tensors.h"
#include "train/checkpoint/checkpoint.h"

/* The keys of a dynamic table, and in which order its rows are written. */
typedef struct rk_exported_keys {
    char *table;
    int64_t n;
    int64_t *keys;                   /* [n], ascending */
    int64_t *order;                  /* [n] where a key's row stands in the checkpoint */
    const rk_stored_tensor *missing; /* the rows that keys without one share; NULL: one of zeros */
} rk_exported_keys;

static inline int64_t rk_exported_n_shared_rows(const rk_exported_keys *keys) {
    return keys->missing ? keys->missing->n_rows : 1;
}

typedef struct rk_exported_tensor {
    const rk_stored_tensor *stored;
    const rk_exported_keys *keyed; /* of a dynamic table's keys and rows */
    char *name;  /* as other programs see it: "embeddings.<table>.weight", "dense.<node>.<parameter>" */
    char *table; /* NULL: the dense part's */
    rk_export_rows rows;    /* RK_EXPORT_ROWS_TRAINED: as they are stored, which the dense part always is */
    rk_row_component piece; /* ONNX's codes, scales and minima are tensors of their own */
    bool is_elsewhere;      /* in no file */
    int32_t file;
    uint64_t begin; /* where its bytes are in that file, once they are written */
} rk_exported_tensor;

typedef enum rk_export_format { RK_EXPORT_SAFETENSORS, RK_EXPORT_ONNX } rk_export_format;

typedef struct rk_exporting {
    rk_export_format format;
    const rk_export_options *options;
    char *checkpoint, *directory; /* what is read; what is written, under a temporary name */
    char *temporary;              /* where that is, beside the directory that it becomes, */
    rk_directory_lock *lock;      /* and which one export at a time has */
    rk_manifest manifest;
    rk_config *config;
    rk_stored_tensors tensors;
    rk_exported_tensor *list; /* [n] */
    size_t n, n_in_files;     /* the first ones are in files; rows that are elsewhere stand behind them */
    rk_exported_keys **keyed; /* [n_keyed] */
    size_t n_keyed, keyed_capacity;
    int32_t n_files;
    uint64_t total_bytes;
    rk_state_dict shard; /* the tensors list[first ..] that the file under way has */
    size_t first;
    char *stored, *written; /* a piece of a tensor, as it is stored and as it is written, */
    float *values;          /* and between them */
    size_t stored_capacity, written_capacity, values_capacity;
} rk_exporting;

/* The chosen tensors' files, and their index (export_safetensors.c). */
rk_status rk_export_write_safetensors(rk_exporting *x);
/* Rows first .. first+n-1 of a tensor, as they are written; the bytes are in *out until the next call. */
rk_status rk_export_encode_rows(rk_exporting *exporting, const rk_exported_tensor *tensor, int64_t first,
                                int64_t n, const void **out);
/* Tables' rows to where the options say, and what says where they are into the directory (export_redis.c). */
rk_status rk_export_write_redis_rows(rk_exporting *exporting);
rk_dtype rk_exported_tensor_dtype(const rk_exported_tensor *tensor);
int64_t rk_exported_tensor_rows(const rk_exported_tensor *tensor); /* their number */
int64_t rk_exported_tensor_columns(const rk_exported_tensor *tensor);
uint64_t rk_exported_tensor_bytes(const rk_exported_tensor *tensor);
/* Dynamic tables (export_keys.c): a table's keys, sorted when they are first asked for, *out NULL of a static
 * one; and a piece of its keys or of its rows, as they are stored. */
rk_status rk_export_load_keys(rk_exporting *x, const char *table, const rk_exported_keys **out);
rk_status rk_export_read_rows_in_key_order(rk_exporting *x, const rk_exported_tensor *tensor, int64_t first,
                                           int64_t n, char *out);
/* Those that were asked for; NULL: the table's were not, or it has none. */
const rk_exported_keys *rk_export_get_keys(const rk_exporting *x, const char *table);
void rk_export_free_keys(rk_exporting *x);
static inline bool rk_exported_tensor_is_keys(const rk_exported_tensor *tensor) {
    return tensor->keyed && tensor->stored->type == RK_I64;
}
enum { RK_EXPORT_FILE_NAME_BYTES = 64 };
void rk_export_file_name(const rk_exporting *x, int32_t file, char name[RK_EXPORT_FILE_NAME_BYTES]);
/* Then the models that point into those files (export_onnx.c). */
rk_status rk_export_write_onnx(const rk_exporting *x);
/* README.md, as Hugging Face's hub shows it (model_card.c). */
rk_status rk_export_write_model_card(const rk_exporting *x);

#endif
