/* Training steps of a run, timed by stage through the spans of the trace. */
#include <reckon/experimental/profile.h>

#include <math.h>
#include <string.h>

#include "base/thread/clock.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"
#include "base/thread/trace.h"
#include "data/dataset/dataset.h"
#include "train/run/roofline.h"
#include "train/config/run_config.h"

enum { USUAL_STEPS = 20, TURNS = 4 };

/* The stages of a step. Those of a block are run by all threads at once. */
typedef struct stage_name {
    const char *name; /* NULL: behind the last */
    bool in_blocks;
} stage_name;
static const stage_name stages_of_cpu[] = {
    {"read", false},        {"dedup", false},        {"prepare", false},  {"lookup", true},
    {"forward", true},      {"backward", true},      {"gradients", true}, {"sum gradients", true},
    {"update rows", false}, {"update dense", false}, {NULL, false}};
/* A GPU's own work is one stretch of launches, which the host only waits for. */
static const stage_name stages_of_cuda[] = {{"read", false},
                                            {"send", false},
                                            {"wait for ids", false},
                                            {"launch", false},
                                            {"wait for the device", false},
                                            {NULL, false}};

typedef struct profiling {
    rk_dataset *dataset;
    rk_model *model;
    const stage_name *stages;
    int64_t n_samples, n_steps;
    double wall,
        seconds[RK_PROFILE_STAGES]; /* of the steps that are timed; of their stages, added up over threads */
    rk_roofline *gather, *gemm;     /* NULL: of no use to the model */
} profiling;

static rk_status train_steps(profiling *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const rk_batch *batch;
        double loss;
        uint64_t begin = rk_trace_begin();
        RK_TRY(rk_dataset_next_endless(p->dataset, &batch));
        rk_trace_end(begin, "read");
        RK_TRY(rk_model_train(p->model, batch, &loss));
        p->n_samples += batch->n;
        p->n_steps++;
    }
    double loss;
    bool left;
    return rk_model_finish_oldest_batch(p->model, &loss, &left);
}

/* What threads spent in blocks, scaled to the wall time that is left beside the other stages. */
static void scale_block_times(const profiling *p, rk_profile *out) {
    double alone = 0, in_blocks = 0;
    int n = 0;
    for (; p->stages[n].name; n++) *(p->stages[n].in_blocks ? &in_blocks : &alone) += p->seconds[n];
    double left = p->wall - alone > 0 ? p->wall - alone : 0, threads = rk_parallel_threads();
    double blocks = in_blocks / threads < left ? in_blocks / threads : left;
    for (int i = 0; i < n; i++) {
        double seconds = p->seconds[i];
        if (p->stages[i].in_blocks) seconds = in_blocks > 0 ? seconds / in_blocks * blocks : 0;
        out->stages[i] = (rk_profile_stage){
            .name = p->stages[i].name, .seconds = seconds / (double)out->n_steps, .unit = "B"};
    }
    out->stages[n] =
        (rk_profile_stage){.name = "other", .seconds = (left - blocks) / (double)out->n_steps, .unit = "B"};
}

static rk_profile_stage *find_or_add_stage(rk_profile *out, const char *name) {
    int i = 0;
    while (strcmp(out->stages[i].name, name) != 0) i++;
    return &out->stages[i];
}

static void set_stage_work(rk_profile *out, const char *name, double work, double limit, const char *unit) {
    rk_profile_stage *s = find_or_add_stage(out, name);
    s->work = work;
    s->limit = limit;
    s->unit = unit;
}

/* What this machine reaches at what the model does, a turn at a time beside the steps. */
static rk_status create_rooflines(profiling *p) {
    rk_model_work work = rk_model_estimate_work(p->model, 0);
    if (p->stages != stages_of_cpu) return RK_OK;
    if (work.row_dim) RK_TRY(rk_roofline_create_gather(work.row_dim, work.table_bytes, &p->gather));
    return work.layer_in ? rk_roofline_create_gemm(work.layer_in, work.layer_out, &p->gemm) : RK_OK;
}

static rk_status run_roofline_turns(const profiling *p) {
    if (p->gather) RK_TRY(rk_roofline_run_turn(p->gather));
    return p->gemm ? rk_roofline_run_turn(p->gemm) : RK_OK;
}

/* What the stages moved, and what the machine reached. */
static void set_stage_limits(const profiling *p, rk_profile *out) {
    rk_model_work work = rk_model_estimate_work(p->model, out->batch_size);
    out->n_ids = work.n_ids;
    out->n_rows = work.n_rows;
    if (p->gather) out->gather_limit = rk_roofline_mean_rate(p->gather);
    if (p->gemm) out->gemm_limit = rk_roofline_mean_rate(p->gemm);
    out->limits_spread =
        fmax(p->gather ? rk_roofline_spread(p->gather) : 1, p->gemm ? rk_roofline_spread(p->gemm) : 1);
    set_stage_work(out, "lookup", (double)work.lookup_bytes, out->gather_limit, "B");
    set_stage_work(out, "update rows", (double)work.update_bytes, out->gather_limit, "B");
    set_stage_work(out, "forward", work.flops / 3, out->gemm_limit, "F");
    set_stage_work(out, "backward", work.flops / 3 * 2, out->gemm_limit, "F");
}

/* Steps that are timed. */
static rk_status train_and_time_steps(profiling *p, int64_t n) {
    RK_TRY(rk_trace_start_summing());
    double begin = rk_clock_seconds();
    rk_status status = train_steps(p, n);
    p->wall += rk_clock_seconds() - begin;
    for (int i = 0; p->stages[i].name; i++) p->seconds[i] += rk_trace_seconds(p->stages[i].name);
    rk_status stopped = rk_trace_stop();
    return status == RK_OK ? stopped : status;
}

/* Turns of steps and of limits: on a machine that others use too, both meet the same. The reader goes on
 * meanwhile, so each turn of steps begins with some that are not timed. */
static rk_status measure_steps(profiling *p, int64_t n_steps, int64_t n_warmup, rk_profile *out) {
    int64_t n_turns = n_steps < TURNS ? n_steps : TURNS;
    for (int64_t turn = 0; turn < n_turns; turn++) {
        int64_t n_timed = p->n_steps, n_samples = p->n_samples;
        RK_TRY(train_steps(p, n_warmup));
        p->n_steps = n_timed;
        p->n_samples = n_samples;
        RK_TRY(train_and_time_steps(p, n_steps * (turn + 1) / n_turns - n_steps * turn / n_turns));
        if (turn == 0) RK_TRY(create_rooflines(p));
        RK_TRY(run_roofline_turns(p));
    }
    out->n_steps = p->n_steps;
    out->batch_size = p->n_samples / p->n_steps;
    out->seconds = p->wall / (double)p->n_steps;
    scale_block_times(p, out);
    if (p->stages == stages_of_cpu) set_stage_limits(p, out);
    return RK_OK;
}

static const size_t first_size = RK_SIZE_WITH(rk_profile, device);

rk_status rk_profile_run(const rk_config *config, int64_t n_steps, int64_t n_warmup, rk_profile *out) {
    RK_TRY(rk_options_check(out, first_size, "rk_profile"));
    RK_FAIL_IF(n_steps < 0 || n_warmup < 0, RK_INVALID_ARGUMENT,
               "a profile needs 0 or more steps, not %lld after %lld", (long long)n_steps,
               (long long)n_warmup);
    if (config->train.threads) RK_TRY(rk_parallel_set_threads((int)config->train.threads));
    bool on_device = config->device.kind == RK_DEVICE_CUDA;
    profiling p = {.stages = on_device ? stages_of_cuda : stages_of_cpu};
    rk_profile profile = RK_PROFILE_INIT;
    profile.device = on_device ? "cuda" : "cpu";
    rk_model_options options = {0};
    rk_status status;
    RK_GOTO(rk_dataset_open(config, "train", &p.dataset));
    RK_GOTO(rk_config_training_options(config, p.dataset, &options));
    rk_config_set_device(config, &options);
    RK_GOTO(rk_model_build(&options, &p.model));
    RK_GOTO(measure_steps(&p, n_steps ? n_steps : USUAL_STEPS, n_warmup, &profile));
    status = rk_options_copy_out(out, out->struct_size, &profile, sizeof profile, first_size, "rk_profile");
done:
    rk_interactions_unref(options.interactions);
    rk_roofline_free(p.gather);
    rk_roofline_free(p.gemm);
    rk_model_free(p.model);
    rk_dataset_free(p.dataset);
    return status;
}
