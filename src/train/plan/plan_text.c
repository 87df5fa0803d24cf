/* A plan as text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "embedding/planner/table_traffic.h"
#include "train/plan/plan_internal.h"

rk_size_text rk_format_size(double bytes) {
    char count[24];
    rk_size_text out;
    rk_format_count(bytes, count, sizeof count);
    snprintf(out.text, sizeof out.text, "%s%sB", count, strchr(count, ' ') ? "" : " ");
    return out;
}

/* Ranks up to so many are shown one by one, of more the ends alone. */
enum { MOST_RANKS_SHOWN = 16 };

static void write_cluster_lines(const rk_plan *plan, rk_buffer *out) {
    const rk_roles *roles = &plan->request.roles;
    static const char *const duties[] = {"", ", train", ", hold rows"};
    for (int64_t i = 0; i < plan->cluster.hosts.n_groups; i++) {
        const rk_host_group *g = &plan->cluster.hosts.groups[i];
        rk_buffer_printf(out, "  %lld x %s: %lld ranks, %s, %.4g GB/s, %.4g Gflop/s", (long long)g->count,
                         g->name, (long long)g->ranks, rk_format_size(g->memory_gb * 1e9).text,
                         g->memory_bandwidth_gbs, g->gflops);
        if (!isnan(g->network_gbps))
            rk_buffer_printf(out, ", %.4g Gbit/s, %.4g us", g->network_gbps, g->latency_us);
        rk_buffer_printf(out, "%s\n", duties[g->role]);
    }
    if (plan->cluster.measured)
        rk_buffer_append_text(
            out, "  what was not given of memory and processor is as measured on this machine\n");
    if (roles->n_owners)
        rk_buffer_printf(out, "  ranks 0 to %d train, %d to %d hold rows\n", roles->n_trainers - 1,
                         roles->n_trainers, plan->n_ranks - 1);
    else
        rk_buffer_printf(out, "  %d rank%s, which train and hold rows\n", plan->n_ranks,
                         plan->n_ranks > 1 ? "s" : "");
    if (plan->n_readers) rk_buffer_printf(out, "  %d more, which only read\n", plan->n_readers);
}

static void write_load_line(const rk_plan *plan, rk_buffer *out) {
    if (plan->sampled_rows)
        rk_buffer_printf(out, "loads: counted over %lld rows of the training data\n",
                         (long long)plan->sampled_rows);
    else
        rk_buffer_printf(out,
                         "loads: assumed, not measured: ids by Zipf's law with exponent %g; one id a sample "
                         "of a feature, or its max_length (--sample counts them)\n",
                         RK_ASSUMED_EXPONENT);
}

static int table_name_width(const rk_plan *plan) {
    int width = 5;
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        int length = (int)strlen(plan->tables.tables[t].name);
        if (length > width) width = length;
    }
    return width;
}

static int compare_ranks(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* "0-7, 9": each rank once. */
static rk_status write_owner_list(const rk_table_placement *p, rk_buffer *out) {
    int32_t n = p->n_slices * p->n_parts;
    RK_AUTOFREE int32_t *sorted = NULL;
    RK_TRY(rk_alloc((size_t)n, sizeof *sorted, &sorted));
    memcpy(sorted, p->owners, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_ranks);
    for (int32_t i = 0; i < n;) {
        int32_t last = i;
        while (last + 1 < n && sorted[last + 1] - sorted[last] <= 1) last++;
        rk_buffer_printf(out, "%s%d", i ? ", " : "", sorted[i]);
        if (sorted[last] > sorted[i]) rk_buffer_printf(out, "-%d", sorted[last]);
        i = last + 1;
    }
    return RK_OK;
}

static rk_status write_table_line(const rk_plan *plan, int32_t t, int width, rk_buffer *out) {
    const rk_table_config *table = &plan->tables.tables[t];
    const rk_table_placement *p = &plan->placements[t];
    const rk_table_statistics *load = &plan->loads[t];
    rk_buffer_printf(out, "  %-*s %16lld %5d %10s %8.4g %12.0f %12.0f  %s", width, table->name,
                     (long long)rk_planner_request_table_rows(&plan->request, t), table->dim,
                     rk_format_size(rk_plan_table_bytes(plan, t)).text, load->ids, load->batch_rows,
                     load->local_rows, rk_sharding_names[rk_table_placement_sharding(p)]);
    if (p->replicated) {
        rk_buffer_append_text(out, ", on every trainer\n");
        return RK_OK;
    }
    if (p->n_slices > 1) rk_buffer_printf(out, ", %d slices", p->n_slices);
    if (p->n_parts > 1) rk_buffer_printf(out, ", %d parts", p->n_parts);
    rk_buffer_append_text(out, p->n_slices * p->n_parts > 1 ? ", ranks " : ", rank ");
    RK_TRY(write_owner_list(p, out));
    rk_buffer_append_text(out, p->owner_pooling ? ", owner pooling\n" : "\n");
    return RK_OK;
}

/* "30.1 G ids", or all keys. */
static rk_size_text format_nominal_rows(const rk_plan *plan, int32_t t) {
    char count[24];
    rk_size_text out;
    int64_t nominal = rk_plan_nominal_rows(plan, t);
    rk_format_count((double)nominal, count, sizeof count);
    snprintf(out.text, sizeof out.text, "%s", nominal ? count : "2^64 keys");
    return out;
}

/* What there can be beside what there is at most: values of all ids, and of as many as have rows. */
static void write_dynamic_lines(const rk_plan *plan, int width, rk_buffer *out) {
    double nominal = 0, rows = 0, bytes = 0;
    bool counted = true;
    char counts[2][24];
    rk_buffer_printf(out,
                     "\ndynamic tables: ids or keys that there can be, and rows that there are at most\n"
                     "  %-*s %16s %16s %7s %10s %9s\n",
                     width, "name", "nominal", "materialised", "dim", "bytes", "a row");
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        const rk_table_config *table = &plan->tables.tables[t];
        int64_t ids = rk_plan_nominal_rows(plan, t);
        if (!rk_planner_request_dynamic_config(&plan->request, t)) continue;
        double all = rk_plan_table_bytes(plan, t);
        rk_buffer_printf(out, "  %-*s %16s %16lld %7d %10s %7.0f B\n", width, table->name,
                         format_nominal_rows(plan, t).text,
                         (long long)rk_planner_request_table_rows(&plan->request, t), table->dim,
                         rk_format_size(all).text,
                         all / (double)rk_planner_request_table_rows(&plan->request, t));
        counted &= ids > 0;
        nominal += (double)ids * table->dim;
        rows += (double)rk_planner_request_table_rows(&plan->request, t) * table->dim;
        bytes += all;
    }
    rk_format_count(nominal, counts[0], sizeof counts[0]);
    rk_format_count(rows, counts[1], sizeof counts[1]);
    rk_buffer_printf(out, "  values: %s nominal, %s materialised in %s with slots and keys\n",
                     counted ? counts[0] : "those of all keys", counts[1], rk_format_size(bytes).text);
}

/* Memory and disk apart. */
static void write_disk_lines(const rk_plan *plan, int width, rk_buffer *out) {
    double memory = 0, disk = 0;
    rk_buffer_printf(out, "\nrows on a disk: its files take up to twice as much\n  %-*s %10s %10s\n", width,
                     "name", "memory", "disk");
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        double there = rk_planner_request_disk_bytes(&plan->request, t, plan->tables.tables[t].n_rows);
        if (!there) continue;
        rk_buffer_printf(out, "  %-*s %10s %10s\n", width, plan->tables.tables[t].name,
                         rk_format_size(rk_plan_table_bytes(plan, t)).text, rk_format_size(there).text);
        memory += rk_plan_table_bytes(plan, t);
        disk += there;
    }
    rk_buffer_printf(out, "  %-*s %10s %10s\n", width, "total", rk_format_size(memory).text,
                     rk_format_size(disk).text);
}

static bool has_tables_on_disk(const rk_plan *plan) {
    bool has = false;
    for (int32_t t = 0; t < plan->tables.n_tables; t++)
        has |= rk_planner_request_is_on_disk(&plan->request, t);
    return has;
}

static bool has_dynamic_tables(const rk_plan *plan) {
    bool has = false;
    for (int32_t t = 0; t < plan->tables.n_tables; t++)
        has |= rk_planner_request_dynamic_config(&plan->request, t) != NULL;
    return has;
}

static rk_status write_table_lines(const rk_plan *plan, rk_buffer *out) {
    int width = table_name_width(plan);
    double bytes = 0;
    rk_buffer_printf(out, "\ntables\n  %-*s %16s %5s %10s %8s %12s %12s  %s\n", width, "name", "rows", "dim",
                     "bytes", "ids", "rows/batch", "rows/trainer", "sharding");
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        RK_TRY(write_table_line(plan, t, width, out));
        bytes += rk_plan_table_bytes(plan, t);
    }
    rk_buffer_printf(out, "  %-*s %16s %5s %10s\n", width, "total", "", "", rk_format_size(bytes).text);
    if (has_dynamic_tables(plan)) write_dynamic_lines(plan, width, out);
    if (has_tables_on_disk(plan)) write_disk_lines(plan, width, out);
    return RK_OK;
}

static void write_rank_line(const rk_plan *plan, int32_t r, const char *note, rk_buffer *out) {
    const rk_plan_rank *rank = &plan->ranks[r];
    rk_buffer_printf(out, "  %4d", r);
    for (int i = 0; i < RK_PLAN_MEMORY_COUNT; i++)
        rk_buffer_printf(out, " %10s", rk_format_size(rank->bytes[i]).text);
    rk_buffer_printf(out, " %10s %7.1f%% %12.3f%s\n", rk_format_size(rank->all_bytes).text,
                     100 * rank->all_bytes / plan->machines[r].capacity.memory_bytes, 1e3 * rank->seconds,
                     note);
}

static int32_t find_busiest_rank(const rk_plan *plan) {
    int32_t most = 0;
    for (int32_t r = 1; r < plan->n_ranks; r++)
        if (plan->ranks[r].seconds > plan->ranks[most].seconds) most = r;
    return most;
}

static void write_rank_lines(const rk_plan *plan, rk_buffer *out) {
    rk_buffer_printf(out, "\nranks\n  %4s", "rank");
    for (int i = 0; i < RK_PLAN_MEMORY_COUNT; i++) rk_buffer_printf(out, " %10s", rk_plan_memory_names[i]);
    rk_buffer_printf(out, " %10s %8s %12s\n", "in all", "of its", "busy ms");
    if (plan->n_ranks <= MOST_RANKS_SHOWN) {
        for (int32_t r = 0; r < plan->n_ranks; r++) write_rank_line(plan, r, "", out);
    } else {
        write_rank_line(plan, 0, "  the first", out);
        write_rank_line(plan, plan->n_ranks - 1, "  the last", out);
        write_rank_line(plan, plan->fullest, "  the fullest", out);
        write_rank_line(plan, find_busiest_rank(plan), "  the busiest", out);
    }
    rk_buffer_printf(
        out, "  the busiest rank has %.3f of the mean of its kind; data: what reading takes at most\n",
        plan->step.balance);
}

static void write_step_lines(const rk_plan *plan, rk_buffer *out) {
    const rk_plan_step *step = &plan->step;
    rk_buffer_printf(out,
                     "\na step of %lld samples, %.0f a trainer, rows in %s and dense gradients in %s on the "
                     "wire\n",
                     (long long)plan->request.batch_size,
                     ceil((double)plan->request.batch_size / plan->request.roles.n_trainers),
                     rk_dtype_name(plan->request.wire),
                     rk_dense_wire_name(rk_config_dense_wire(plan->config)));
    for (int i = 0; i < RK_PLAN_PART_COUNT; i++)
        rk_buffer_printf(out, "  %-18s %12.3f ms\n", rk_plan_part_names[i], 1e3 * step->parts[i]);
    rk_buffer_printf(out, "  %-18s %12.3f ms, %s\n", "step", 1e3 * step->seconds,
                     plan->asynchronous ? "all exchanges beside the rest"
                     : plan->overlaps   ? "exchanges of rows beside the rest"
                                        : "one part after another");
    if (step->reduce_beside > 0 && !plan->asynchronous)
        rk_buffer_printf(out, "  %.3f ms of the all-reduce go on beside the dense part\n",
                         1e3 * step->reduce_beside);
    if (plan->calibration.n_steps)
        rk_buffer_printf(out, "  by %lld steps of the run on this machine, without messages\n",
                         (long long)plan->calibration.n_steps);
    else
        rk_buffer_append_text(
            out,
            "  by the limits of the machines: a run takes more (--measure times steps of it on this one)\n");
    rk_buffer_printf(out, "  %.0f samples/s\n", step->samples_per_second);
    if (!isnan(step->price_per_hour) && step->samples_per_second > 0)
        rk_buffer_printf(out, "  %.2f an hour, %.2f a billion samples\n", step->price_per_hour,
                         step->price_per_hour / 3600 / step->samples_per_second * 1e9);
}

/* Where a table's largest piece is, and how large. */
static double find_largest_shard(const rk_plan *plan, int32_t t, int32_t *rank) {
    const rk_table_placement *p = &plan->placements[t];
    double most = 0;
    *rank = 0;
    if (p->replicated) return rk_plan_table_bytes(plan, t);
    for (int32_t r = 0; r < plan->n_ranks; r++) {
        double here = 0;
        for (int32_t i = 0; i < p->n_slices * p->n_parts; i++)
            if (p->owners[i] == r) here += rk_plan_part_bytes(plan, t, i % p->n_parts);
        if (here > most) *rank = r;
        most = fmax(most, here);
    }
    return most;
}

static void write_out_of_memory_lines(const rk_plan *plan, rk_buffer *out) {
    int width = table_name_width(plan);
    const rk_plan_rank *rank = &plan->ranks[plan->fullest];
    rk_buffer_printf(out, "\nit does not fit: rank %d would hold %s of %s\n", plan->fullest,
                     rk_format_size(rank->all_bytes).text,
                     rk_format_size(plan->machines[plan->fullest].capacity.memory_bytes).text);
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        int32_t where;
        double piece = find_largest_shard(plan, t, &where);
        rk_buffer_printf(out, "  %-*s %10s, of which %10s on rank %d", width, plan->tables.tables[t].name,
                         rk_format_size(rk_plan_table_bytes(plan, t)).text, rk_format_size(piece).text,
                         where);
        rk_buffer_append_text(
            out, piece > plan->machines[where].capacity.memory_bytes ? ": more than that rank has\n" : "\n");
    }
    rk_buffer_printf(out, "%s\n", plan->advice);
}

rk_status rk_plan_to_text(const rk_plan *plan, char **out) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    rk_buffer_append_text(&text, "cluster\n");
    write_cluster_lines(plan, &text);
    write_load_line(plan, &text);
    RK_TRY(write_table_lines(plan, &text));
    write_rank_lines(plan, &text);
    if (rk_plan_fits(plan))
        write_step_lines(plan, &text);
    else
        write_out_of_memory_lines(plan, &text);
    return rk_buffer_detach(&text, out);
}
