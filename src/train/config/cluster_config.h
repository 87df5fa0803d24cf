/* The `cluster:` section of a run file: how the ranks of a run divide its work. */
#ifndef RK_TRAIN_CONFIG_CLUSTER_CONFIG_H
#define RK_TRAIN_CONFIG_CLUSTER_CONFIG_H

#include "base/yaml/schema.h"
#include "comm/comm.h"
#include "embedding/planner/sharding_planner.h"
#include "model/model.h"

typedef enum rk_wire_dense {
    RK_WIRE_DENSE_AUTO,
    RK_WIRE_DENSE_F32,
    RK_WIRE_DENSE_BF16,
    RK_WIRE_DENSE_INT8,
    RK_WIRE_DENSE_POWERSGD
} rk_wire_dense;

typedef struct rk_cluster_section {
    int line;
    int64_t embedding_ranks; /* so many ranks behind those that train only hold rows; 0: those that train hold
                                them too */
    int64_t reader_ranks;    /* and behind them, the last so many only read; 0: every trainer reads */
    int64_t virtual_shards;  /* 0: as many as trainers */
    double timeout_s;
    int wire;              /* rk_dtype */
    int wire_dense;        /* rk_wire_dense */
    int64_t powersgd_rank; /* of the approximation */
    int64_t replicate_below;
    bool asynchronous;
    char *plan; /* NULL: none */
    struct rk_table_shard_section {
        int line;
        char *name;   /* a table */
        int sharding; /* rk_sharding */
        int64_t *ranks;
        int64_t n_ranks;
        int64_t slices;
        int owner_pooling; /* rk_pooling */
    } * tables;
    int64_t n_tables;
} rk_cluster_section;

extern const rk_schema rk_cluster_schema;

/* Errors that need neither the tables nor the number of ranks. */
rk_status rk_cluster_section_check(const rk_cluster_section *section, const rk_yaml *yaml);
/* What dense gradients travel as between trainers without GPUs. */
rk_dense_wire rk_cluster_dense_wire(const rk_cluster_section *section);
/* Of n_ranks, among them those that only read, who trains and who holds rows. RK_CONFIG if none is left to
 * train. */
rk_status rk_cluster_section_roles(const rk_cluster_section *section, const rk_yaml *yaml, int32_t n_ranks,
                                   rk_roles *out);
/* What the section asks of tables: [n_tables], views of the section. rk_free it. */
rk_status rk_cluster_section_constraints(const rk_cluster_section *section, const rk_yaml *yaml,
                                         rk_planner_constraint **out);

#endif
