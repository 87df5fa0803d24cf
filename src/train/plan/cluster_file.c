#include "train/plan/cluster_file.h"

#include <math.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/find_text.h"

enum { MOST_RANKS = 65536 };

static const char *const roles[] = {"both", "train", "embedding"};

static const rk_field group_fields[] = {
    RK_FIELD_TEXT(rk_host_group, name, true, NULL, "the group's name"),
    RK_FIELD_I64(rk_host_group, count, 1, 1, MOST_RANKS, "hosts"),
    RK_FIELD_I64(rk_host_group, ranks, 1, 1, 1024, "ranks a host"),
    RK_FIELD_I64(rk_host_group, cores, 0, 0, 65536,
                 "CPU cores of a host, shared by its ranks; 0: as many as this machine has"),
    RK_FIELD_F64(rk_host_group, memory_gb, RK_UNSET, 0.001, 1e9,
                 "memory of a host that the run may use, 10^9 bytes"),
    RK_FIELD_F64(rk_host_group, memory_bandwidth_gbs, RK_UNSET, 0.001, 1e9,
                 "memory bandwidth of a host at random rows, 10^9 bytes a second"),
    RK_FIELD_F64(rk_host_group, gflops, RK_UNSET, 0.001, 1e12,
                 "dense matrix products of a host, 10^9 operations a second"),
    RK_FIELD_F64(rk_host_group, network_gbps, RK_UNSET, 0.001, 1e9,
                 "network bandwidth of a host each way, 10^9 bits a second"),
    RK_FIELD_F64(rk_host_group, latency_us, 10, 0, 1e9, "latency of a message, microseconds"),
    RK_FIELD_F64(rk_host_group, price_per_hour, RK_UNSET, 0, 1e9, "of a host"),
    RK_FIELD_ENUM(rk_host_group, role, RK_ROLE_BOTH, roles, "what its ranks do"),
};
static const rk_schema group_schema = RK_SECTION_SCHEMA("groups", rk_host_group, group_fields, NULL);

typedef struct rk_cluster_hosts rk_cluster_hosts;
static const rk_field fields[] = {
    RK_FIELD_LIST(rk_cluster_hosts, groups, n_groups, &group_schema, true, "hosts of one kind each")};
static const rk_schema schema = RK_SCHEMA("cluster file", rk_cluster_hosts, fields);

static rk_status cluster_file_error(const rk_cluster_file *file, int line, const char *key,
                                    const char *message) {
    return rk_error(RK_CONFIG, "%s:%d: key '%s': %s", file->yaml.path, line, key, message);
}

static rk_status check_host_roles(const rk_cluster_file *file) {
    int64_t counts[3] = {0};
    int last_line = 0;
    for (int64_t i = 0; i < file->hosts.n_groups; i++) {
        counts[file->hosts.groups[i].role]++;
        last_line = file->hosts.groups[i].line;
    }
    if (counts[RK_ROLE_BOTH] && counts[RK_ROLE_TRAIN] + counts[RK_ROLE_EMBEDDING])
        return rk_error_hint(
            cluster_file_error(file, last_line, "role",
                               "'role: both' cannot be mixed with 'role: train' and 'role: embedding'"),
            "give every group 'role: train' or 'role: embedding', or leave all roles out");
    if (counts[RK_ROLE_TRAIN] && !counts[RK_ROLE_EMBEDDING])
        return cluster_file_error(file, last_line, "role",
                                  "no group holds rows: one needs 'role: embedding'");
    if (counts[RK_ROLE_EMBEDDING] && !counts[RK_ROLE_TRAIN])
        return cluster_file_error(file, last_line, "role", "no group trains: one needs 'role: train'");
    return RK_OK;
}

static rk_status check_cluster_file(const rk_cluster_file *file) {
    int64_t n_ranks = 0, n_hosts = 0;
    const rk_host_group *groups = file->hosts.groups;
    for (int64_t i = 0; i < file->hosts.n_groups; i++) {
        n_hosts += groups[i].count;
        n_ranks += groups[i].count * groups[i].ranks;
        if (n_ranks > MOST_RANKS)
            return cluster_file_error(file, groups[i].line, "count", "more than 65536 ranks");
        if (isnan(groups[i].memory_gb))
            return cluster_file_error(file, groups[i].line, "memory_gb", "is missing");
        if (RK_POSITION_BY(name, groups[i].name, groups, i) >= 0)
            return cluster_file_error(file, groups[i].line, "name", "duplicate group name");
    }
    if (n_hosts == 0)
        return rk_error(RK_CONFIG, "%s: a cluster needs at least one group of hosts", file->yaml.path);
    for (int64_t i = 0; n_hosts > 1 && i < file->hosts.n_groups; i++)
        if (isnan(groups[i].network_gbps))
            return cluster_file_error(file, groups[i].line, "network_gbps",
                                      "is missing; it is needed for several hosts");
    return check_host_roles(file);
}

rk_status rk_cluster_file_parse(const char *path, const char *text, size_t n_bytes, rk_cluster_file *out) {
    RK_AUTO(rk_cluster_file_release) rk_cluster_file file = {0};
    RK_TRY(rk_yaml_parse(path, text, n_bytes, &file.yaml));
    RK_TRY(rk_schema_bind(&schema, &file.yaml, file.yaml.root, &file.hosts));
    RK_TRY(check_cluster_file(&file));
    *out = file;
    file = (rk_cluster_file){0};
    return RK_OK;
}

rk_status rk_cluster_file_load(const char *path, rk_cluster_file *out) {
    RK_AUTOFREE char *text = NULL;
    size_t n_bytes;
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    return rk_cluster_file_parse(path, text, n_bytes, out);
}

rk_status rk_cluster_file_this_machine(int32_t n_ranks, rk_cluster_file *out) {
    rk_cluster_file file = {0};
    RK_TRY(rk_alloc(1, sizeof *file.hosts.groups, &file.hosts.groups));
    file.hosts.n_groups = 1;
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    file.hosts.groups[0] = (rk_host_group){.count = 1,
                                           .ranks = n_ranks,
                                           .memory_gb = bytes * 1e-9,
                                           .memory_bandwidth_gbs = NAN,
                                           .gflops = NAN,
                                           .network_gbps = NAN,
                                           .latency_us = 1,
                                           .price_per_hour = NAN};
    rk_status status = rk_strdup("this machine", &file.hosts.groups[0].name);
    if (status == RK_OK)
        *out = file;
    else
        rk_cluster_file_release(&file);
    return status;
}

void rk_cluster_file_release(rk_cluster_file *file) {
    rk_schema_release(&schema, &file->hosts);
    rk_yaml_release(&file->yaml);
}

bool rk_cluster_file_needs_measuring(const rk_cluster_file *file) {
    for (int64_t i = 0; i < file->hosts.n_groups; i++)
        if (isnan(file->hosts.groups[i].memory_bandwidth_gbs) || isnan(file->hosts.groups[i].gflops))
            return true;
    return false;
}

rk_status rk_cluster_file_missing_error(const rk_cluster_file *file) {
    const rk_host_group *group = file->hosts.groups;
    while (!isnan(group->memory_bandwidth_gbs) && !isnan(group->gflops)) group++;
    rk_status status = cluster_file_error(
        file, group->line, isnan(group->gflops) ? "gflops" : "memory_bandwidth_gbs", "is missing");
    return rk_error_hint(status, "set it, or use --measure for what this machine reaches");
}

static rk_machine make_machine_of_rank(const rk_host_group *group, int32_t number, int32_t host,
                                       bool one_host) {
    double n = (double)group->ranks;
    rk_rank_capacity capacity = {group->memory_gb * 1e9 / n, group->memory_bandwidth_gbs * 1e9 / n,
                                 one_host ? INFINITY : group->network_gbps * 1e9 / 8 / n};
    return (rk_machine){.group = number,
                        .host = host,
                        .ranks_beside = (int32_t)group->ranks,
                        .capacity = capacity,
                        .flops = group->gflops * 1e9 / n,
                        .latency_s = group->latency_us * 1e-6};
}

static int32_t count_ranks(const rk_cluster_file *file, int *n_hosts) {
    int64_t n = 0;
    *n_hosts = 0;
    for (int64_t i = 0; i < file->hosts.n_groups; i++) {
        n += file->hosts.groups[i].count * file->hosts.groups[i].ranks;
        *n_hosts += (int)file->hosts.groups[i].count;
    }
    return (int32_t)n;
}

rk_status rk_cluster_file_list_ranks(const rk_cluster_file *file, int32_t n_ranks, rk_machine **out,
                                     rk_roles *roles_out) {
    int n_hosts;
    int32_t all = count_ranks(file, &n_hosts), n = 0, host = 0;
    bool parted = file->hosts.groups[0].role != RK_ROLE_BOTH;
    RK_FAIL_IF(n_ranks > all, RK_INVALID_ARGUMENT, "--ranks %d is more than the cluster's %d ranks", n_ranks,
               all);
    RK_FAIL_IF(n_ranks && n_ranks < all && parted, RK_INVALID_ARGUMENT,
               "--ranks %d cannot be used with a cluster file that gives ranks roles\nhint: change the "
               "counts in '%s'",
               n_ranks, file->yaml.path);
    rk_machine *machines;
    RK_TRY(rk_alloc((size_t)all, sizeof *machines, &machines));
    rk_roles counts = {0, 0};
    for (int holds = 0; holds < 2; holds++)
        for (int64_t g = 0; g < file->hosts.n_groups; g++) {
            const rk_host_group *group = &file->hosts.groups[g];
            if ((group->role == RK_ROLE_EMBEDDING) != (holds == 1)) continue;
            for (int64_t h = 0; h < group->count; h++, host++)
                for (int64_t r = 0; r < group->ranks; r++)
                    machines[n++] = make_machine_of_rank(group, (int32_t)g, host, n_hosts == 1);
            *(holds ? &counts.n_owners : &counts.n_trainers) = holds ? n - counts.n_trainers : n;
        }
    if (n_ranks && !parted) counts.n_trainers = n_ranks;
    *out = machines;
    *roles_out = counts;
    return RK_OK;
}
