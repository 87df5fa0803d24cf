/* Inside a plan: what the files of this folder share. */
#ifndef RK_TRAIN_PLAN_PLAN_INTERNAL_H
#define RK_TRAIN_PLAN_PLAN_INTERNAL_H

#include <reckon/experimental/plan.h>

#include "embedding/config/embedding_config.h"
#include "embedding/planner/lookup_counter.h"
#include "embedding/planner/sharding_planner.h"
#include "model/model.h"
#include "train/plan/cluster_file.h"
#include "train/config/run_config.h"

/* What a rank's memory is taken by. */
#define RK_PLAN_MEMORY_LIST(X) \
    X(OWNED, "tables") X(REPLICATED, "replicated") X(DENSE, "dense") X(BUFFERS, "buffers") X(DATA, "data")
#define RK_PLAN_ENUM(name, text) RK_PLAN_MEMORY_##name,
typedef enum rk_plan_memory { RK_PLAN_MEMORY_LIST(RK_PLAN_ENUM) RK_PLAN_MEMORY_COUNT } rk_plan_memory;
#undef RK_PLAN_ENUM

/* The parts of a step, in their order. READ is waiting for it; REST is what is measured and belongs to no
 * other part. */
// clang-format off
#define RK_PLAN_PART_LIST(X)    \
    X(READ, "wait for reading") \
    X(DEDUP, "dedup")           \
    X(IDS, "exchange ids")      \
    X(LOOKUP, "lookup")         \
    X(ROWS, "exchange rows")    \
    X(DENSE, "dense")           \
    X(ALL_REDUCE, "all-reduce") X(GRADIENTS, "exchange gradients") X(UPDATE, "update") X(REST, "rest")
// clang-format on
#define RK_PLAN_ENUM(name, text) RK_PLAN_PART_##name,
typedef enum rk_plan_part { RK_PLAN_PART_LIST(RK_PLAN_ENUM) RK_PLAN_PART_COUNT } rk_plan_part;
#undef RK_PLAN_ENUM
extern const char *const rk_plan_part_names[RK_PLAN_PART_COUNT],
    *const rk_plan_memory_names[RK_PLAN_MEMORY_COUNT];

typedef struct rk_plan_rank {
    double bytes[RK_PLAN_MEMORY_COUNT], all_bytes;
    double parts[RK_PLAN_PART_COUNT]; /* seconds of its own work in a step, without waiting for others */
    double seconds;                   /* their sum, without reading */
    double reduce_beside;             /* of the all-reduce, what goes on beside the dense part */
} rk_plan_rank;

/* The dense part of the model, and what a sample is. */
typedef struct rk_plan_dense {
    double flops;                /* of a sample, in training */
    double parameters, bytes;    /* bytes: weights, also packed, gradients, slots */
    double sent_bytes;           /* of the gradients, as they travel */
    int64_t layer_in, layer_out; /* the largest linear layer */
    double width;                /* values of all embeddings of a sample */
    double sample_bytes;         /* as read; ids are counted with the loads */
} rk_plan_dense;

/* The time of parts in a trial run, divided by that of the machine's limits; 1 without a trial run. */
typedef struct rk_plan_calibration {
    double factors[RK_PLAN_PART_COUNT]; /* of those that are a rank's own */
    double wait, rest;                  /* seconds a step: for reading, and of no part */
    int64_t n_steps;                    /* of the trial run; 0: none */
} rk_plan_calibration;

typedef struct rk_plan_step {
    double parts[RK_PLAN_PART_COUNT]; /* the slowest rank's */
    double seconds, samples_per_second;
    double reduce_beside;  /* the least of all trainers' */
    double balance;        /* the busiest rank's seconds over the mean of those of its role */
    double price_per_hour; /* NaN: not known */
} rk_plan_step;

struct rk_plan {
    rk_config *config;               /* a copy of the caller's, */
    const rk_transforms *transforms; /* whose these are */
    rk_cluster_file cluster;
    rk_machine *machines;         /* [n_ranks] */
    rk_rank_capacity *capacities; /* [n_ranks]: what is left of memory for tables of its own */
    int32_t n_ranks;              /* that train or hold rows */
    int32_t
        n_readers; /* of the cluster's ranks, behind those: they only read, and nothing is planned of them */
    bool overlaps; /* exchanges and updates run beside the dense part: stale */
    bool asynchronous; /* the all-reduce too */
    rk_collection_config tables;
    rk_planner_request request;
    rk_table_statistics *loads; /* [n_tables] */
    rk_lookup_counter *count;   /* that the loads are of; NULL: they are assumed */
    int64_t sampled_rows;       /* 0: loads are assumed */
    int64_t train_rows;         /* of the training data; -1: not known */
    rk_plan_dense dense;
    struct rk_plan_here {
        double memory_speed, flops; /* of this machine, all cores; 0: not measured */
    } here;
    rk_plan_calibration calibration;
    double data_bytes;              /* that reading takes at most, of a trainer */
    rk_table_placement *placements; /* [n_tables] */
    rk_plan_rank *ranks;            /* [n_ranks] */
    rk_plan_step step;
    int32_t fullest; /* the rank with the largest share of its memory taken */
    char *advice;    /* lines; NULL where the plan fits */
};

static inline bool rk_plan_trains(const rk_plan *plan, int32_t rank) {
    return rank < plan->request.roles.n_trainers;
}
static inline bool rk_plan_owns(const rk_plan *plan, int32_t rank) {
    return plan->request.roles.n_owners == 0 || rank >= plan->request.roles.n_trainers;
}
static inline bool rk_plan_fits(const rk_plan *plan) {
    return plan->ranks[plan->fullest].all_bytes <= plan->machines[plan->fullest].capacity.memory_bytes;
}
/* What rows and slots, once, and keys of them take of memory: of a table that is placed on all its owners
 * together, else on one; and a slice of a part. */
double rk_plan_table_bytes(const rk_plan *plan, int32_t table);
double rk_plan_part_bytes(const rk_plan *plan, int32_t table, int32_t part);
/* Ids that a table's features can have; 0: they are keys, any 64 bits. */
int64_t rk_plan_nominal_rows(const rk_plan *plan, int32_t table);

/* What the plan is of: tables, dense part. */
rk_status rk_plan_describe_run(rk_plan *plan);

/* Tables of more than `least` rows have `times` times fewer, but `least` or more. */
typedef struct rk_row_reduction {
    int64_t least, times;
} rk_row_reduction;
static inline int64_t rk_reduced_rows(rk_row_reduction reduction, int64_t n) {
    if (n <= reduction.least) return n;
    return n / reduction.times > reduction.least ? n / reduction.times : reduction.least;
}
/* The run's model with fewer rows; schema and embedding of the options are replaced. */
rk_status rk_plan_build_model(const rk_config *config, const rk_data_schema *schema,
                              rk_row_reduction reduction, rk_model_options options, rk_model **out);

/* Ranks of this machine, all of whose cores they take, train some steps of the run, each its share of the
 * batches and nothing but it: no messages. */
typedef struct rk_trial_run {
    int32_t n_simulated_ranks; /* ranks at the same time */
    int n_threads;             /* of each; more than 1 only where it runs alone */
    rk_row_reduction reduction;
    double seconds, parts[RK_PLAN_PART_COUNT]; /* of a step, mean of the ranks */
    int64_t n_steps;
} rk_trial_run;
rk_status rk_plan_trial_run(const rk_plan *plan, rk_trial_run *r); /* given: ranks, threads and rows */

/* This machine's limits for what the cluster file leaves out, and the plan's calibration by a trial run.
 * After rk_plan_set_ranks and loads. */
rk_status rk_plan_measure_limits(rk_plan *plan);
rk_status rk_plan_calibrate(rk_plan *plan);
rk_plan_calibration rk_plan_neutral_calibration(void);
/* Loads by counting the training data. */
rk_status rk_plan_sample(rk_plan *plan, int64_t n_rows);
/* The cluster's ranks, n_ranks of them (readers among them) or all, with room for what is found out about
 * each. */
rk_status rk_plan_set_ranks(rk_plan *plan, int32_t n_ranks);
void rk_plan_release_ranks(rk_plan *plan); /* with the placements on them; before the plan is freed */
/* What reading takes at most of a trainer, if data.cache_bytes were cache_bytes. */
double rk_plan_data_bytes(const rk_plan *plan, int64_t cache_bytes);
/* Placements for the plan's tables, loads and ranks, in place of what was there, with memory and time. */
rk_status rk_plan_place_tables(rk_plan *plan);
rk_status rk_plan_estimate_cost(rk_plan *plan);
/* An assertion: every value of every table has one place. RK_INTERNAL names the table. */
rk_status rk_plan_check_coverage(const rk_plan *plan);
/* For a plan that does not fit: its advice. */
rk_status rk_plan_advise(rk_plan *plan);

/* "12.0 TB": powers of ten, as memory of clusters is counted. */
typedef struct rk_size_text {
    char text[32];
} rk_size_text;
rk_size_text rk_format_size(double bytes);

#endif
