/* A page about one run, or several side by side: docs/reports.md.
 * Experimental: it may change in any release (docs/api.md). */
#ifndef RECKON_EXPERIMENTAL_REPORT_H
#define RECKON_EXPERIMENTAL_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_report_options {
    size_t struct_size;
    const char *split;  /* "valid" (NULL), "test", or a labelled file of the same columns */
    int64_t n_rows;     /* of the split, its first so many; 0: all */
    int32_t n_features; /* the most important so many are shown; 0: importance is not measured */
    int32_t n_repeats;  /* permutations of each feature */
    uint64_t seed;      /* of the permutations */
    void (*on_stage)(void *user, const char *message); /* what begins; may be NULL */
    void *user;
    const char *device; /* that predicts, as rk_predictor_open; NULL: what the run was trained on */
} rk_report_options;
#define RK_REPORT_OPTIONS_INIT \
    { sizeof(rk_report_options), 0, 100000, 30, 3, 1, 0, 0, 0 }

/* One HTML file, whole or not at all, that needs nothing beside itself. directories [n]: what runs wrote
 * (train.output), each with a log and a checkpoint. */
RK_API rk_status rk_report_write(const char *const *directories, size_t n, const rk_report_options *options,
                                 const char *path);

#ifdef __cplusplus
}
#endif
#endif
