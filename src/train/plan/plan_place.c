/* The ranks of a plan, and where its tables go on them. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "embedding/planner/table_traffic.h"
#include "train/plan/plan_internal.h"

/* The run file's roles hold, unless the cluster gives its hosts roles; then both must agree. */
static rk_status resolve_roles(rk_plan *plan, rk_roles of_cluster) {
    const rk_config *c = plan->config;
    rk_roles *roles = &plan->request.roles;
    plan->n_ranks = of_cluster.n_trainers + of_cluster.n_owners;
    plan->n_readers = 0;
    if (of_cluster.n_owners == 0) {
        RK_TRY(rk_cluster_section_roles(&c->cluster, &c->yaml, plan->n_ranks, roles));
        plan->n_readers = plan->n_ranks - roles->n_trainers - roles->n_owners;
        plan->n_ranks -= plan->n_readers;
        return RK_OK;
    }
    if (c->cluster.embedding_ranks && c->cluster.embedding_ranks != of_cluster.n_owners)
        return rk_error(RK_CONFIG,
                        "'%s' has %d embedding servers, but the run file says embedding_ranks: %lld",
                        plan->cluster.yaml.path, of_cluster.n_owners, (long long)c->cluster.embedding_ranks);
    *roles = of_cluster;
    return RK_OK;
}

static void release_ranks(rk_plan *plan) {
    RK_FREE_ALL(plan->machines, plan->capacities, plan->ranks);
    plan->machines = NULL;
    plan->capacities = NULL;
    plan->ranks = NULL;
}

static void release_placements(rk_plan *plan) {
    for (int32_t t = 0; plan->placements && t < plan->tables.n_tables; t++)
        rk_table_placement_release(&plan->placements[t]);
}

void rk_plan_release_ranks(rk_plan *plan) {
    release_placements(plan);
    release_ranks(plan);
}

static int role_of_rank(const rk_plan *plan, int32_t rank) {
    const rk_roles *roles = &plan->request.roles;
    return rank < roles->n_trainers ? 0 : rank < plan->n_ranks ? 1 : 2;
}

/* Ranks of a host that do different things wait for each other: what a rank does, it does beside those of its
 * host that do the same, which share cores and memory's speed. With threads of a set number, those that are
 * fewer are no faster for that. */
static void share_host_resources(rk_plan *plan) {
    int32_t all = plan->n_ranks + plan->n_readers, last;
    bool set = plan->config->train.threads > 0;
    for (int32_t first = 0; first < all; first = last) {
        int32_t counts[3] = {0};
        for (last = first; last < all && plan->machines[last].host == plan->machines[first].host; last++)
            counts[role_of_rank(plan, last)]++;
        int32_t most = counts[0] > counts[1] ? counts[0] : counts[1];
        for (int32_t r = first; r < last; r++) {
            rk_machine *machine = &plan->machines[r];
            int32_t beside = set && role_of_rank(plan, r) < 2 ? most : counts[role_of_rank(plan, r)];
            double times = (double)machine->ranks_beside / beside;
            machine->ranks_beside = beside;
            machine->flops *= times;
            machine->capacity.memory_speed *= times;
        }
    }
}

rk_status rk_plan_set_ranks(rk_plan *plan, int32_t n_ranks) {
    rk_roles roles;
    release_ranks(plan);
    RK_TRY(rk_cluster_file_list_ranks(&plan->cluster, n_ranks, &plan->machines, &roles));
    RK_TRY(resolve_roles(plan, roles));
    share_host_resources(plan);
    RK_TRY(rk_alloc((size_t)plan->n_ranks, sizeof *plan->capacities, &plan->capacities));
    return rk_alloc((size_t)plan->n_ranks, sizeof *plan->ranks, &plan->ranks);
}

/* What is left of a rank's memory for tables of its own, as far as the last placements tell. */
static void set_rank_capacities(rk_plan *plan) {
    for (int32_t r = 0; r < plan->n_ranks; r++) {
        plan->capacities[r] = plan->machines[r].capacity;
        plan->capacities[r].memory_bytes =
            fmax(plan->machines[r].capacity.memory_bytes -
                     (plan->ranks[r].all_bytes - plan->ranks[r].bytes[RK_PLAN_MEMORY_OWNED]),
                 1);
    }
    plan->request.capacities = plan->capacities;
}

/* What is not tables is known only from placements, so a second look is taken where it matters. */
rk_status rk_plan_place_tables(rk_plan *plan) {
    memset(plan->ranks, 0, (size_t)plan->n_ranks * sizeof *plan->ranks);
    for (int look = 0; look < 2; look++) {
        set_rank_capacities(plan);
        release_placements(plan);
        RK_TRY(rk_sharding_plan_choose(&plan->request, plan->placements));
        RK_TRY(rk_plan_estimate_cost(plan));
        if (rk_plan_fits(plan)) break;
    }
    return rk_plan_check_coverage(plan);
}

static rk_status check_table_is_covered(const rk_plan *plan, int32_t t) {
    const rk_table_config *table = &plan->tables.tables[t];
    const rk_table_placement *p = &plan->placements[t];
    if (p->replicated) return RK_OK;
    bool whole = p->owners && p->n_slices > 0 && p->n_parts > 0 && table->dim % p->n_slices == 0 &&
                 (p->n_parts == 1 || !p->owner_pooling);
    int64_t rows = 0;
    for (int32_t part = 0; whole && part < p->n_parts; part++)
        rows += rk_planner_request_part_rows(&plan->request, t, part, p->n_parts);
    for (int32_t i = 0; whole && i < p->n_slices * p->n_parts; i++)
        whole = p->owners[i] >= 0 && p->owners[i] < plan->n_ranks && rk_plan_owns(plan, p->owners[i]);
    RK_FAIL_IF(!whole || rows != rk_planner_request_table_rows(&plan->request, t), RK_INTERNAL,
               "the plan does not cover all of table '%s'", table->name);
    return RK_OK;
}

rk_status rk_plan_check_coverage(const rk_plan *plan) {
    for (int32_t t = 0; t < plan->tables.n_tables; t++) RK_TRY(check_table_is_covered(plan, t));
    return RK_OK;
}
