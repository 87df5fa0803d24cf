/* cluster.yaml: the hosts that a run would have. */
#ifndef RK_TRAIN_PLAN_CLUSTER_FILE_H
#define RK_TRAIN_PLAN_CLUSTER_FILE_H

#include "base/yaml/schema.h"
#include "embedding/planner/sharding_planner.h"

typedef enum rk_host_role { RK_ROLE_BOTH, RK_ROLE_TRAIN, RK_ROLE_EMBEDDING } rk_host_role;

/* Hosts of one kind. All numbers are a host's. */
typedef struct rk_host_group {
    int line;
    char *name;
    int64_t count, ranks;
    int64_t cores;               /* 0: as many as this machine */
    double memory_gb;            /* what the run may use */
    double memory_bandwidth_gbs; /* NaN: measured */
    double gflops;               /* NaN: measured */
    double network_gbps;         /* NaN: one host, which has none */
    double latency_us;
    double price_per_hour; /* NaN: not known */
    int role;              /* rk_host_role */
} rk_host_group;

typedef struct rk_cluster_file {
    rk_yaml yaml; /* its path is NULL where the cluster is this machine */
    struct rk_cluster_hosts {
        rk_host_group *groups;
        int64_t n_groups;
    } hosts;
    bool measured; /* some numbers are this machine's */
} rk_cluster_file;

rk_status rk_cluster_file_load(const char *path, rk_cluster_file *out);
rk_status rk_cluster_file_parse(const char *path, const char *text, size_t n_bytes, rk_cluster_file *out);
/* This machine, with so many ranks. */
rk_status rk_cluster_file_this_machine(int32_t n_ranks, rk_cluster_file *out);
void rk_cluster_file_release(rk_cluster_file *file);

bool rk_cluster_file_needs_measuring(
    const rk_cluster_file *file); /* numbers that can be measured are not there */
rk_status rk_cluster_file_missing_error(const rk_cluster_file *file);

/* One rank's share of its host. */
typedef struct rk_machine {
    int32_t group, host;       /* hosts count through all groups */
    int32_t ranks_beside;      /* ranks of its host that share it, itself among them */
    rk_rank_capacity capacity; /* all of its memory; network_speed INFINITY: one host */
    double flops, latency_s;
} rk_machine;

/* The first n_ranks ranks (0: all): those of groups that train, in the file's order, then those that only
 * hold rows. rk_free *out. */
rk_status rk_cluster_file_list_ranks(const rk_cluster_file *file, int32_t n_ranks, rk_machine **out,
                                     rk_roles *roles);

#endif
