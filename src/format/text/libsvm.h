/* `label[,label...] [qid:g] index:value ...` a line; '#' starts a comment. docs/formats/libsvm.md. Pure. */
#ifndef RK_FORMAT_TEXT_LIBSVM_H
#define RK_FORMAT_TEXT_LIBSVM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_libsvm_row {
    float *labels; /* [n_labels] */
    size_t n_labels, labels_capacity;
    int64_t *ids;  /* [n_ids] */
    float *values; /* [n_ids]; 1 where no ":value" is written */
    size_t n_ids, ids_capacity, values_capacity;
    bool has_group;
    int64_t group;
} rk_libsvm_row;

/* One line without its end. A blank or comment line gives n_labels = 0. */
rk_status rk_libsvm_parse(const char *line, size_t n_bytes, rk_libsvm_row *row);
void rk_libsvm_row_release(rk_libsvm_row *row);

#endif
