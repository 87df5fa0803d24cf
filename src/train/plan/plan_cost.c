/* How much memory each rank takes and how long a step lasts: the equations of docs/planning.md. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "embedding/planner/table_traffic.h"
#include "model/step/reducer.h"
#include "nn/graph/graph.h"
#include "train/plan/plan_internal.h"

/* Bytes of a row of the data. Dim-1 tables, which come last, have the same ids as the others. */
static double data_row_bytes(const rk_plan *plan) {
    const rk_collection_config *e = &plan->tables;
    int32_t first_linear = e->n_tables - (e->n_features - e->n_vectors);
    double ids = 0, linear = 0;
    for (int32_t t = 0; t < e->n_tables; t++) *(t < first_linear ? &ids : &linear) += plan->loads[t].ids;
    return plan->dense.sample_bytes + sizeof(int64_t) * (ids > linear ? ids : linear);
}

double rk_plan_data_bytes(const rk_plan *plan, int64_t cache_bytes) {
    if (plan->config->cluster.reader_ranks) return 0;
    double row = data_row_bytes(plan), window = row * (double)plan->config->data.shuffle_window;
    double all = plan->train_rows < 0 ? INFINITY : row * (double)plan->train_rows;
    return all <= (double)cache_bytes ? all : (double)cache_bytes + (window < all ? window : all);
}

#define RK_PLAN_TEXT(name, text) text,
const char *const rk_plan_part_names[RK_PLAN_PART_COUNT] = {RK_PLAN_PART_LIST(RK_PLAN_TEXT)};
const char *const rk_plan_memory_names[RK_PLAN_MEMORY_COUNT] = {RK_PLAN_MEMORY_LIST(RK_PLAN_TEXT)};
#undef RK_PLAN_TEXT

/* Bytes of a step. Requests to owners are those of all trainers together, including the owner's own. */
typedef struct rank_work {
    double ids, rows, gradients;        /* wire, as an owner */
    double lookup, update, read, dedup; /* memory */
    double copies;                      /* gradients of replicated rows that one trainer sends to one other */
} rank_work;

/* A rank's ways to others. */
typedef struct rank_way {
    double n_partners, far_share; /* of its partners, those on other hosts */
} rank_way;

static double batch_share_of_rank(const rk_plan *plan) {
    return ceil((double)plan->request.batch_size / plan->request.roles.n_trainers);
}

/* What a trainer does for a table by itself: bags are combined of the rows that came, and bags' gradients
 * summed to rows'. */
static void add_trainer_work(const rk_plan *plan, int32_t t, rank_work *w) {
    const rk_table_config *table = &plan->tables.tables[t];
    const rk_table_statistics *load = &plan->loads[t];
    double samples = batch_share_of_rank(plan), values = load->ids * samples * table->dim;
    bool replicated = plan->placements[t].replicated;
    w->read += load->ids * (double)plan->request.batch_size * sizeof(int64_t);
    w->dedup += load->ids * samples * sizeof(int64_t);
    if (plan->placements[t].owner_pooling) return;
    w->lookup += values * (double)rk_dtype_bytes(replicated ? table->dtype : plan->request.wire);
    if (!table->frozen) w->update += values * sizeof(float) + load->local_rows * table->dim * sizeof(float);
}

static void add_replicated_work(const rk_plan *plan, int32_t t, rank_work *w) {
    const rk_table_config *table = &plan->tables.tables[t];
    const rk_table_statistics *load = &plan->loads[t];
    double row_bytes = table->dim * (double)rk_dtype_bytes(plan->request.wire);
    if (table->frozen) return;
    if (plan->request.roles.n_trainers > 1) w->copies += load->local_rows * (row_bytes + sizeof(uint32_t));
    w->update += load->local_rows * plan->request.roles.n_trainers * row_bytes +
                 2 * load->batch_rows * rk_stored_row_bytes(table, &plan->tables.optimizers[t], table->dim);
}

/* What l2_full moves, with which every row of a table takes a step. */
static double full_l2_update_bytes(const rk_plan *plan, int32_t t) {
    return plan->tables.l2_full[t] != 0 && !plan->tables.tables[t].frozen ? 2 * rk_plan_table_bytes(plan, t)
                                                                          : 0;
}

static void add_owners_work(rk_plan *plan, int32_t t, rank_work *work) {
    const rk_table_placement *p = &plan->placements[t];
    rk_table_traffic traffic = rk_table_traffic_estimate(&plan->request, t, &plan->loads[t], p);
    double full = full_l2_update_bytes(plan, t) / (double)rk_planner_request_table_rows(&plan->request, t) /
                  p->n_slices;
    for (int32_t part = 0; part < p->n_parts; part++) {
        double share =
            p->n_parts > 1 ? rk_table_part_load_share(&plan->request, &plan->loads[t], part, p->n_parts) : 1;
        double rows = (double)rk_planner_request_part_rows(&plan->request, t, part, p->n_parts);
        for (int32_t slice = 0; slice < p->n_slices; slice++) {
            int32_t rank = p->owners[(size_t)slice * (size_t)p->n_parts + (size_t)part];
            rank_work *w = &work[rank];
            w->ids += traffic.id_bytes * share / p->n_slices;
            w->rows += traffic.row_bytes * share / p->n_slices;
            w->gradients += traffic.gradient_bytes * share / p->n_slices;
            w->lookup += traffic.lookup_bytes * share / p->n_slices;
            w->update += traffic.update_bytes * share / p->n_slices + full * rows;
            plan->ranks[rank].bytes[RK_PLAN_MEMORY_OWNED] += rk_plan_part_bytes(plan, t, part);
        }
    }
}

static void add_table_work(rk_plan *plan, rank_work *work) {
    rank_work trainer = {.read = (double)plan->request.batch_size * plan->dense.sample_bytes};
    double replicated = 0;
    for (int32_t t = 0; t < plan->tables.n_tables; t++) {
        add_trainer_work(plan, t, &trainer);
        if (plan->placements[t].replicated) {
            add_replicated_work(plan, t, &trainer);
            trainer.update += full_l2_update_bytes(plan, t);
            replicated += rk_plan_table_bytes(plan, t);
        } else {
            add_owners_work(plan, t, work);
        }
    }
    double activations = batch_share_of_rank(plan) * plan->dense.width * sizeof(float);
    trainer.lookup += activations;
    trainer.update += activations + plan->dense.parameters * sizeof(float) *
                                        4; /* bags' gradients written; weights and slots read and written */
    for (int32_t r = 0; r < plan->request.roles.n_trainers; r++) {
        work[r].lookup += trainer.lookup;
        work[r].update += trainer.update;
        work[r].read = 2 * trainer.read;
        work[r].dedup = 2 * trainer.dedup;
        work[r].copies = trainer.copies;
        plan->ranks[r].bytes[RK_PLAN_MEMORY_REPLICATED] = replicated;
    }
}

static bool do_ranks_exchange_messages(const rk_plan *plan, int32_t a, int32_t b, bool among_trainers) {
    if (among_trainers) return rk_plan_trains(plan, a) && rk_plan_trains(plan, b);
    return (rk_plan_trains(plan, a) && rk_plan_owns(plan, b)) ||
           (rk_plan_owns(plan, a) && rk_plan_trains(plan, b));
}

static double count_message_partners(const rk_plan *plan, int32_t rank, bool among_trainers) {
    const rk_roles *roles = &plan->request.roles;
    if (roles->n_owners == 0) return plan->n_ranks - 1;
    if (among_trainers) return roles->n_trainers - 1;
    return rk_plan_trains(plan, rank) ? roles->n_owners : roles->n_trainers;
}

/* Ranks of a host are beside each other. */
static rank_way network_path_of_rank(const rk_plan *plan, int32_t rank, bool among_trainers) {
    int32_t near = 0;
    for (int32_t r = rank - 1; r >= 0 && plan->machines[r].host == plan->machines[rank].host; r--)
        near += do_ranks_exchange_messages(plan, rank, r, among_trainers);
    for (int32_t r = rank + 1; r < plan->n_ranks && plan->machines[r].host == plan->machines[rank].host; r++)
        near += do_ranks_exchange_messages(plan, rank, r, among_trainers);
    double n = count_message_partners(plan, rank, among_trainers);
    return (rank_way){n, n > 0 ? 1 - near / n : 0};
}

/* Bytes that a rank reads and writes in memory for each that goes to a rank of the same host: it is copied
 * into memory that both share and out of it; half of a sum's are then added to values that stand there, half
 * are copied to where they belong, which over a network goes on beside it. */
static const double moved_by_copy = 4, moved_by_sum = 4 + (3 + 2) / 2.0;

static double estimate_transfer_seconds(const rk_machine *machine, const rank_way *way, double bytes,
                                        double moved, double n_messages) {
    double far = bytes * way->far_share;
    return (far > 0 ? far / machine->capacity.network_speed : 0) +
           moved * (bytes - far) / machine->capacity.memory_speed + n_messages * machine->latency_s;
}

/* Samples of a thread's last block: of a rank's 2,048 to 4,095 samples; of fewer it is half as many, of more
 * twice (nn/graph/graph_memory_plan.c). */
enum { LAST_BLOCK = 256 };

static bool is_powersgd(const rk_plan *plan) {
    return rk_config_dense_wire(plan->config).n_vectors > 0;
}

/* Of the all-reduce, what the backward pass hides, of a thread's last block or of all samples: the sums of
 * all but the largest layer, which is taken to be whole last. */
static double estimate_hidden_all_reduce(const rk_plan *plan, const rk_machine *machine, double seconds) {
    const rk_host_group *group = &plan->cluster.hosts.groups[machine->group];
    double threads = group->cores ? fmax((double)group->cores / machine->ranks_beside, 1) : 1;
    double backward =
        plan->calibration.factors[RK_PLAN_PART_DENSE] * plan->dense.flops * 2 / 3 / machine->flops;
    double samples = batch_share_of_rank(plan);
    if (!rk_graph_runs_node_by_node(plan->dense.parameters, samples))
        samples = fmin(LAST_BLOCK * threads, samples);
    double window = backward * samples,
           last = (double)plan->dense.layer_in * (double)plan->dense.layer_out / plan->dense.parameters;
    return plan->dense.parameters > RK_BUCKET_VALUES && !is_powersgd(plan)
               ? fmin(seconds * (1 - last), window)
               : 0;
}

static void estimate_step_parts_of_rank(rk_plan *plan, int32_t r, const rank_work *work,
                                        const rank_work *total) {
    const rk_machine *machine = &plan->machines[r];
    const rank_work *w = &work[r];
    double *parts = plan->ranks[r].parts, n_trainers = plan->request.roles.n_trainers,
           trains = rk_plan_trains(plan, r), memory = machine->capacity.memory_speed;
    double of_others = (n_trainers - trains) / n_trainers; /* of the requests to it as an owner */
    rank_way way = network_path_of_rank(plan, r, false), peers = network_path_of_rank(plan, r, true);
    double messages = total->ids > 0 ? way.n_partners : 0;
    const double *factors = plan->calibration.factors;
    parts[RK_PLAN_PART_DEDUP] = factors[RK_PLAN_PART_DEDUP] * w->dedup / memory;
    parts[RK_PLAN_PART_LOOKUP] = factors[RK_PLAN_PART_LOOKUP] * w->lookup / memory;
    parts[RK_PLAN_PART_UPDATE] = factors[RK_PLAN_PART_UPDATE] * w->update / memory;
    parts[RK_PLAN_PART_IDS] = estimate_transfer_seconds(
        machine, &way, fmax(w->ids * of_others, trains * (total->ids - w->ids) / n_trainers), moved_by_copy,
        messages);
    parts[RK_PLAN_PART_ROWS] = estimate_transfer_seconds(
        machine, &way, fmax(w->rows * of_others, trains * (total->rows - w->rows) / n_trainers),
        moved_by_copy, messages);
    messages = total->gradients > 0 ? way.n_partners : 0;
    parts[RK_PLAN_PART_GRADIENTS] = estimate_transfer_seconds(
        machine, &way,
        fmax(w->gradients * of_others, trains * (total->gradients - w->gradients) / n_trainers),
        moved_by_copy, messages);
    if (!trains) return;
    if (w->copies > 0)
        parts[RK_PLAN_PART_GRADIENTS] += estimate_transfer_seconds(
            machine, &peers, w->copies * peers.n_partners, moved_by_copy, peers.n_partners);
    parts[RK_PLAN_PART_READ] = plan->calibration.n_steps ? plan->calibration.wait : w->read / memory;
    parts[RK_PLAN_PART_REST] = plan->calibration.rest;
    parts[RK_PLAN_PART_DENSE] =
        factors[RK_PLAN_PART_DENSE] * plan->dense.flops * batch_share_of_rank(plan) / machine->flops;
    int n_sums = is_powersgd(plan) ? 2 : 1;
    parts[RK_PLAN_PART_ALL_REDUCE] =
        estimate_transfer_seconds(machine, &peers, 2 * peers.n_partners / n_trainers * plan->dense.sent_bytes,
                                  moved_by_sum, n_sums * 2 * peers.n_partners);
    plan->ranks[r].reduce_beside = estimate_hidden_all_reduce(plan, machine, parts[RK_PLAN_PART_ALL_REDUCE]);
}

/* Activations and their gradients, and what travels, twice where two batches are on their way. */
static double estimate_buffer_bytes(const rk_plan *plan, int32_t r, const rank_work *work,
                                    const rank_work *total) {
    double bytes = work[r].ids + work[r].rows + work[r].gradients,
           n_trainers = plan->request.roles.n_trainers;
    if (rk_plan_trains(plan, r))
        bytes += (total->ids + total->rows + total->gradients) / n_trainers +
                 2 * batch_share_of_rank(plan) * plan->dense.width * sizeof(float) +
                 work[r].copies * n_trainers;
    return bytes * (plan->overlaps ? 2 : 1);
}

static void estimate_rank_cost(rk_plan *plan, int32_t r, const rank_work *work, const rank_work *total) {
    rk_plan_rank *rank = &plan->ranks[r];
    estimate_step_parts_of_rank(plan, r, work, total);
    rank->bytes[RK_PLAN_MEMORY_BUFFERS] = estimate_buffer_bytes(plan, r, work, total);
    if (rk_plan_trains(plan, r)) {
        rank->bytes[RK_PLAN_MEMORY_DENSE] = plan->dense.bytes;
        rank->bytes[RK_PLAN_MEMORY_DATA] = plan->data_bytes;
    }
    for (int i = 0; i < RK_PLAN_MEMORY_COUNT; i++) rank->all_bytes += rank->bytes[i];
    for (int i = 0; i < RK_PLAN_PART_COUNT; i++) rank->seconds += i == RK_PLAN_PART_READ ? 0 : rank->parts[i];
}

static double price_of_hosts(const rk_plan *plan) {
    double price = 0;
    for (int32_t r = 0; r < plan->n_ranks; r++) /* a host that is used in part is paid for whole */
        if (r == 0 || plan->machines[r].host != plan->machines[r - 1].host)
            price += plan->cluster.hosts.groups[plan->machines[r].group].price_per_hour;
    return price;
}

static double compute_load_balance(const rk_plan *plan, bool trainers) {
    double most = 0, sum = 0, n = 0;
    for (int32_t r = 0; r < plan->n_ranks; r++) {
        if (rk_plan_trains(plan, r) != trainers) continue;
        most = fmax(most, plan->ranks[r].seconds);
        sum += plan->ranks[r].seconds;
        n++;
    }
    return sum > 0 ? most * n / sum : 1;
}

/* Ranks wait for one another at all_to_alls, so a part takes as long as on the slowest rank. Where the rows
 * of the next batch are fetched and the gradients of the last are sent beside the dense part, the longer of
 * the two ways counts; what goes through the network takes its time there beside all else. */
static double estimate_step_seconds(const rk_plan *plan, const double *parts, double beside) {
    double own = parts[RK_PLAN_PART_DEDUP] + parts[RK_PLAN_PART_LOOKUP] + parts[RK_PLAN_PART_DENSE] +
                 parts[RK_PLAN_PART_UPDATE] + parts[RK_PLAN_PART_REST];
    double reduce = parts[RK_PLAN_PART_ALL_REDUCE],
           network =
               parts[RK_PLAN_PART_IDS] + parts[RK_PLAN_PART_ROWS] + parts[RK_PLAN_PART_GRADIENTS] + reduce;
    if (!plan->overlaps) return own + network - beside;
    return fmax(plan->asynchronous ? own : own + reduce - beside, network);
}

/* Reading runs beside all of it: a trial run has measured what ranks wait for it, or it is what it takes
 * longer than all else. */
static void add_reading_wait(const rk_plan *plan, rk_plan_step *step) {
    double *wait = &step->parts[RK_PLAN_PART_READ];
    if (!plan->calibration.n_steps) *wait = fmax(*wait - step->seconds, 0);
    step->seconds += *wait;
}

static void estimate_step_cost(rk_plan *plan) {
    rk_plan_step *step = &plan->step;
    *step =
        (rk_plan_step){.price_per_hour = price_of_hosts(plan),
                       .balance = fmax(compute_load_balance(plan, true), compute_load_balance(plan, false))};
    plan->fullest = 0;
    step->reduce_beside = plan->ranks[0].reduce_beside;
    for (int32_t r = 0; r < plan->n_ranks; r++) {
        double full = plan->ranks[r].all_bytes / plan->machines[r].capacity.memory_bytes;
        if (full > plan->ranks[plan->fullest].all_bytes / plan->machines[plan->fullest].capacity.memory_bytes)
            plan->fullest = r;
        for (int i = 0; i < RK_PLAN_PART_COUNT; i++)
            step->parts[i] = fmax(step->parts[i], plan->ranks[r].parts[i]);
        if (rk_plan_trains(plan, r))
            step->reduce_beside = fmin(step->reduce_beside, plan->ranks[r].reduce_beside);
    }
    step->seconds = estimate_step_seconds(plan, step->parts, step->reduce_beside);
    add_reading_wait(plan, step);
    step->samples_per_second = step->seconds > 0 ? (double)plan->request.batch_size / step->seconds : 0;
}

rk_status rk_plan_estimate_cost(rk_plan *plan) {
    RK_AUTOFREE rank_work *work = NULL;
    rank_work total = {0};
    RK_TRY(rk_alloc((size_t)plan->n_ranks, sizeof *work, &work));
    memset(plan->ranks, 0, (size_t)plan->n_ranks * sizeof *plan->ranks);
    add_table_work(plan, work);
    for (int32_t r = 0; r < plan->n_ranks; r++) {
        total.ids += work[r].ids;
        total.rows += work[r].rows;
        total.gradients += work[r].gradients;
    }
    for (int32_t r = 0; r < plan->n_ranks; r++) estimate_rank_cost(plan, r, work, &total);
    estimate_step_cost(plan);
    return RK_OK;
}
