/* What was trained, for other programs: docs/export.md.
 * Stable (docs/api.md). */
#ifndef RECKON_EXPORT_H
#define RECKON_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/status.h>
#include <reckon/table.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an ONNX model takes the ids of a batch. */
typedef enum rk_export_bags {
    RK_EXPORT_BAGS_RAGGED = 0, /* all ids one behind another, and offsets of the samples */
    RK_EXPORT_BAGS_PADDED = 1  /* [batch, most ids of a sample], with -1 behind a sample's ids */
} rk_export_bags;

typedef struct rk_export_options {
    size_t struct_size;
    const char *const *tables; /* [n_tables]: these alone, without the dense part; NULL: the whole model */
    size_t n_tables;
    bool no_tables; /* the dense part alone; tables must be NULL */
    rk_export_rows rows;
    uint64_t shard_bytes; /* a file ends before it grows larger; a tensor is never cut. 0: 5 * 10^9 */
    const char *license;  /* an SPDX identifier for the model card; NULL: it names none */
    rk_export_bags bags;  /* of an ONNX model */
    int32_t id_bits;      /* of its ids and offsets: 64 or 32; 0: 64 */
    bool values;         /* it takes columns' values, as far as ONNX has what makes ids and numbers of them */
    const char *rows_to; /* "redis://HOST:PORT/PREFIX": tables' rows go there, the rest to files that say so;
                            NULL: all to files */
} rk_export_options;
#define RK_EXPORT_OPTIONS_INIT \
    { sizeof(rk_export_options), 0, 0, 0, RK_EXPORT_ROWS_TRAINED, 0, 0, RK_EXPORT_BAGS_RAGGED, 0, false, 0 }

/* The tensors of a checkpoint, or of a run's directory (its best or newest checkpoint), as safetensors files
 * in a new directory, whole or not at all: each tensor is whole, whatever ranks wrote parts of it. Memory:
 * some MiB, whatever the size of the tables and vocabularies. options may be NULL. Errors:
 * RK_NOT_FOUND (no checkpoint; no such table, with the nearest name as a hint), RK_INVALID_ARGUMENT (the
 * directory is there and not empty), RK_BUSY (another export writes it now), RK_BAD_DATA (a damaged
 * checkpoint, naming file and tensor), RK_NOT_FINITE (a row that int8 or int4 cannot hold, naming table and
 * row), RK_IO; of rows_to, RK_UNAVAILABLE, RK_UNSUPPORTED (a build without hiredis). Thread rule: any thread.
 */
RK_API rk_status rk_export_safetensors(const char *path, const rk_export_options *options,
                                       const char *directory);

/* The same files, and beside them the model as ONNX has it, which points into them: model.onnx gives the
 * predictions of each label from ids and numbers as the transforms yield them; of a two_tower user.onnx and
 * item.onnx, which give vectors; of some tables alone embeddings.onnx, which gives what is looked up in them.
 * Rows in int8 and int4 are tensors of codes, scales and least values. Memory: the fitted vocabularies beside
 * that. Options and errors as above, but for no_tables: RK_UNSUPPORTED; so are two labels or features whose
 * names would be one. */
RK_API rk_status rk_export_onnx(const char *path, const rk_export_options *options, const char *directory);

#ifdef __cplusplus
}
#endif
#endif
