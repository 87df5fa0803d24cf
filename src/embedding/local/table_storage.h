/* A table in memory, or a part of one: rows, slots, and the count of its updates. */
#ifndef RK_EMBEDDING_LOCAL_TABLE_STORAGE_H
#define RK_EMBEDDING_LOCAL_TABLE_STORAGE_H

#include <reckon/table.h>

#include "base/state_dict.h"
#include "embedding/dynamic/dynamic_table.h"
#include "embedding/sorted_keys.h"
#include "embedding/tiered/disk_row_cache.h"
#include "kernels/kernels.h"
#include "optim/optimizer_slots.h"

/* "table/<name>/disk_rows" and "disk_<slot>" are tensors without rows: they say what is behind the key in a
 * record of rows on a disk, in this order. */
#define RK_DISK_PREFIX "disk_"

/* What a part holds of the whole table: rows `part`, `part` + n_parts, ... and columns first_column ..
 * first_column + config.dim - 1 of `dim`; of a dynamic table, the keys of a range of buckets. */
typedef struct rk_table_part {
    const char *name; /* of the whole table; NULL: the part's own */
    int64_t n_rows;   /* likewise */
    int32_t dim;      /* likewise */
    int32_t n_parts, part, first_column;
    bool absent; /* no memory at all: ids are checked and planned for (by occurrences), the rows are elsewhere
                  */
    bool unplanned;      /* absent, and ids are only checked */
    bool is_outline;     /* no memory, but the bytes that it would take: only to be described */
    const rk_rows *rows; /* of a whole table: where its rows are, which are only read; NULL: in its memory */
    const rk_dynamic_config *dynamic; /* of the whole table, whose n_rows are its capacity; NULL: static */
    rk_sorted_keys *sorted_keys;      /* of such a table, whose n_rows are more: where they are */
    int32_t
        n_here; /* parts of the table in this process, which share the memory of its storage; 0: this one */
} rk_table_part;

typedef struct rk_table {
    rk_table_part part;
    rk_table_config config; /* with a name of its own; config.optimizer points to `optimizer` */
    rk_optimizer optimizer;
    uint64_t seed, name_hash;
    rk_rows rows;
    size_t rows_bytes;
    rk_dynamic_table *dynamic; /* which keys have which rows: config.n_rows are in use. NULL: static */
    rk_disk_row_cache *tier;   /* NULL: all rows are in memory; else rows stand at places of those that are */
    rk_dynamic_config dynamic_config; /* likewise, of an outline too; max_capacity 0: static */
    rk_sorted_keys *sorted_keys; /* of a dynamic table whose rows are elsewhere; NULL: `dynamic` has them */
    bool only_read;              /* the rows are not the table's own */
    int n_slots;
    rk_slot slots[RK_MAX_SLOTS];
    float *slot_values[RK_MAX_SLOTS]; /* [n_rows, dim] or [n_rows] */
    size_t slot_bytes[RK_MAX_SLOTS];
    int64_t step;
    double l2, l2_full;
} rk_table;

/* Rows and slots at their first values. `name` and `optimizer` are copied. part: NULL for a whole table; its
 * name must outlive the table. */
rk_status rk_table_init(rk_table *table, const rk_table_config *config, const rk_optimizer *optimizer,
                        uint64_t seed, const rk_table_part *part);
void rk_table_release(rk_table *table);

/* Write a row. bf16 and f16 are rounded with bits drawn from (seed, name, draw, row, column): draw 0 sets
 * rows, draw t is the t-th update's. */
uint64_t rk_table_rounding_seed(const rk_table *table, int64_t draw);
void rk_table_store_row(const rk_table *table, int64_t row, const float *values, int64_t draw);

static inline bool rk_table_is_dynamic(const rk_table *table) {
    return table->dynamic_config.max_capacity > 0;
}
/* Rows that there is memory for. */
static inline int64_t rk_table_rows_in_memory(const rk_table *table) {
    if (table->dynamic) return table->dynamic->n_places;
    return table->config.n_rows +
           (rk_table_is_dynamic(table) ? rk_dynamic_n_shared_rows(&table->dynamic_config) : 0);
}
uint64_t rk_table_bytes(const rk_table *table);
rk_status rk_table_state_dict(rk_table *table, rk_state_dict *state);

/* A dynamic table (dynamic_rows.c, which says more in collection_internal.h): memory for more rows; the first
 * values of a row that gets a key, which are those of the key's cold row if it has one. */
rk_status rk_table_grow(rk_table *table, int64_t n_places);
void rk_table_init_row(rk_table *table, int64_t row);
/* A folder of the table's own, or of the part's, in a folder, for its rows on a disk. */
rk_status rk_table_row_folder_path(const rk_table *table, const char *directory, char **out);
/* The number that pages of a table's rows have. */
uint32_t rk_table_row_log_id(const char *table);
/* Removes what runs that were killed left there of the same table, when it was cut into other parts; what a
 * process has that has not ended yet stays. */
rk_status rk_table_remove_other_parts(const rk_table *table, const char *directory);
/* Where a row stands in the table's arrays; -1: on a disk. The row that stands at a place. */
static inline int64_t rk_table_place_of_row(const rk_table *table, int64_t row) {
    return table->tier ? rk_disk_row_cache_place_of_row(table->tier, row) : row;
}
static inline int64_t rk_table_row_at_place(const rk_table *table, int64_t place) {
    return table->tier ? rk_disk_row_cache_row_of_place(table->tier, place) : place;
}
/* Rows of uses [n] become places, where some are on a disk. */
rk_status rk_table_load_rows_from_disk(rk_table *table, const rk_key_uses *uses, int32_t n_uses,
                                       bool is_training);
rk_status rk_dynamic_table_state_dict(rk_table *table, rk_state_dict *state);

#endif
