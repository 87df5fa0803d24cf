/* plan.yaml: where each table is, as `reckon plan --write` leaves it and cluster.plan reads it back. */
#ifndef RK_TRAIN_CONFIG_PLAN_FILE_H
#define RK_TRAIN_CONFIG_PLAN_FILE_H

#include "base/yaml/schema.h"
#include "embedding/planner/sharding_planner.h"

typedef struct rk_plan_file {
    rk_yaml yaml;
    struct rk_planned {
        int64_t trainers, owners; /* owners: ranks that only hold rows */
        struct rk_planned_table {
            int line;
            char *name;
            int64_t rows, dim, slices;
            int sharding; /* rk_sharding, never auto */
            int64_t *ranks;
            int64_t n_ranks;
            bool owner_pooling;
        } * tables;
        int64_t n_tables;
    } planned;
    rk_planner_constraint *constraints; /* [n_tables], views of the tables */
} rk_plan_file;

rk_status rk_plan_file_load(const char *path, rk_plan_file *out);
void rk_plan_file_release(rk_plan_file *file);
/* RK_CONFIG if it was made for other ranks. */
rk_status rk_plan_file_check_roles(const rk_plan_file *file, const rk_roles *roles);

rk_status rk_plan_file_write(const char *path, const rk_roles *roles, const rk_table_config *tables,
                             const rk_table_placement *placements, int32_t n_tables);

#endif
