/* The load of a table: measured on a sample, or assumed. */
#ifndef RK_EMBEDDING_PLANNER_TABLE_STATISTICS_H
#define RK_EMBEDDING_PLANNER_TABLE_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

#include <reckon/table.h>

/* A row of high load. */
typedef struct rk_hot_row {
    int64_t id;
    double share; /* of the table's ids */
} rk_hot_row;

typedef struct rk_table_statistics {
    bool measured;
    double ids;            /* a sample, all features of the table together */
    double batch_rows;     /* distinct rows of a batch */
    double local_rows;     /* distinct rows of one trainer's local batch */
    const rk_hot_row *hot; /* [n_hot], the hottest first; may be NULL */
    int32_t n_hot;
} rk_table_statistics;

/* Distinct rows of n_ids ids, if the k-th most frequent of n_rows rows has a probability proportional to
 * k^-exponent. */
double rk_zipf_expected_distinct(int64_t n_rows, double exponent, double n_ids);

/* Where nothing is measured: Zipf with this exponent, and so many ids a sample. */
#define RK_ASSUMED_EXPONENT 1.05
rk_table_statistics rk_table_statistics_assume(int64_t n_rows, double ids, int64_t batch_size,
                                               int32_t n_trainers);
/* One id a sample of each feature of the table, max_sequence_length of a sequence. */
double rk_assumed_ids_per_sample(const char *table, const rk_feature_config *features, int32_t n_features);

#endif
