/* What this machine reaches: its limits, and the factor by which this run's steps are slower. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread/parallel.h"
#include "train/run/roofline.h"
#include "train/plan/plan_internal.h"

enum { MAX_SIMULATED_RANKS = 16 };

/* A usual row: the dim of the table with most bytes. */
static int32_t dim_of_largest_table(const rk_plan *plan) {
    int32_t most = 0;
    for (int32_t t = 1; t < plan->tables.n_tables; t++)
        if (rk_plan_table_bytes(plan, t) > rk_plan_table_bytes(plan, most)) most = t;
    return plan->tables.n_tables ? plan->tables.tables[most].dim : 16;
}

/* The cores of a host of the group; of this machine where the file does not say. */
static double cores_of_host(const rk_host_group *group) {
    return group->cores ? (double)group->cores : (double)sysconf(_SC_NPROCESSORS_ONLN);
}

rk_status rk_plan_measure_limits(rk_plan *plan) {
    bool layers = plan->dense.layer_in > 0;
    RK_TRY(rk_roofline_gather(dim_of_largest_table(plan), &plan->here.memory_speed));
    RK_TRY(rk_roofline_gemm(layers ? plan->dense.layer_in : 256, layers ? plan->dense.layer_out : 256,
                            &plan->here.flops));
    for (int64_t i = 0; i < plan->cluster.hosts.n_groups; i++) {
        rk_host_group *group = &plan->cluster.hosts.groups[i];
        double part = cores_of_host(group) / (double)sysconf(_SC_NPROCESSORS_ONLN);
        plan->cluster.measured |= isnan(group->memory_bandwidth_gbs) || isnan(group->gflops);
        if (isnan(group->memory_bandwidth_gbs))
            group->memory_bandwidth_gbs = plan->here.memory_speed * part * 1e-9;
        if (isnan(group->gflops)) group->gflops = plan->here.flops * part * 1e-9;
    }
    return RK_OK;
}

/* Ranks as those of the first host, as many as fill this machine. */
static rk_trial_run choose_simulated_ranks(const rk_plan *plan) {
    const rk_host_group *group = &plan->cluster.hosts.groups[plan->machines[0].group];
    double cores = cores_of_host(group) / plan->machines[0].ranks_beside,
           here = (double)sysconf(_SC_NPROCESSORS_ONLN);
    rk_trial_run r = {.n_simulated_ranks = 1, .n_threads = (int)fmin(fmax(cores, 1), here)};
    if (cores < 2) r.n_simulated_ranks = (int32_t)fmin(fmax(here / cores, 1), MAX_SIMULATED_RANKS);
    return r;
}

/* Each rank's tables are as an owner's part of them; all together take no more than a quarter of the
 * memory. */
static rk_row_reduction choose_row_reduction(const rk_plan *plan, int32_t n_simulated_ranks) {
    double bytes = 0, memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 4;
    for (int32_t t = 0; t < plan->tables.n_tables; t++) bytes += rk_plan_table_bytes(plan, t);
    double times = fmax(rk_roles_owner_count(&plan->request.roles), ceil(bytes * n_simulated_ranks / memory));
    return (rk_row_reduction){plan->request.replicate_below > 1 ? plan->request.replicate_below : 1,
                              (int64_t)times};
}

/* The plan of one simulated rank by itself, in one place: its share of each batch, by its share of this
 * machine's limits. */
static rk_status estimate_simulated_rank_cost(const rk_plan *plan, const rk_trial_run *r, double *parts) {
    rk_plan one = *plan;
    rk_plan_rank rank = {.seconds = 0};
    double share = 1.0 / r->n_simulated_ranks;
    rk_machine machine = {.ranks_beside = 1,
                          .capacity = {INFINITY, plan->here.memory_speed * share, INFINITY},
                          .flops = plan->here.flops * share};
    rk_status status;
    one.loads = NULL;
    one.placements = NULL;
    one.ranks = &rank;
    one.machines = &machine;
    one.n_ranks = 1;
    one.request.roles = (rk_roles){1, 0};
    one.request.batch_size =
        (plan->request.batch_size + plan->request.roles.n_trainers - 1) / plan->request.roles.n_trainers;
    one.calibration = rk_plan_neutral_calibration();
    RK_GOTO(RK_ALLOC_ALL(RK_ARRAY((size_t)plan->tables.n_tables, one.loads),
                         RK_ARRAY((size_t)plan->tables.n_tables, one.placements)));
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        one.loads[t] = plan->loads[t];
        one.loads[t].batch_rows = plan->loads[t].local_rows;
        RK_GOTO(rk_table_placement_init(&one.placements[t], 1, 1));
        one.placements[t].replicated = plan->tables.tables[t].n_rows < plan->request.replicate_below;
    }
    RK_GOTO(rk_plan_estimate_cost(&one));
    memcpy(parts, rank.parts, sizeof rank.parts);
done:
    for (int32_t t = 0; one.placements && t < plan->tables.n_tables; t++)
        rk_table_placement_release(&one.placements[t]);
    RK_FREE_ALL(one.placements, one.loads);
    return status;
}

rk_plan_calibration rk_plan_neutral_calibration(void) {
    rk_plan_calibration calibration = {.n_steps = 0};
    for (int i = 0; i < RK_PLAN_PART_COUNT; i++) calibration.factors[i] = 1;
    return calibration;
}

rk_status rk_plan_calibrate(rk_plan *plan) {
    static const rk_plan_part own[] = {RK_PLAN_PART_DEDUP, RK_PLAN_PART_LOOKUP, RK_PLAN_PART_DENSE,
                                       RK_PLAN_PART_UPDATE};
    double limits[RK_PLAN_PART_COUNT];
    rk_trial_run r = choose_simulated_ranks(plan);
    int threads = rk_parallel_threads();
    if (plan->config->train.threads) r.n_threads = (int)plan->config->train.threads;
    r.reduction = choose_row_reduction(plan, r.n_simulated_ranks);
    RK_TRY(rk_parallel_set_threads(r.n_threads));
    rk_status status = rk_plan_trial_run(plan, &r);
    RK_TRY(rk_parallel_set_threads(threads));
    RK_TRY(status);
    RK_TRY(estimate_simulated_rank_cost(plan, &r, limits));
    plan->calibration.n_steps = r.n_steps;
    plan->calibration.wait = r.parts[RK_PLAN_PART_READ];
    plan->calibration.rest = r.parts[RK_PLAN_PART_REST];
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (limits[own[i]] > 0)
            plan->calibration.factors[own[i]] = r.parts[own[i]] / limits[own[i]];
        else
            plan->calibration.rest += r.parts[own[i]];
    }
    return RK_OK;
}
