/* A table in memory: rows, slots, and the count of its updates. */
#ifndef RK_EMBEDDING_STORAGE_H
#define RK_EMBEDDING_STORAGE_H

#include <reckon/table.h>

#include "base/state.h"
#include "kernels/kernels.h"
#include "optim/slots.h"

typedef struct rk_table {
    rk_table_config config;   /* with a name of its own; config.optimizer points to `optimizer` */
    rk_optimizer optimizer;
    uint64_t seed, name_hash;
    rk_rows rows;
    size_t rows_bytes;
    int n_slots;
    rk_slot slots[RK_MAX_SLOTS];
    float *slot_values[RK_MAX_SLOTS]; /* [n_rows, dim] or [n_rows] */
    size_t slot_bytes[RK_MAX_SLOTS];
    int64_t step;
    double l2, l2_full;
} rk_table;

/* Rows and slots at their first values. `name` and `optimizer` are copied. */
rk_status rk_table_init(rk_table *table, const rk_table_config *config, const rk_optimizer *optimizer, uint64_t seed);
void rk_table_release(rk_table *table);

/* Write a row. bf16 and f16 are rounded with bits drawn from (seed, name, draw, row, column): draw 0 sets rows, draw t is
 * the t-th update's. */
uint64_t rk_table_store_seed(const rk_table *table, int64_t draw);
void rk_table_store(const rk_table *table, int64_t row, const float *values, int64_t draw);

uint64_t rk_table_bytes(const rk_table *table);
rk_status rk_table_state(rk_table *table, rk_state *state);

#endif
