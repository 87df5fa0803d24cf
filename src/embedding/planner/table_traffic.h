/* What a step costs the owners of a table. */
#ifndef RK_EMBEDDING_PLANNER_TABLE_TRAFFIC_H
#define RK_EMBEDDING_PLANNER_TABLE_TRAFFIC_H

#include "embedding/planner/planner_request.h"

/* Of all trainers and owners together; what a trainer asks of itself is in it. */
typedef struct rk_table_traffic {
    double requests;                            /* rows, or bags where the owner combines them */
    double id_bytes, row_bytes, gradient_bytes; /* on the wire */
    double lookup_bytes, update_bytes;          /* in the owners' memory */
} rk_table_traffic;
rk_table_traffic rk_table_traffic_estimate(const rk_planner_request *request, int32_t table,
                                           const rk_table_statistics *load,
                                           const rk_table_placement *placement);

/* Of the requests, those that part `part` of n_parts answers: hot rows count where they are, the rest is
 * even. */
double rk_table_part_load_share(const rk_planner_request *request, const rk_table_statistics *load,
                                int32_t part, int32_t n_parts);
/* Rows of a part. */
int64_t rk_table_part_rows(int64_t n_rows, int32_t part, int32_t n_parts);

/* The same of table t, be it dynamic; and into how many parts it can be cut. */
int64_t rk_planner_request_part_rows(const rk_planner_request *request, int32_t table, int32_t part,
                                     int32_t n_parts);
int64_t rk_planner_request_max_parts(const rk_planner_request *request, int32_t table);

/* A row of `dim` values with its slots. */
double rk_stored_row_bytes(const rk_table_config *table, const rk_optimizer *optimizer, int32_t dim);

/* What so many rows of table t take of a rank's memory, with their keys, if they have some; and of its disk,
 * as records, if that is where they are. */
bool rk_planner_request_is_on_disk(const rk_planner_request *request, int32_t table);
double rk_planner_request_bytes_of_rows(const rk_planner_request *request, int32_t table, int64_t n_rows);
double rk_planner_request_disk_bytes(const rk_planner_request *request, int32_t table, int64_t n_rows);

#endif
