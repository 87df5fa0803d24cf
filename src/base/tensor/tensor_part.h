/* Tensors of which a file or a rank has a part: "table/user/rows[2:1000:4,0:64]" is rows 2, 6, ... below
 * 1000, and of those columns 0 to 63; "table/item/keys[120..340:1000]" is rows 120 to 339 of 1000. */
#ifndef RK_BASE_TENSOR_TENSOR_PART_H
#define RK_BASE_TENSOR_TENSOR_PART_H

#include <stdbool.h>

#include "base/state_dict.h"

typedef struct rk_tensor_part {
    const char *name; /* [name_bytes]: without the brackets */
    size_t name_bytes;
    int64_t n_rows;                  /* of the whole tensor */
    int64_t first, end, step;        /* rows first, first + step, ... below end */
    int64_t first_column, n_columns; /* n_columns values a row, from first_column on */
    bool all_columns;                /* the name has no columns: all of them */
    bool is_block;                   /* the name says which rows follow each other */
    int64_t n_elements; /* that there are by the shape; a counter's one has the name of its table's part */
} rk_tensor_part;

/* dims [n_dims] are the tensor's own. RK_BAD_DATA where name and shape do not fit. */
rk_status rk_tensor_part_parse(const char *name, int32_t n_dims, const int64_t *dims, rk_tensor_part *out);
bool rk_tensor_parts_same_tensor(const rk_tensor_part *a, const rk_tensor_part *b); /* of one tensor */

/* RK_CONFIG where their whole tensors have other shapes. */
rk_status rk_tensor_parts_check_shapes(const rk_tensor_part *to, const rk_tensor_part *from);

/* Copy what `to` and `from` share, elements of n_bytes, to rows that stand `stride` bytes apart (0: packed);
 * *n_copied counts them. RK_CONFIG where the whole tensors have other shapes, RK_BAD_DATA if a name claims
 * more than its tensor has. */
rk_status rk_tensor_part_copy(const rk_tensor_part *to, void *to_data, size_t stride,
                              const rk_tensor_part *from, const void *from_data, size_t n_bytes,
                              int64_t *n_copied);

#endif
