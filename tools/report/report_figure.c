#include <string.h>

#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/text/markup_escape.h"
#include "report/chart/chart.h"
#include "report/report_internal.h"
#include "report/chart/svg.h"

const rk_report_task *rk_report_find_task(const rk_report_run *run, const char *name, int32_t *index) {
    for (int32_t k = 0; k < run->n_tasks; k++) {
        if (strcmp(run->tasks[k].name, name) != 0) continue;
        if (index) *index = k;
        return &run->tasks[k];
    }
    return NULL;
}

void rk_report_names_release(rk_report_names *names) {
    rk_free(names->names);
}

rk_status rk_report_names_add(rk_report_names *names, const char *name) {
    if (rk_text_is_one_of(name, names->names, names->n)) return RK_OK;
    RK_TRY(rk_reserve_one_more(&names->names, names->n, &names->capacity, sizeof *names->names));
    names->names[names->n++] = name;
    return RK_OK;
}

int rk_report_metric_of_logged_name(const char *logged) {
    const char *last = strrchr(logged, '/') + 1;
    int metric = rk_metric_find(last);
    return metric < 0 ? rk_ranking_metric_find(last) : metric;
}

void rk_report_figure_begin(rk_buffer *out) {
    rk_buffer_append_text(out, "<figure>\n");
}

void rk_report_figure_end(const char *caption, rk_buffer *out) {
    if (caption) rk_buffer_printf(out, "<figcaption>%s</figcaption>\n", caption);
    rk_buffer_append_text(out, "</figure>\n");
}

void rk_report_write_legend(const rk_report_run *runs, size_t n, char (*notes)[32], rk_buffer *out) {
    if (n < 2 && !notes) return;
    rk_buffer_append_text(out, "<p class=\"legend\">");
    for (size_t r = 0; r < n; r++) {
        size_t k = r % RK_CHART_COLOURS;
        rk_buffer_printf(out,
                         "<span><svg class=\"chart key\" width=\"22\" height=\"10\"><path class=\"line c%zu "
                         "d%zu\" d=\"M1 5h20\"/></svg>",
                         k, k);
        rk_markup_escape(runs[r].name, out);
        if (notes) rk_buffer_printf(out, " <b>%s</b>", notes[r]);
        rk_buffer_append_text(out, "</span> ");
    }
    rk_buffer_append_text(out, "</p>\n");
}
