/* A trial run: some steps of the run on this machine, as its ranks would train them. Each simulated rank has
 * a thread, a dataset and a model of its own; no messages are sent. */
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
static const double warm_seconds = 0.5, timed_seconds = 2;

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

typedef struct simulation simulation;

typedef struct simulated_rank {
    simulation *simulation;
    int32_t number;
    pthread_t thread;
    rk_comm *comm;
    rk_dataset *dataset;
    rk_model *model;
    rk_local_batch local_batch;
    int64_t n_samples, n_batches; /* batches whole, of all trainers */
    double seconds;
    rk_status status;
    char error[2048];
} simulated_rank;

struct simulation {
    const rk_plan *plan;
    rk_trial_run *trial_run;
    simulated_rank *ranks; /* [n_simulated_ranks] */
    pthread_mutex_t start; /* held until all are there */
    pthread_barrier_t barrier;
    int64_t n_steps; /* that all make next */
    bool failed;     /* one of them, so all stop */
};

static rk_status build_model_of_rank(simulated_rank *r) {
    const rk_plan *plan = r->simulation->plan;
    const rk_roles *roles = &plan->request.roles;
    rk_model_cluster cluster = {.request = plan->request};
    rk_model_options options;
    RK_TRY(rk_config_open_data(plan->config, plan->transforms, "train", &r->dataset));
    RK_TRY(rk_config_model_options(plan->config, rk_dataset_schema(r->dataset), true, &options));
    if (plan->n_ranks > 1) {
        RK_TRY(rk_comm_self(&r->comm));
        cluster.comm = r->comm;
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
    RK_TRY(rk_plan_build_model(plan->config, rk_dataset_schema(r->dataset),
                               r->simulation->trial_run->reduction, options, &r->model));
    return rk_local_batch_init(r->model, true, &r->local_batch);
}

/* Ids of tables that have fewer rows here, within them. */
static void wrap_ids_into_rows(simulated_rank *r) {
    const rk_data_schema *schema = rk_dataset_schema(r->dataset);
    for (int32_t f = 0; f < schema->n_features; f++) {
        rk_ids *ids = &r->local_batch.features[f];
        int64_t rows = rk_reduced_rows(r->simulation->trial_run->reduction, schema->features[f].cardinality),
                n = rk_ids_begin_of_sample(ids, r->local_batch.batch.n);
        int64_t *values = (int64_t *)(size_t)ids->ids; /* the local batch's own */
        for (int64_t i = 0; i < n && rows < schema->features[f].cardinality; i++)
            if (values[i] >= rows) values[i] %= rows;
    }
}

static rk_status train_step(simulated_rank *r) {
    const rk_batch *batch;
    size_t n_trainers = (size_t)r->simulation->plan->request.roles.n_trainers,
           number = (size_t)r->number % n_trainers;
    uint64_t begin = rk_trace_begin();
    RK_TRY(rk_dataset_next_endless(r->dataset, &batch));
    rk_trace_end(begin, "read");
    int64_t first = rk_partition_begin(batch->n, number, n_trainers),
            last = rk_partition_begin(batch->n, number + 1, n_trainers);
    r->n_samples += batch->n;
    r->n_batches++;
    if (first == last) return RK_OK;
    rk_rank_batch whole = rk_rank_batch_from_batch(batch, RK_NO_TIMESTAMP);
    RK_TRY(rk_local_batch_fill(r->model, &whole, first, last - first, true, &r->local_batch));
    wrap_ids_into_rows(r);
    double loss;
    return rk_model_train(r->model, &r->local_batch.batch, &loss);
}

/* Keeps this rank's first failure and waits for all ranks, twice: after the first wait rank 0 sets `failed`,
 * after the second all read it. */
static void wait_for_all_ranks(simulated_rank *r, rk_status status) {
    if (status != RK_OK && r->status == RK_OK) {
        r->status = status;
        rk_error_copy(r->error, sizeof r->error);
    }
    pthread_barrier_wait(&r->simulation->barrier);
    if (r->number == 0)
        for (int32_t i = 0; i < r->simulation->trial_run->n_simulated_ranks; i++)
            r->simulation->failed |= r->simulation->ranks[i].status != RK_OK;
    pthread_barrier_wait(&r->simulation->barrier);
}

static void train_steps(simulated_rank *r) {
    int64_t n = r->simulation->n_steps; /* rank 0 changes it once all are here */
    for (int64_t i = 0; i < n && !r->simulation->failed; i++) wait_for_all_ranks(r, train_step(r));
}

/* Rank 0 sets the number of the next steps, by what the last ones took. */
static void choose_step_count(simulated_rank *r, double begun, int64_t done, double wanted_seconds) {
    if (r->number) return;
    double n = wanted_seconds / (rk_clock_seconds() - begun) * (double)done;
    r->simulation->n_steps = n < FEWEST_STEPS ? FEWEST_STEPS : n > MOST_STEPS ? MOST_STEPS : (int64_t)n;
}

static void run_simulated_rank(simulated_rank *r) {
    wait_for_all_ranks(r, build_model_of_rank(r));
    if (r->simulation->failed) return;
    double begun = rk_clock_seconds();
    train_steps(r);
    choose_step_count(r, begun, WARM_STEPS, warm_seconds);
    wait_for_all_ranks(r, RK_OK);
    begun = rk_clock_seconds();
    train_steps(r);
    choose_step_count(r, begun, r->simulation->n_steps, timed_seconds);
    wait_for_all_ranks(r, r->number ? RK_OK : rk_trace_start_summing());
    r->n_samples = r->n_batches = 0;
    begun = rk_clock_seconds();
    train_steps(r);
    r->seconds = rk_clock_seconds() - begun;
}

static void *simulated_rank_thread(void *context) {
    simulated_rank *r = context;
    (void)rk_parallel_set_serial(true);
    pthread_mutex_lock(&r->simulation->start);
    pthread_mutex_unlock(&r->simulation->start);
    if (!r->simulation->failed) run_simulated_rank(r);
    return NULL;
}

/* None begins before all threads are there: a barrier waits for every one. */
static rk_status run_ranks_in_threads(simulation *s) {
    int32_t n_started = 0;
    pthread_mutex_lock(&s->start);
    for (; n_started < s->trial_run->n_simulated_ranks; n_started++)
        if (pthread_create(&s->ranks[n_started].thread, NULL, simulated_rank_thread, &s->ranks[n_started]) !=
            0)
            break;
    bool all = n_started == s->trial_run->n_simulated_ranks;
    s->failed = !all;
    pthread_mutex_unlock(&s->start);
    for (int32_t i = 0; i < n_started; i++) pthread_join(s->ranks[i].thread, NULL);
    RK_FAIL_IF(!all, RK_NO_MEMORY, "could not start a thread");
    return RK_OK;
}

static rk_status first_failed_rank(const simulation *s) {
    for (int32_t i = 0; i < s->trial_run->n_simulated_ranks; i++)
        if (s->ranks[i].status != RK_OK) return rk_error(s->ranks[i].status, "%s", s->ranks[i].error);
    return RK_OK;
}

/* Seconds of a whole batch of the run, in each part; what is in none is the rest. */
static void split_measured_time_by_part(const simulation *s) {
    rk_trial_run *r = s->trial_run;
    double n_batches = 0, wall = 0, known = 0, blocks = r->n_threads;
    for (int32_t i = 0; i < r->n_simulated_ranks; i++) {
        n_batches += (double)s->ranks[i].n_samples / (double)s->plan->request.batch_size;
        wall += s->ranks[i].seconds;
    }
    r->seconds = wall / n_batches;
    r->n_steps = s->ranks[0].n_batches;
    for (int i = 0; i < N_SPANS; i++) {
        if (!(s->plan->n_ranks > 1 ? spans[i].of_many : spans[i].of_one)) continue;
        double seconds = rk_trace_seconds(spans[i].name) / n_batches / (spans[i].in_blocks ? blocks : 1);
        r->parts[spans[i].part] += seconds;
        known += seconds;
    }
    r->parts[RK_PLAN_PART_REST] = fmax(r->seconds - known, 0);
}

static void release_simulation(simulation *s) {
    for (int32_t i = 0; i < s->trial_run->n_simulated_ranks && s->ranks; i++) {
        simulated_rank *r = &s->ranks[i];
        if (r->model) rk_local_batch_release(r->model, &r->local_batch);
        rk_model_free(r->model);
        rk_dataset_free(r->dataset);
        rk_comm_free(r->comm);
    }
    pthread_barrier_destroy(&s->barrier);
    pthread_mutex_destroy(&s->start);
    rk_free(s->ranks);
}

rk_status rk_plan_trial_run(const rk_plan *plan, rk_trial_run *r) {
    simulation s = {.plan = plan, .trial_run = r, .n_steps = WARM_STEPS};
    pthread_mutex_init(&s.start, NULL);
    pthread_barrier_init(&s.barrier, NULL, (unsigned)r->n_simulated_ranks);
    rk_status status;
    RK_GOTO(rk_alloc((size_t)r->n_simulated_ranks, sizeof *s.ranks, &s.ranks));
    for (int32_t i = 0; i < r->n_simulated_ranks; i++) {
        s.ranks[i].simulation = &s;
        s.ranks[i].number = i;
    }
    if (r->n_simulated_ranks > 1)
        RK_GOTO(run_ranks_in_threads(&s));
    else
        run_simulated_rank(&s.ranks[0]);
    status = first_failed_rank(&s);
    if (status == RK_OK) split_measured_time_by_part(&s);
    rk_status stopped = rk_trace_stop();
    if (status == RK_OK) status = stopped;
done:
    release_simulation(&s);
    return status;
}
