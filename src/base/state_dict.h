/* The state of a trainable thing as a list of named tensors: what a checkpoint writes and reads. */
#ifndef RK_BASE_STATE_DICT_H
#define RK_BASE_STATE_DICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/tensor.h>

#include "base/error.h"
#include "base/text/name_map.h"

typedef enum rk_state_dict_kind {
    RK_STATE_OTHER,     /* slots of optimizers, counters */
    RK_STATE_ROWS,      /* of a table, or of a part of it */
    RK_STATE_ROWS_READ, /* of a table, which are elsewhere and only read; codes as their bytes */
    RK_STATE_KEYS,      /* of a table's rows */
    RK_STATE_DENSE,     /* a parameter of the dense part */
    RK_STATE_STATISTIC  /* what a forward pass in training changes */
} rk_state_dict_kind;

/* Row `row` of what `data` stands for. */
typedef void (*rk_read_state_row)(const void *data, int64_t row, void *to);

typedef struct rk_state_dict_entry {
    char *name;
    rk_dtype type;
    rk_state_dict_kind kind;
    int32_t n_dims;
    int64_t dims[2];
    void *data;                 /* a view of the live values, row major */
    const int64_t *order;       /* NULL; or [dims[0]]: row i is data's row order[i], and is only read */
    rk_read_state_row read_row; /* NULL; or what reads a row, in place of data's bytes: there is an order */
    size_t stride;              /* bytes from a row of data to the next; 0: they are packed */
    bool moves;                 /* the values are elsewhere after a training step */
    bool shared;                /* every trainer has it: the first one writes it */
} rk_state_dict_entry;

typedef struct rk_state_dict {
    rk_state_dict_entry *entries; /* [n], names unique */
    size_t n, capacity;
    rk_name_map names;
} rk_state_dict;

/* dims[1] = 0 means one dimension. Copies the name. */
rk_status rk_state_dict_add(rk_state_dict *state, const char *name, rk_dtype type, int64_t dim0, int64_t dim1,
                            void *data);
/* Of the tensor that was added last. */
static inline void rk_state_dict_set_kind(rk_state_dict *state, rk_state_dict_kind kind) {
    state->entries[state->n - 1].kind = kind;
}
const rk_state_dict_entry *rk_state_dict_find(const rk_state_dict *state, const char *name);
uint64_t rk_state_dict_entry_bytes(const rk_state_dict_entry *entry);
size_t rk_state_dict_row_bytes(const rk_state_dict_entry *entry);
static inline size_t rk_state_dict_stride(const rk_state_dict_entry *entry) {
    return entry->stride ? entry->stride : rk_state_dict_row_bytes(entry);
}
/* Rows first .. first+n-1 in their order, packed. */
void rk_state_dict_copy_rows(const rk_state_dict_entry *entry, int64_t first, int64_t n, void *to);
void rk_state_dict_release(rk_state_dict *state); /* the list, not the data */

#endif
