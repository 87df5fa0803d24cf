/* What a page is put together from. */
#ifndef RK_REPORT_REPORT_INTERNAL_H
#define RK_REPORT_REPORT_INTERNAL_H

#include "report/report_run.h"

/* Names that several runs share, each once, in the order in which they come. They point to where they were
 * found. */
typedef struct rk_report_names {
    const char **names; /* [n] rk_free */
    size_t n, capacity;
} rk_report_names;
rk_status rk_report_names_add(rk_report_names *names, const char *name);
void rk_report_names_release(rk_report_names *names);

/* The page's parts. */
rk_status rk_report_write_table(const rk_report_run *runs, size_t n, const rk_report_names *tasks,
                                const char *split, rk_buffer *out);
rk_status rk_report_write_learning_section(const rk_report_run *runs, size_t n, rk_buffer *out);
rk_status rk_report_write_ranking_section(
    const rk_report_run *runs, size_t n,
    rk_buffer *out); /* recall, ndcg and hits over cuts, of the runs that rank */
rk_status rk_report_write_task_section(const rk_report_run *runs, size_t n, const char *task,
                                       rk_buffer *out); /* ROC curve and calibration */
rk_status rk_report_write_importance_section(const rk_report_run *runs, size_t n, const char *task,
                                             int32_t n_features, rk_buffer *out);
const rk_report_task *rk_report_find_task(const rk_report_run *run, const char *name,
                                          int32_t *index); /* NULL: the run has it not; index may be NULL */

/* The metric that the last part of a logged name is, of predictions or of rankings; -1: none. */
int rk_report_metric_of_logged_name(const char *logged);

/* Which colour is which run, with what `note` [n] says of each (or NULL). Nothing for one run without a
 * note. */
void rk_report_write_legend(const rk_report_run *runs, size_t n, char (*notes)[32], rk_buffer *out);
void rk_report_figure_begin(rk_buffer *out);
void rk_report_figure_end(const char *caption, rk_buffer *out); /* caption: HTML, or NULL */

#endif
