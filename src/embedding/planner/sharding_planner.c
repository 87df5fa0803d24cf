#include "embedding/planner/sharding_planner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "embedding/planner/planner_constraints.h"
#include "embedding/planner/table_traffic.h"

/* Ranks that are not described count as these. Only the ratio matters: rows on the wire cost about ten times
 * as much as rows in memory. */
static const rk_rank_capacity usual_capacity = {INFINITY, 20e9, 2e9};

/* Owners count as balanced where none has more than this much of the mean. */
static const double balanced = 1.1;

/* Where owners differ, or have tables by hand, an average one takes so many parts of a table. */
enum { PARTS_OF_AN_AVERAGE_OWNER = 8 };

/* A table on its way to a placement. */
typedef struct candidate {
    const rk_planner_constraint *constraint; /* or NULL */
    rk_sharding sharding;                    /* AUTO: the balance decides between table_wise and `cut` */
    rk_sharding cut; /* where it is too much for one owner: by rows, or as owners combine its bags with less
                        to do for each */
    rk_table_statistics load;
    double wire_bytes, memory_bytes, bytes; /* in a step, as a whole; and with slots */
    double size; /* its share of what an owner is to do or to hold, whichever is more */
} candidate;

typedef struct owner {
    int32_t number;
    double seconds, bytes; /* so far */
    rk_rank_capacity capacity;
} owner;

typedef struct choice {
    const rk_planner_request *request;
    int32_t n_owners;
    owner *owners; /* [n_owners] */
    owner **order; /* [n_dealt]: who takes parts of a table that is cut by rows; an owner may be there several
                      times */
    int32_t n_dealt;
    double mean_seconds, fill; /* of an owner: what it is to do, and the share of its memory that is to be
                                  taken, if all have the same share */
    double trainers_speed;     /* of all their links together */
    double wire_bytes;         /* in a step, of all that is placed so far */
    double least_level; /* of trainers, if tables are placed as is best for them; or 1, where owners that are
                           even have more to do */
    bool by_rows;       /* whatever tables' `cut` is */
    candidate *candidates; /* [n_tables] */
    int32_t *by_size;      /* [n_tables] */
    rk_table_placement *out;
} choice;

static rk_rank_capacity capacity_of_rank(const rk_planner_request *request, int32_t rank) {
    return request->capacities ? request->capacities[rank] : usual_capacity;
}

static double estimate_owner_seconds(const owner *o, double wire_bytes, double memory_bytes) {
    return wire_bytes / o->capacity.network_speed + memory_bytes / o->capacity.memory_speed;
}

/* How full or busy an owner is beside the others; enough memory is one unit, so that what is held is even
 * where memory is not known. */
static double memory_capacity_of_owner(const owner *o) {
    return isinf(o->capacity.memory_bytes) ? 1 : fmax(o->capacity.memory_bytes, 1);
}

static double relative_seconds_of_owner(const choice *c, const owner *o) {
    return c->mean_seconds > 0 ? o->seconds / c->mean_seconds : 0;
}

static double relative_load_of_owner(const choice *c, const owner *o) {
    double filled = c->fill > 0 ? o->bytes / memory_capacity_of_owner(o) / c->fill : 0;
    return fmax(relative_seconds_of_owner(c, o), filled);
}

static double wire_bytes_of_traffic(const rk_table_traffic *traffic) {
    return traffic->id_bytes + traffic->row_bytes + traffic->gradient_bytes;
}

/* Where few ranks train, what travels may keep their links busy for longer than any owner is. */
static double relative_load_of_trainers(const choice *c, double bytes) {
    return c->mean_seconds > 0 ? bytes / c->trainers_speed / c->mean_seconds : 0;
}

/* A placement on its way to its owners: what a whole slice asks for. */
typedef struct slice {
    const rk_table_placement *placement;
    double wire_bytes, memory_bytes;
} slice;

static slice make_column_slice(const choice *c, int32_t t, const rk_table_placement *placement) {
    rk_table_traffic traffic = rk_table_traffic_estimate(c->request, t, &c->candidates[t].load, placement);
    return (slice){placement, wire_bytes_of_traffic(&traffic) / placement->n_slices,
                   (traffic.lookup_bytes + traffic.update_bytes) / placement->n_slices};
}

static void assign_part_to_owner(choice *c, int32_t t, const slice *s, int32_t number, int32_t part,
                                 owner *o) {
    const rk_table_placement *p = s->placement;
    double share =
        p->n_parts > 1 ? rk_table_part_load_share(c->request, &c->candidates[t].load, part, p->n_parts) : 1;
    c->wire_bytes += share * s->wire_bytes;
    o->seconds += estimate_owner_seconds(o, share * s->wire_bytes, share * s->memory_bytes);
    o->bytes += rk_planner_request_bytes_of_rows(
                    c->request, t, rk_planner_request_part_rows(c->request, t, part, p->n_parts)) /
                p->n_slices;
    p->owners[(size_t)number * (size_t)p->n_parts + (size_t)part] =
        rk_roles_owner_rank(&c->request->roles, o->number);
}

static owner *least_loaded_owner(const choice *c) {
    owner *best = &c->owners[0];
    for (int32_t i = 1; i < c->n_owners; i++)
        if (relative_load_of_owner(c, &c->owners[i]) < relative_load_of_owner(c, best)) best = &c->owners[i];
    return best;
}

typedef struct ranked {
    double value;
    int32_t number;
} ranked;

static int compare_descending(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
}

/* The parts with most to do go to the owners with least; all hold as many rows. */
static rk_status assign_parts_to_owners(choice *c, int32_t t, const slice *s, int32_t number) {
    const rk_table_placement *p = s->placement;
    const rk_table_statistics *load = &c->candidates[t].load;
    RK_AUTOFREE ranked *parts = NULL, *takers = NULL;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)p->n_parts, parts), RK_ARRAY((size_t)c->n_dealt, takers)));
    for (int32_t i = 0; i < p->n_parts; i++)
        parts[i] = (ranked){load->n_hot ? rk_table_part_load_share(c->request, load, i, p->n_parts) : 0, i};
    for (int32_t i = 0; i < c->n_dealt; i++)
        takers[i] = (ranked){-relative_seconds_of_owner(c, c->order[i]), i};
    if (load->n_hot) qsort(parts, (size_t)p->n_parts, sizeof *parts, compare_descending);
    qsort(takers, (size_t)c->n_dealt, sizeof *takers, compare_descending);
    for (int32_t i = 0; i < p->n_parts; i++)
        assign_part_to_owner(c, t, s, number, parts[i].number, c->order[takers[i % c->n_dealt].number]);
    return RK_OK;
}

static owner *owner_at_rank(const choice *c, int64_t rank) {
    return &c->owners[rank - rk_roles_owner_rank(&c->request->roles, 0)];
}

static int32_t slice_count_of(const choice *c, int32_t t) {
    const candidate *table = &c->candidates[t];
    if (table->sharding != RK_SHARD_COLUMN_WISE && table->sharding != RK_SHARD_GRID) return 1;
    if (table->constraint && table->constraint->n_slices) return table->constraint->n_slices;
    if (table->constraint && table->constraint->n_ranks) return table->constraint->n_ranks;
    int32_t n = c->request->tables[t].dim < c->n_owners ? c->request->tables[t].dim : c->n_owners;
    while (c->request->tables[t].dim % n) n--;
    return n;
}

static int32_t part_count_of(const choice *c, int32_t t, int32_t n_slices) {
    const candidate *table = &c->candidates[t];
    if (table->sharding != RK_SHARD_ROW_WISE && table->sharding != RK_SHARD_GRID) return 1;
    if (table->constraint && table->constraint->n_ranks) return table->constraint->n_ranks / n_slices;
    int32_t n = c->n_dealt / n_slices;
    if (n > rk_planner_request_max_parts(c->request, t))
        n = (int32_t)rk_planner_request_max_parts(c->request, t);
    return n > 1 ? n : 1;
}

static bool wants_owner_pooling(const choice *c, int32_t t) {
    const candidate *table = &c->candidates[t];
    if (rk_planner_request_dynamic_config(c->request, t)) return false;
    if (rk_reason_against_owner_pooling(c->request->features, c->request->n_features,
                                        c->request->tables[t].name))
        return false;
    if (table->constraint && table->constraint->pooling != RK_POOLING_AUTO)
        return table->constraint->pooling == RK_POOLING_ON;
    return table->load.measured;
}

/* Owners combine bags only where that sends fewer bytes, unless the run file says so. */
static bool choose_owner_pooling(const choice *c, int32_t t, const rk_table_placement *placement) {
    const candidate *table = &c->candidates[t];
    bool travels = c->request->roles.n_trainers + c->request->roles.n_owners > 1;
    if (placement->n_parts > 1 || !travels || !wants_owner_pooling(c, t)) return false;
    if (table->constraint && table->constraint->pooling == RK_POOLING_ON) return true;
    rk_table_placement with = *placement;
    with.owner_pooling = true;
    rk_table_traffic a = rk_table_traffic_estimate(c->request, t, &table->load, &with),
                     b = rk_table_traffic_estimate(c->request, t, &table->load, placement);
    return wire_bytes_of_traffic(&a) < wire_bytes_of_traffic(&b);
}

static rk_status place_table_on_owners(choice *c, int32_t t) {
    const candidate *table = &c->candidates[t];
    rk_table_placement *placement = &c->out[t];
    rk_table_placement_release(placement);
    int32_t n_slices = slice_count_of(c, t);
    RK_TRY(rk_table_placement_init(placement, n_slices, part_count_of(c, t, n_slices)));
    placement->replicated = table->sharding == RK_SHARD_REPLICATED;
    if (placement->replicated) return RK_OK;
    placement->owner_pooling = choose_owner_pooling(c, t, placement);
    slice s = make_column_slice(c, t, placement);
    for (int32_t number = 0; number < placement->n_slices; number++) {
        if (table->constraint && table->constraint->n_ranks)
            for (int32_t p = 0; p < placement->n_parts; p++)
                assign_part_to_owner(
                    c, t, &s, number, p,
                    owner_at_rank(c, table->constraint->ranks[number * placement->n_parts + p]));
        else if (placement->n_parts > 1)
            RK_TRY(assign_parts_to_owners(c, t, &s, number));
        else
            assign_part_to_owner(c, t, &s, number, 0, least_loaded_owner(c));
    }
    return RK_OK;
}

static void reset_owner_loads(choice *c) {
    c->wire_bytes = 0;
    for (int32_t i = 0; i < c->n_owners; i++) c->owners[i].seconds = c->owners[i].bytes = 0;
}

/* What has its ranks or is cut for all first, then whole tables, the largest first, to whom has least. */
static rk_status place_all_tables(choice *c, double largest_whole) {
    int32_t n_tables = c->request->n_tables;
    reset_owner_loads(c);
    for (int whole = 0; whole < 2; whole++)
        for (int32_t i = 0; i < n_tables; i++) {
            int32_t t = c->by_size[i];
            candidate *table = &c->candidates[t];
            bool automatic = table->sharding == RK_SHARD_AUTO;
            if (automatic)
                table->sharding = c->n_owners == 1 || table->size <= largest_whole ? RK_SHARD_TABLE_WISE
                                  : c->by_rows                                     ? RK_SHARD_ROW_WISE
                                                                                   : table->cut;
            bool last =
                table->sharding == RK_SHARD_TABLE_WISE && !(table->constraint && table->constraint->n_ranks);
            rk_status status = last == (whole == 1) ? place_table_on_owners(c, t) : RK_OK;
            if (automatic) table->sharding = RK_SHARD_AUTO;
            RK_TRY(status);
        }
    return RK_OK;
}

/* How far from balanced, 1 is even, and trainers have no more to do than they must; owners that hold more
 * than they can are far worse than busy ones. */
static double compute_imbalance(const choice *c) {
    double most = relative_load_of_trainers(c, c->wire_bytes) / c->least_level, fullest = 0;
    for (int32_t i = 0; i < c->n_owners; i++) {
        most = fmax(most, relative_load_of_owner(c, &c->owners[i]));
        fullest = fmax(fullest, c->owners[i].bytes / c->owners[i].capacity.memory_bytes);
    }
    return fullest > 1 ? 1e9 * fullest : most;
}

/* By what owners take parts of a table that is cut by rows. */
typedef enum measure { BY_SPEED, BY_MEMORY, BY_WHAT_IS_LEFT, MEASURES } measure;

static double weight_of_owner(const choice *c, const owner *o, measure by) {
    if (by == BY_WHAT_IS_LEFT) return fmax(1 - relative_load_of_owner(c, o), 0);
    return by == BY_MEMORY ? memory_capacity_of_owner(o) : 1 / estimate_owner_seconds(o, 1, 10);
}

/* What owners have by hand, before anything is dealt out. */
static rk_status add_constrained_loads(choice *c) {
    reset_owner_loads(c);
    for (int32_t t = 0; t < c->request->n_tables; t++)
        if (c->candidates[t].constraint && c->candidates[t].constraint->n_ranks)
            RK_TRY(place_table_on_owners(c, t));
    return RK_OK;
}

/* Owners of the same power take one part each; of others each takes parts in proportion, which may be none
 * only where it has its share already. */
static rk_status divide_parts_among_owners(choice *c, measure by) {
    double total = 0;
    bool alike = true;
    if (by == BY_WHAT_IS_LEFT) RK_TRY(add_constrained_loads(c));
    for (int32_t i = 0; i < c->n_owners; i++) {
        total += weight_of_owner(c, &c->owners[i], by);
        if (fabs(weight_of_owner(c, &c->owners[i], by) - weight_of_owner(c, &c->owners[0], by)) >
            1e-9 * weight_of_owner(c, &c->owners[0], by))
            alike = false;
    }
    c->n_dealt = 0;
    for (int32_t i = 0; i < c->n_owners; i++) {
        long n = alike ? 1
                       : lround(PARTS_OF_AN_AVERAGE_OWNER * weight_of_owner(c, &c->owners[i], by) / total *
                                c->n_owners);
        if (n == 0 && by != BY_WHAT_IS_LEFT) n = 1;
        for (long k = 0; k < n; k++) c->order[c->n_dealt++] = &c->owners[i];
    }
    return RK_OK;
}

/* What of all that is tried has been best so far. */
typedef struct trial {
    double uneven, whole;
    measure by;
    bool by_rows;
} trial;

/* Tables stay whole where owners are even without cutting them; if not, ever smaller ones are cut. */
static rk_status try_splitting_tables(choice *c, measure by, trial *best) {
    RK_TRY(divide_parts_among_owners(c, by));
    for (double whole = 0.5; best->uneven > balanced; whole = whole > 0.01 ? whole / 2 : 0) {
        RK_TRY(place_all_tables(c, whole));
        double uneven = compute_imbalance(c);
        if (uneven < best->uneven) *best = (trial){uneven, whole, by, c->by_rows};
        if (whole == 0) break;
    }
    return RK_OK;
}

static rk_status balance_owners(choice *c) {
    trial best = {.uneven = INFINITY};
    for (int by_rows = 0; by_rows < 2; by_rows++) {
        c->by_rows = by_rows;
        for (measure by = BY_SPEED; by < MEASURES && best.uneven > balanced; by++)
            RK_TRY(try_splitting_tables(c, by, &best));
    }
    c->by_rows = best.by_rows;
    RK_TRY(divide_parts_among_owners(c, best.by));
    return place_all_tables(c, best.whole);
}

static rk_sharding sharding_of_constraint(const rk_planner_request *request, int32_t t,
                                          const rk_planner_constraint *constraint) {
    if (constraint && constraint->sharding != RK_SHARD_AUTO) return constraint->sharding;
    if (constraint && constraint->pooling == RK_POOLING_ON) return RK_SHARD_TABLE_WISE;
    bool is_small = request->tables[t].n_rows < request->replicate_below &&
                    !rk_planner_request_dynamic_config(request, t);
    return is_small ? RK_SHARD_REPLICATED : RK_SHARD_AUTO;
}

/* The time of each of the table's owners, or of the trainers if that is longer. */
static double estimate_table_seconds(const choice *c, int32_t t, const rk_table_placement *placement) {
    rk_table_traffic traffic = rk_table_traffic_estimate(c->request, t, &c->candidates[t].load, placement);
    double bytes = wire_bytes_of_traffic(&traffic),
           owners =
               estimate_owner_seconds(&c->owners[0], bytes, traffic.lookup_bytes + traffic.update_bytes) /
               (placement->n_slices * placement->n_parts);
    return fmax(owners, bytes / c->trainers_speed);
}

static int32_t max_column_slices(choice *c, int32_t t) {
    rk_optimizer usual;
    bool couples =
        !c->request->tables[t].frozen &&
        rk_optimizer_needs_whole_rows(rk_planner_request_table_optimizer(c->request, t, &usual)->kind);
    c->candidates[t].sharding = couples ? RK_SHARD_TABLE_WISE : RK_SHARD_COLUMN_WISE;
    int32_t n = slice_count_of(c, t);
    c->candidates[t].sharding = RK_SHARD_AUTO;
    return n;
}

/* Owners combine the bags of a whole table, or of its slices, each of which is sent all ids; by rows, more
 * rows than bags may travel. No owner is to hold more of a table than its share of all. */
static rk_sharding choose_sharding(choice *c, int32_t t, double bytes_of_owner) {
    int64_t most_parts = rk_planner_request_max_parts(c->request, t);
    int32_t n_parts = c->n_owners < most_parts ? c->n_owners : (int32_t)most_parts;
    rk_sharding best = RK_SHARD_ROW_WISE;
    double least = estimate_table_seconds(c, t, &(rk_table_placement){.n_slices = 1, .n_parts = n_parts});
    for (int32_t most = max_column_slices(c, t), n = 1;; n = most) {
        rk_table_placement placement = {.n_slices = n, .n_parts = 1};
        placement.owner_pooling = choose_owner_pooling(c, t, &placement);
        double seconds = placement.owner_pooling && c->candidates[t].bytes <= n * bytes_of_owner
                             ? estimate_table_seconds(c, t, &placement)
                             : INFINITY;
        if (seconds < least) {
            least = seconds;
            best = n > 1 ? RK_SHARD_COLUMN_WISE : RK_SHARD_TABLE_WISE;
        }
        if (n == most) return best;
    }
}

static void fill_table_candidate(choice *c, int32_t t, const rk_planner_constraint *constraint) {
    const rk_planner_request *request = c->request;
    const rk_table_config *config = &request->tables[t];
    candidate *table = &c->candidates[t];
    table->constraint = constraint;
    table->sharding = sharding_of_constraint(request, t, constraint);
    table->load = request->loads
                      ? request->loads[t]
                      : rk_table_statistics_assume(
                            config->n_rows,
                            rk_assumed_ids_per_sample(config->name, request->features, request->n_features),
                            request->batch_size, request->roles.n_trainers);
    table->bytes = rk_planner_request_bytes_of_rows(request, t, rk_planner_request_table_rows(request, t));
}

/* As owners will combine its bags, if they can. */
static void estimate_candidate_traffic(choice *c, int32_t t, double bytes_of_owner) {
    candidate *table = &c->candidates[t];
    if (table->sharding == RK_SHARD_AUTO) table->cut = choose_sharding(c, t, bytes_of_owner);
    rk_sharding cut = table->sharding == RK_SHARD_AUTO ? table->cut : table->sharding;
    rk_table_placement whole = {.n_slices = 1, .n_parts = 1};
    whole.owner_pooling =
        (cut == RK_SHARD_TABLE_WISE || cut == RK_SHARD_COLUMN_WISE) && choose_owner_pooling(c, t, &whole);
    rk_table_traffic traffic = rk_table_traffic_estimate(c->request, t, &table->load, &whole);
    table->wire_bytes = wire_bytes_of_traffic(&traffic);
    table->memory_bytes = traffic.lookup_bytes + traffic.update_bytes;
}

static void fill_table_candidates(choice *c, const int32_t *constraint_of) {
    const rk_planner_request *request = c->request;
    double wire = 0, memory = 0, bytes = 0, memory_there = 0, speed = 0;
    for (int32_t t = 0; t < request->n_tables; t++) {
        fill_table_candidate(c, t, constraint_of[t] < 0 ? NULL : &request->constraints[constraint_of[t]]);
        if (c->candidates[t].sharding != RK_SHARD_REPLICATED) bytes += c->candidates[t].bytes;
    }
    for (int32_t t = 0; t < request->n_tables; t++) {
        const candidate *table = &c->candidates[t];
        if (table->sharding == RK_SHARD_REPLICATED) continue;
        estimate_candidate_traffic(c, t, bytes / c->n_owners);
        wire += table->wire_bytes;
        memory += table->memory_bytes;
    }
    for (int32_t i = 0; i < c->n_owners; i++) {
        memory_there += memory_capacity_of_owner(&c->owners[i]);
        if (wire + memory > 0) speed += 1 / estimate_owner_seconds(&c->owners[i], wire, memory);
    }
    c->mean_seconds = speed > 0 ? 1 / speed : 0;
    c->fill = bytes / memory_there;
    c->least_level = fmax(1, relative_load_of_trainers(c, wire));
    for (int32_t t = 0; t < request->n_tables; t++) {
        candidate *table = &c->candidates[t];
        double work =
            wire + memory > 0 ? (table->wire_bytes + table->memory_bytes / 10) / (wire + memory / 10) : 0;
        table->size = c->n_owners * fmax(work, bytes > 0 ? table->bytes / bytes : 0);
    }
}

static rk_status sort_tables_by_size(choice *c) {
    RK_AUTOFREE ranked *sizes = NULL;
    RK_TRY(rk_alloc((size_t)c->request->n_tables, sizeof *sizes, &sizes));
    for (int32_t t = 0; t < c->request->n_tables; t++) sizes[t] = (ranked){c->candidates[t].size, t};
    qsort(sizes, (size_t)c->request->n_tables, sizeof *sizes, compare_descending);
    for (int32_t t = 0; t < c->request->n_tables; t++) c->by_size[t] = sizes[t].number;
    return RK_OK;
}

/* What a part's owner would refuse (dynamic/dynamic_table.h), with the row of keys without one. */
static rk_status check_key_rows_of_parts(const choice *c) {
    for (int32_t t = 0; t < c->request->n_tables; t++) {
        if (!rk_planner_request_dynamic_config(c->request, t)) continue;
        for (int32_t part = 0; part < c->out[t].n_parts; part++) {
            int64_t rows = rk_planner_request_part_rows(c->request, t, part, c->out[t].n_parts);
            RK_FAIL_IF(rows >= RK_MOST_KEY_ROWS, RK_CONFIG,
                       "table '%s': one of its %d parts has %lld rows of keys, and may have %lld at most\n"
                       "hint: let it have more parts, of more ranks, or a smaller max_capacity",
                       c->request->tables[t].name, (int)c->out[t].n_parts, (long long)rows,
                       (long long)RK_MOST_KEY_ROWS - 1);
        }
    }
    return RK_OK;
}

static rk_status choose_plan(choice *c) {
    const rk_planner_request *request = c->request;
    RK_AUTOFREE int32_t *constraint_of = NULL;
    RK_TRY(rk_alloc((size_t)request->n_tables, sizeof *constraint_of, &constraint_of));
    RK_TRY(rk_planner_constraints_check(request, constraint_of));
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)c->n_owners, c->owners),
                        RK_ARRAY((size_t)c->n_owners * (2 * PARTS_OF_AN_AVERAGE_OWNER), c->order),
                        RK_ARRAY((size_t)request->n_tables, c->candidates),
                        RK_ARRAY((size_t)request->n_tables, c->by_size)));
    for (int32_t i = 0; i < c->n_owners; i++)
        c->owners[i] = (owner){
            .number = i, .capacity = capacity_of_rank(request, rk_roles_owner_rank(&request->roles, i))};
    for (int32_t r = 0; r < request->roles.n_trainers; r++)
        c->trainers_speed += capacity_of_rank(request, r).network_speed;
    fill_table_candidates(c, constraint_of);
    RK_TRY(sort_tables_by_size(c));
    RK_TRY(balance_owners(c));
    return check_key_rows_of_parts(c);
}

rk_status rk_sharding_plan_choose(const rk_planner_request *request, rk_table_placement *out) {
    RK_FAIL_IF(request->roles.n_trainers < 1 || request->roles.n_owners < 0, RK_INVALID_ARGUMENT,
               "a plan for %d trainers and %d embedding servers; at least 1 trainer is needed",
               request->roles.n_trainers, request->roles.n_owners);
    RK_FAIL_IF(request->n_tables < 0 || request->batch_size < 1, RK_INVALID_ARGUMENT,
               "a plan for %d tables and a batch size of %lld; at least 0 and 1 are needed",
               request->n_tables, (long long)request->batch_size);
    choice c = {.request = request, .n_owners = rk_roles_owner_count(&request->roles)};
    rk_status status = rk_alloc((size_t)request->n_tables, sizeof *c.out, &c.out);
    if (status == RK_OK) status = choose_plan(&c);
    if (status == RK_OK && request->n_tables) memcpy(out, c.out, (size_t)request->n_tables * sizeof *out);
    for (int32_t t = 0; status != RK_OK && c.out && t < request->n_tables; t++)
        rk_table_placement_release(&c.out[t]);
    RK_FREE_ALL(c.out, c.owners, c.order, c.candidates, c.by_size);
    return status;
}
