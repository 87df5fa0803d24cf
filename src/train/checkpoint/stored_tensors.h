/* The tensors of a checkpoint, or of an exported directory, as if each were whole, wherever its parts are:
 * read by pieces of rows, so that no machine has to hold one. Thread rule: one thread at a time. */
#ifndef RK_TRAIN_CHECKPOINT_STORED_TENSORS_H
#define RK_TRAIN_CHECKPOINT_STORED_TENSORS_H

#include <reckon/table.h>

#include "base/file/file.h"
#include "base/state_dict.h"
#include "base/text/name_map.h"
#include "base/text/text.h"
#include "format/safetensors.h"

/* n_rows rows first, first + step, ... of a tensor, and of these columns first_column .. first_column +
 * n_columns-1: row after row, from byte `begin` of a file on. */
typedef struct rk_stored_part {
    int32_t file;
    uint64_t begin;
    int64_t first, step, n_rows;
    int64_t first_column, n_columns;
} rk_stored_part;

typedef struct rk_stored_tensor {
    char *name; /* without the ranges of a part */
    rk_dtype type;
    int32_t n_dims; /* 1 or 2; what has more is [dims[0], all others] */
    int64_t n_rows, n_columns;
    rk_export_rows
        codes;   /* an export's int8 and int4 rows, of n_columns bytes; else RK_EXPORT_ROWS_TRAINED */
    int64_t dim; /* values a row */
    rk_stored_part *parts; /* [n_parts]: each element is in one of them */
    size_t n_parts, capacity;
    int32_t on_disk;   /* -1; else the number of the table whose row logs have the values, */
    size_t first_byte; /* and where in a record they are */
} rk_stored_tensor;

typedef struct rk_stored_tensors {
    rk_stored_tensor *list; /* [n], in the order of the files */
    size_t n, capacity;
    rk_name_map names;
    struct rk_stored_file {
        int descriptor;
        char *path;
    } * files; /* [n_files] */
    size_t n_files;
    struct rk_stored_disk {
        char *table;
        uint32_t record_bytes;
        struct rk_rows_on_disk *rows; /* NULL: nobody has asked for them yet */
    } * on_disk;                      /* [n_on_disk] */
    size_t n_on_disk;
    char *rows_directory;
    bool is_export, reads_headers; /* reads_headers: no file stays open */
    char *buffer;                  /* of a piece of a part */
    size_t buffer_capacity;
} rk_stored_tensors;

/* Reads the headers of a checkpoint's files, and leaves the files open. Rows and slots that are on a disk are
 * tensors like others (rows_on_disk.h). Numbers of I64 that are no keys of
 * dynamic tables and no clock of theirs, and before-images of rows, are passed over. Errors: RK_BAD_DATA
 * naming the file and the tensor, where parts overlap or leave out an element, or keys have another shape or
 * dtype; RK_NOT_FOUND, RK_IO. */
rk_status rk_stored_tensors_open(const char *checkpoint, rk_stored_tensors *out);
/* The same errors; one file at a time is open, however many there are. */
rk_status rk_stored_tensors_check_files(const char *checkpoint);
/* The same of a directory that rk_export_safetensors or rk_export_onnx has written: tensors have the names
 * that a checkpoint gives them, tensors of other names are passed over. */
rk_status rk_stored_tensors_open_export(const char *directory, rk_stored_tensors *out);
bool rk_directory_is_export(const char *directory);
void rk_stored_tensors_close(rk_stored_tensors *tensors);
const rk_stored_tensor *rk_stored_tensors_find(const rk_stored_tensors *tensors, const char *name);
/* "table/<table>/<what>"; NULL: there is none. */
const rk_stored_tensor *rk_stored_tensors_find_of_table(const rk_stored_tensors *tensors, const char *table,
                                                        const char *what);
/* Of "table/<table>/<what>": *table, the caller's to free, and *what within the name; *table NULL: another
 * tensor. */
rk_status rk_parse_table_tensor_name(const char *name, char **table, const char **what);
/* Of "table/<table>/keys", the keys of a dynamic table, or of a part of them: the table's name; empty:
 * another tensor. */
rk_span rk_table_name_of_keys_tensor(const char *name);

/* Where a part's bytes are, whose file is mapped then: files [tensors->n_files] are the caller's, zeros at
 * first. RK_BAD_DATA: the file is too short. */
rk_status rk_stored_part_map(const rk_stored_tensors *tensors, const rk_stored_tensor *tensor,
                             const rk_stored_part *part, rk_mapped_file *files, const uint8_t **out);

/* Rows first .. first+n-1 as they are stored, into out [n, n_columns]. Memory: out, and as much again at the
 * most. */
rk_status rk_stored_tensor_read(rk_stored_tensors *tensors, const rk_stored_tensor *tensor, int64_t first,
                                int64_t n, void *out);
/* The same of rows in any order. */
rk_status rk_stored_tensor_gather(rk_stored_tensors *tensors, const rk_stored_tensor *tensor,
                                  const int64_t *rows, int64_t n, void *out);

/* Between stored_tensors.c and stored_export.c: a file's tensors into the list. */
rk_status rk_stored_tensors_add_file(rk_stored_tensors *tensors, const char *path);
/* Those of an export's file; rows: what "reckon.rows" of its metadata says, or NULL. */
rk_status rk_stored_tensors_add_export(rk_stored_tensors *tensors, const rk_safetensors *entries,
                                       const char *rows);
/* A tensor, by the name that a checkpoint gives it, which is copied; or, of rows of codes, the bytes from
 * first_column on. codes, dim: as in the list. */
rk_status rk_stored_tensors_add_columns(rk_stored_tensors *tensors, const char *name,
                                        const rk_safetensors_entry *entry, int64_t first_column,
                                        rk_export_rows codes, int64_t dim);
/* RK_BAD_DATA where tensors' parts overlap or leave out an element, or keys are not I64, one a row. */
rk_status rk_stored_tensors_check(const rk_stored_tensors *tensors);

#endif
