/* Where a run's tables would be on a cluster, whether they fit, and about how fast it would train:
 * docs/planning.md.
 * Experimental: it may change in any release (docs/api.md). */
#ifndef RECKON_EXPERIMENTAL_PLAN_H
#define RECKON_EXPERIMENTAL_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <reckon/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_plan rk_plan;

typedef struct rk_plan_options {
    size_t struct_size;
    const char *cluster; /* path of a cluster file; NULL: this machine */
    int32_t n_ranks;     /* the cluster's first so many ranks; 0: all, or one on this machine */
    bool measure; /* time steps of the run on this machine, with its tables in memory; what the cluster file
                     leaves out is as this machine's, as without a file */
    bool sample;  /* count ids in the training data; else the loads of tables are assumed */
    int64_t sample_rows; /* so many rows of it, in whole batches; 0: all */
} rk_plan_options;
#define RK_PLAN_OPTIONS_INIT \
    { sizeof(rk_plan_options), 0, 0, false, false, 0 }

/* Every table is placed, or it fails. A plan may still not fit into memory. The config must outlive the
 * plan. */
RK_API rk_status rk_plan_make(const rk_config *config, const rk_plan_options *options, rk_plan **out);
RK_API void rk_plan_free(rk_plan *plan);

/* RK_OK, or RK_NO_MEMORY with the rank that would hold too much and what would fit. */
RK_API rk_status rk_plan_check(const rk_plan *plan);

/* What `reckon plan` prints. Free with rk_text_free. */
RK_API rk_status rk_plan_to_text(const rk_plan *plan, char **out);
RK_API rk_status rk_plan_to_json(const rk_plan *plan, char **out);
/* A file that cluster.plan of a run file names. */
RK_API rk_status rk_plan_write(const rk_plan *plan, const char *path);

#ifdef __cplusplus
}
#endif
#endif
