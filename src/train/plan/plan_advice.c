/* Changes that would make a run fit. Each one is planned, not guessed. */
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "optim/optimizer_slots.h"
#include "train/plan/plan_internal.h"

typedef struct way {
    const char *what;
    bool half_rows, rowwise, no_cache, no_constraints;
} way;

static const way ways[] = {
    {"rows in bf16 (embedding.dtype)", true, false, false, false},
    {"a rowwise optimizer (embedding.optimizer: rowwise_adagrad)", false, true, false, false},
    {"both", true, true, false, false},
    {"no rows kept between epochs (data.cache_bytes: 0)", false, false, true, false},
    {"all three", true, true, true, false},
    {"no tables placed by hand (cluster.tables)", false, false, false, true},
};

static double sum_bytes_of_tables(const rk_plan *plan) {
    double bytes = 0;
    for (int32_t t = 0; t < plan->tables.n_tables; t++) bytes += rk_plan_table_bytes(plan, t);
    return bytes;
}

static bool has_slot_per_value(const rk_optimizer *optimizer) {
    rk_slot slots[RK_MAX_SLOTS];
    for (int n = rk_optimizer_list_slots(optimizer, slots), i = 0; i < n; i++)
        if (!slots[i].per_row) return true;
    return false;
}

/* Changes the plan's tables; false: they are so already. */
static bool apply_memory_saving(rk_plan *plan, const way *w, const rk_optimizer *rowwise) {
    bool halved = false, slots = false;
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        if (w->half_rows && plan->tables.tables[t].dtype == RK_F32) {
            plan->tables.tables[t].dtype = RK_BF16;
            halved = true;
        }
        if (w->rowwise && has_slot_per_value(&plan->tables.optimizers[t])) {
            plan->tables.optimizers[t] = *rowwise;
            slots = true;
        }
    }
    if (w->no_cache) plan->data_bytes = rk_plan_data_bytes(plan, 0);
    if (w->no_constraints) plan->request.n_constraints = 0;
    if (w->no_constraints && plan->config->cluster.n_tables == 0) return false;
    return halved == w->half_rows && slots == w->rowwise &&
           (!w->no_cache ||
            (rk_config_row_cache_bytes(plan->config) > 0 && plan->config->cluster.reader_ranks == 0));
}

static void write_outcome(const rk_plan *plan, const char *what, rk_buffer *out) {
    const rk_plan_rank *rank = &plan->ranks[plan->fullest];
    rk_buffer_printf(out, "%swith %s %s: tables of %s, %s of %s on the fullest rank",
                     out->n_bytes ? "\n" : "", what, rk_plan_fits(plan) ? "it fits" : "it still does not fit",
                     rk_format_size(sum_bytes_of_tables(plan)).text, rk_format_size(rank->all_bytes).text,
                     rk_format_size(plan->machines[plan->fullest].capacity.memory_bytes).text);
}

typedef struct kept {
    rk_table_config *tables;
    rk_optimizer *optimizers;
    double data_bytes;
} kept;

static void restore_plan(rk_plan *plan, const kept *k) {
    memcpy(plan->tables.tables, k->tables, (size_t)plan->tables.n_tables * sizeof *k->tables);
    memcpy(plan->tables.optimizers, k->optimizers, (size_t)plan->tables.n_tables * sizeof *k->optimizers);
    plan->data_bytes = k->data_bytes;
    plan->request.n_constraints = (int32_t)plan->config->cluster.n_tables;
}

/* A way that the run file's own placements do not allow is none; all three are one where none of them, nor
 * two, will do. */
static rk_status try_memory_savings(rk_plan *plan, const kept *k, rk_buffer *out) {
    rk_optimizer rowwise;
    RK_TRY(rk_optimizer_init(&rowwise, RK_OPTIMIZER_ROWWISE_ADAGRAD));
    bool fits = false;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (fits && ways[i].half_rows && ways[i].no_cache) continue;
        rk_status status =
            apply_memory_saving(plan, &ways[i], &rowwise) ? rk_plan_place_tables(plan) : RK_CONFIG;
        if (status == RK_OK && ((!ways[i].no_cache && !ways[i].no_constraints) || rk_plan_fits(plan)))
            write_outcome(plan, ways[i].what, out);
        fits |= status == RK_OK && rk_plan_fits(plan);
        restore_plan(plan, k);
        if (status != RK_CONFIG) RK_TRY(status);
    }
    return RK_OK;
}

static rk_status place_tables_on_hosts(rk_plan *plan, rk_host_group *group, int64_t count, bool *fits) {
    group->count = count;
    RK_TRY(rk_plan_set_ranks(plan, 0));
    RK_TRY(rk_plan_place_tables(plan));
    *fits = rk_plan_fits(plan);
    return RK_OK;
}

/* The group whose hosts hold most of the rows. */
static rk_host_group *largest_owner_group(const rk_plan *plan) {
    rk_host_group *best = NULL, *groups = plan->cluster.hosts.groups;
    for (int64_t i = 0; i < plan->cluster.hosts.n_groups; i++)
        if (groups[i].role != RK_ROLE_TRAIN &&
            (!best || groups[i].memory_gb * (double)groups[i].count > best->memory_gb * (double)best->count))
            best = &groups[i];
    return best;
}

/* The fewest hosts that hold it, up to 16 times as many; where tables are placed on ranks by hand, more hosts
 * may not help. */
static rk_status try_more_hosts(rk_plan *plan, rk_buffer *out) {
    rk_host_group *group = largest_owner_group(plan);
    int64_t few = group->count, many = few, most = 16 * group->count;
    bool fits = false;
    while (!fits && many < most) {
        few = many;
        many = 2 * many < most ? 2 * many : most;
        RK_TRY(place_tables_on_hosts(plan, group, many, &fits));
    }
    if (!fits) return RK_OK;
    while (many - few > 1) {
        int64_t middle = few + (many - few) / 2;
        RK_TRY(place_tables_on_hosts(plan, group, middle, &fits));
        *(fits ? &many : &few) = middle;
    }
    RK_TRY(place_tables_on_hosts(plan, group, many, &fits));
    char what[128];
    snprintf(what, sizeof what, "%lld hosts of '%.64s'", (long long)many, group->name);
    write_outcome(plan, what, out);
    return RK_OK;
}

static rk_status write_advice(rk_plan *plan, const kept *k, rk_buffer *out) {
    rk_host_group *group = largest_owner_group(plan);
    int64_t count = group->count;
    int32_t n_ranks = plan->n_ranks + plan->n_readers;
    rk_status status =
        plan->cluster.yaml.path ? try_more_hosts(plan, out) : RK_OK; /* there is only one of this machine */
    group->count = count;
    RK_TRY(status);
    RK_TRY(rk_plan_set_ranks(plan, n_ranks));
    RK_TRY(try_memory_savings(plan, k, out));
    return rk_plan_place_tables(plan);
}

rk_status rk_plan_advise(rk_plan *plan) {
    RK_AUTOFREE rk_table_config *tables = NULL;
    RK_AUTOFREE rk_optimizer *optimizers = NULL;
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    size_t n = (size_t)plan->tables.n_tables;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, tables), RK_ARRAY(n, optimizers)));
    memcpy(tables, plan->tables.tables, n * sizeof *tables);
    memcpy(optimizers, plan->tables.optimizers, n * sizeof *optimizers);
    RK_TRY(write_advice(plan, &(kept){tables, optimizers, plan->data_bytes}, &text));
    if (text.n_bytes == 0) rk_buffer_append_text(&text, "nothing that was tried makes it fit");
    return rk_buffer_detach(&text, &plan->advice);
}
