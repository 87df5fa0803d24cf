/* Rankings of all items: how recall, ndcg and hits grow with the cut. */
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/text/text.h"
#include "report/chart/chart.h"
#include "report/report_internal.h"

static rk_status draw_ranking_chart(const rk_report_run *runs, size_t n, int metric, const char *caption,
                                    rk_buffer *out) {
    double cuts[RK_REPORT_CUTS];
    char title[64];
    RK_AUTOFREE rk_series *series = NULL;
    size_t n_series = 0;
    for (int k = 0; k < RK_REPORT_CUTS; k++) cuts[k] = rk_report_cuts[k];
    RK_TRY(rk_alloc(n, sizeof *series, &series));
    for (size_t r = 0; r < n; r++)
        if (runs[r].ranks && runs[r].n_rows)
            series[n_series++] = (rk_series){.name = runs[r].name,
                                             .colour = (int)(r % RK_CHART_COLOURS),
                                             .n = RK_REPORT_CUTS,
                                             .x = cuts,
                                             .y = runs[r].ranking.values[metric]};
    snprintf(title, sizeof title, "%s@k", rk_report_rankings[metric]);
    rk_chart chart = {.title = title,
                      .width = 480,
                      .height = 300,
                      .x = {.title = "k", .log = true},
                      .series = series,
                      .n_series = n_series};
    rk_report_figure_begin(out);
    rk_chart_draw(&chart, 0, 0, out);
    rk_report_figure_end(caption, out);
    return RK_OK;
}

rk_status rk_report_write_ranking_section(const rk_report_run *runs, size_t n, rk_buffer *out) {
    static const char *const captions[RK_REPORT_RANKINGS] = {
        "The share of a user's items that is among the first k.",
        "The same, where an item counts the less the further down it stands.",
        "The share of users that find one of their items or more among the first k."};
    RK_AUTOFREE char(*notes)[32] = NULL;
    RK_TRY(rk_alloc(n, sizeof *notes, &notes));
    for (size_t r = 0; r < n; r++)
        if (runs[r].ranks && runs[r].n_rows)
            rk_snprintf(notes[r], sizeof notes[r], "%s %.4f", runs[r].ranking.shown[0].name,
                        runs[r].ranking.shown[0].value);
    rk_report_write_legend(runs, n, notes, out);
    rk_buffer_append_text(out, "<div class=\"charts\">\n");
    for (int m = 0; m < RK_REPORT_RANKINGS; m++) RK_TRY(draw_ranking_chart(runs, n, m, captions[m], out));
    rk_buffer_append_text(out, "</div>\n");
    return RK_OK;
}
