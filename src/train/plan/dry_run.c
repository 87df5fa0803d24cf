/* A dry run: some steps of the run on this machine, as its ranks would do them. Each rank has a thread, a
 * dataset and a model of its own. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/thread/clock.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/thread/trace.h"
#include "data/dataset/dataset.h"
#include "base/thread/partition.h"
#include "model/step/local_batch.h"
#include "train/plan/plan_internal.h"

enum { WARM_STEPS = 3, FEWEST_STEPS = 5, MOST_STEPS = 3000 };
static const double warm_seconds = 0.5, seconds_to_play = 2;

/* Which part a span of the trace belongs to. Spans in blocks are those of all threads of the pool at once; of
 * several processes alone, and of one. */
static const struct {
    const char *name;
    rk_plan_part part;
    bool in_blocks, of_many, of_one;
} spans[] = {
    {"read", RK_PLAN_PART_READ, false, true, true},
    {"dedup", RK_PLAN_PART_DEDUP, false, true, true},
    {"wait for rows", RK_PLAN_PART_LOOKUP, false, true, false},
    {"lookup", RK_PLAN_PART_LOOKUP, true, true, true},
    {"prepare", RK_PLAN_PART_DENSE, false, true, true},
    {"forward", RK_PLAN_PART_DENSE, true, true, true},
    {"backward", RK_PLAN_PART_DENSE, true, true, true},
    {"gradients", RK_PLAN_PART_DENSE, true, true, true},
    {"sum gradients", RK_PLAN_PART_DENSE, true, true, true},
    {"send gradients", RK_PLAN_PART_UPDATE, false, true, false},
    {"wait for updates of rows", RK_PLAN_PART_UPDATE, false, true, false},
    {"update rows", RK_PLAN_PART_UPDATE, false, false, true},
    {"update dense", RK_PLAN_PART_UPDATE, false, true, true},
};
enum { N_SPANS = sizeof spans / sizeof spans[0] };

typedef struct stage stage;

typedef struct player {
    stage *stage;
    int32_t number;
    pthread_t thread;
    rk_comm *comm;
    rk_dataset *dataset;
    rk_model *model;
    rk_local_batch share;
    int64_t n_samples, n_batches; /* batches whole, of all trainers */
    double seconds;
    rk_status status;
    char error[2048];
} player;

struct stage {
    const rk_plan *plan;
    rk_dry_run *dry_run;
    player *players;       /* [n_players] */
    pthread_mutex_t start; /* held until all are there */
    pthread_barrier_t barrier;
    int64_t n_steps; /* that all make next */
    bool failed;     /* one of them, so all stop */
};

static rk_status build(player *p) {
    const rk_plan *plan = p->stage->plan;
    const rk_roles *roles = &plan->request.roles;
    rk_model_cluster cluster = {.request = plan->request};
    rk_model_options options;
    RK_TRY(rk_config_open_data(plan->config, plan->transforms, "train", &p->dataset));
    RK_TRY(rk_config_model_options(plan->config, rk_dataset_schema(p->dataset), true, &options));
    if (plan->n_ranks > 1) {
        RK_TRY(rk_comm_self(&p->comm));
        cluster.comm = p->comm;
        cluster.request.roles = (rk_roles){1, 0};
        cluster.request.n_constraints = 0;
        cluster.request.loads = NULL;
        cluster.request.capacities = NULL;
        options.cluster = &cluster;
        options.max_batch = (plan->request.batch_size + roles->n_trainers - 1) / roles->n_trainers;
        options.n_micro_batches = (options.n_micro_batches + roles->n_trainers - 1) / roles->n_trainers;
        options.staleness = 0;
    }
    options.skip_not_finite = true;
    RK_TRY(rk_plan_build(plan->config, rk_dataset_schema(p->dataset), p->stage->dry_run->fewer, options,
                         &p->model));
    return rk_local_batch_init(p->model, true, &p->share);
}

/* Ids of tables that have fewer rows here, within them. */
static void fold_ids(player *p) {
    const rk_data_schema *schema = rk_dataset_schema(p->dataset);
    for (int32_t f = 0; f < schema->n_features; f++) {
        rk_ids *ids = &p->share.features[f];
        int64_t rows = rk_fewer_of(p->stage->dry_run->fewer, schema->features[f].cardinality),
                n = rk_ids_begin(ids, p->share.batch.n);
        int64_t *values = (int64_t *)(size_t)ids->ids; /* the share's own */
        for (int64_t i = 0; i < n && rows < schema->features[f].cardinality; i++)
            if (values[i] >= rows) values[i] %= rows;
    }
}

static rk_status play_step(player *p) {
    const rk_batch *batch;
    size_t n_trainers = (size_t)p->stage->plan->request.roles.n_trainers,
           number = (size_t)p->number % n_trainers;
    uint64_t begin = rk_trace_begin();
    RK_TRY(rk_dataset_next_endless(p->dataset, &batch));
    rk_trace_end(begin, "read");
    int64_t first = rk_partition_at(batch->n, number, n_trainers),
            last = rk_partition_at(batch->n, number + 1, n_trainers);
    p->n_samples += batch->n;
    p->n_batches++;
    if (first == last) return RK_OK;
    rk_rank_batch whole = rk_rank_batch_whole(batch);
    RK_TRY(rk_local_batch_fill(p->model, &whole, first, last - first, true, &p->share));
    fold_ids(p);
    double loss;
    return rk_model_train(p->model, &p->share.batch, &loss);
}

/* Whatever a player meets, all come to each barrier. */
static void meet(player *p, rk_status status) {
    if (status != RK_OK && p->status == RK_OK) {
        p->status = status;
        rk_error_copy(p->error, sizeof p->error);
    }
    pthread_barrier_wait(&p->stage->barrier);
    if (p->number == 0)
        for (int32_t i = 0; i < p->stage->dry_run->n_players; i++)
            p->stage->failed |= p->stage->players[i].status != RK_OK;
    pthread_barrier_wait(&p->stage->barrier);
}

static void play_steps(player *p) {
    int64_t n = p->stage->n_steps; /* the first player changes it once all are here */
    for (int64_t i = 0; i < n && !p->stage->failed; i++) meet(p, play_step(p));
}

/* The first player says how many steps are next, by what the last ones took. */
static void set_steps(player *p, double begun, int64_t done, double wanted_seconds) {
    if (p->number) return;
    double n = wanted_seconds / (rk_clock_seconds() - begun) * (double)done;
    p->stage->n_steps = n < FEWEST_STEPS ? FEWEST_STEPS : n > MOST_STEPS ? MOST_STEPS : (int64_t)n;
}

static void play(player *p) {
    meet(p, build(p));
    if (p->stage->failed) return;
    double begun = rk_clock_seconds();
    play_steps(p);
    set_steps(p, begun, WARM_STEPS, warm_seconds);
    meet(p, RK_OK);
    begun = rk_clock_seconds();
    play_steps(p);
    set_steps(p, begun, p->stage->n_steps, seconds_to_play);
    meet(p, p->number ? RK_OK : rk_trace_count());
    p->n_samples = p->n_batches = 0;
    begun = rk_clock_seconds();
    play_steps(p);
    p->seconds = rk_clock_seconds() - begun;
}

static void *play_alone(void *context) {
    player *p = context;
    (void)rk_parallel_set_alone(true);
    pthread_mutex_lock(&p->stage->start);
    pthread_mutex_unlock(&p->stage->start);
    if (!p->stage->failed) play(p);
    return NULL;
}

/* None begins before all threads are there: a barrier waits for every one. */
static rk_status play_together(stage *s) {
    int32_t n_started = 0;
    pthread_mutex_lock(&s->start);
    for (; n_started < s->dry_run->n_players; n_started++)
        if (pthread_create(&s->players[n_started].thread, NULL, play_alone, &s->players[n_started]) != 0)
            break;
    bool all = n_started == s->dry_run->n_players;
    s->failed = !all;
    pthread_mutex_unlock(&s->start);
    for (int32_t i = 0; i < n_started; i++) pthread_join(s->players[i].thread, NULL);
    RK_FAIL_IF(!all, RK_NO_MEMORY, "could not start a thread");
    return RK_OK;
}

static rk_status first_failure(const stage *s) {
    for (int32_t i = 0; i < s->dry_run->n_players; i++)
        if (s->players[i].status != RK_OK) return rk_error(s->players[i].status, "%s", s->players[i].error);
    return RK_OK;
}

/* Seconds of a whole batch of the run, in each part; what is in none is the rest. */
static void share_time(const stage *s) {
    rk_dry_run *r = s->dry_run;
    double n_batches = 0, wall = 0, known = 0, blocks = r->n_threads;
    for (int32_t i = 0; i < r->n_players; i++) {
        n_batches += (double)s->players[i].n_samples / (double)s->plan->request.batch_size;
        wall += s->players[i].seconds;
    }
    r->seconds = wall / n_batches;
    r->n_steps = s->players[0].n_batches;
    for (int i = 0; i < N_SPANS; i++) {
        if (!(s->plan->n_ranks > 1 ? spans[i].of_many : spans[i].of_one)) continue;
        double seconds = rk_trace_seconds(spans[i].name) / n_batches / (spans[i].in_blocks ? blocks : 1);
        r->parts[spans[i].part] += seconds;
        known += seconds;
    }
    r->parts[RK_PLAN_PART_REST] = fmax(r->seconds - known, 0);
}

static void release(stage *s) {
    for (int32_t i = 0; i < s->dry_run->n_players && s->players; i++) {
        player *p = &s->players[i];
        if (p->model) rk_local_batch_release(p->model, &p->share);
        rk_model_free(p->model);
        rk_dataset_free(p->dataset);
        rk_comm_free(p->comm);
    }
    pthread_barrier_destroy(&s->barrier);
    pthread_mutex_destroy(&s->start);
    rk_free(s->players);
}

rk_status rk_plan_dry_run(const rk_plan *plan, rk_dry_run *r) {
    stage s = {.plan = plan, .dry_run = r, .n_steps = WARM_STEPS};
    pthread_mutex_init(&s.start, NULL);
    pthread_barrier_init(&s.barrier, NULL, (unsigned)r->n_players);
    rk_status status;
    RK_GOTO(rk_alloc((size_t)r->n_players, sizeof *s.players, &s.players));
    for (int32_t i = 0; i < r->n_players; i++) {
        s.players[i].stage = &s;
        s.players[i].number = i;
    }
    if (r->n_players > 1)
        RK_GOTO(play_together(&s));
    else
        play(&s.players[0]);
    status = first_failure(&s);
    if (status == RK_OK) share_time(&s);
    rk_status stopped = rk_trace_stop();
    if (status == RK_OK) status = stopped;
done:
    release(&s);
    return status;
}
