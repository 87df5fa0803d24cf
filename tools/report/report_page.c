#include "report/report_page.h"

#include <string.h>

#include <reckon/version.h>

#include "base/memory.h"
#include "base/text/markup_escape.h"
#include "report/chart/chart.h"
#include "report/report_internal.h"
#include "report/chart/svg.h"

static void write_style_sheet(rk_buffer *out) {
    rk_buffer_append_text(out, "<style>\n");
    rk_chart_write_style_sheet(out);
    rk_buffer_append_text(
        out,
        "*{box-sizing:border-box}\n"
        "body{margin:0 auto;max-width:1080px;padding:44px 32px 64px;background:var(--paper);color:var(--ink);"
        "font:15px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\n"
        "h1{font-size:27px;line-height:1.25;font-weight:650;letter-spacing:-.012em;margin:0;overflow-wrap:"
        "anywhere}\n"
        "h2{font-size:19px;font-weight:650;margin:52px 0 6px}\n"
        ".lead,.note,figcaption,footer{color:var(--soft)}.lead{margin:6px 0 "
        "30px}.note,footer{font-size:13px}\n"
        "footer{margin-top:56px;padding-top:14px;border-top:1px solid var(--faint)}\n"
        ".wide{overflow-x:auto}\n"
        "table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums;min-width:min(100%,"
        "480px)}\n"
        "th,td{padding:5px 0 5px 36px;border-bottom:1px solid "
        "var(--faint);text-align:right;white-space:nowrap;vertical-align:top}\n"
        "th:first-child{padding-left:0;text-align:left;font-weight:400;color:var(--soft)}\n"
        "thead th.run{font-weight:600;padding-bottom:8px}tr.group "
        "th{font-weight:600!important;color:var(--ink)!important;padding-top:22px;border-bottom-color:var(--"
        "rule)}\n"
        "thead th{border-bottom-color:var(--rule)}td.best{font-weight:650}td.none{color:var(--soft)}\n"
        ".swatch{display:inline-block;width:10px;height:10px;border-radius:50%;background:var(--c);margin-"
        "right:8px;print-color-adjust:exact;-webkit-print-color-adjust:exact}\n"
        ".legend{display:flex;flex-wrap:wrap;gap:4px 24px;font-size:13.5px;margin:6px 0 0}.legend "
        "b{font-weight:600;margin-left:4px;font-variant-numeric:tabular-nums}\n"
        ".legend .key{width:22px;height:10px;margin-right:8px;display:inline-block;vertical-align:baseline}\n"
        ".charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(440px,100%),1fr));gap:34px "
        "44px;margin-top:22px}\n"
        "figure{margin:0;break-inside:avoid}figure+figure{margin:0}.charts+figure{margin-top:40px}\n"
        ".charts "
        "svg.chart{max-width:560px}svg.chart{display:block;width:100%;height:auto}figcaption{font-size:13px;"
        "line-height:1.5;margin-top:8px;max-width:74ch}\n"
        "@media "
        "print{body{max-width:none;padding:0;font-size:11pt}h2{break-after:avoid}.charts{grid-template-"
        "columns:1fr 1fr;gap:20px 24px}.wide{overflow:visible}"
        "table{font-size:9.5pt}th,td{padding-left:20px;white-space:normal}@page{margin:16mm}}\n"
        "</style>\n");
}

static void write_names_of_runs(const rk_report_run *runs, size_t n, rk_buffer *out) {
    for (size_t r = 0; r < n; r++) {
        if (r) rk_buffer_append_text(out, r + 1 == n ? " and " : ", ");
        rk_markup_escape(runs[r].name, out);
    }
}

static void write_page_head(const rk_report_run *runs, size_t n, rk_buffer *out) {
    rk_buffer_append_text(out,
                          "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
                          "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
    write_names_of_runs(runs, n, out);
    rk_buffer_append_text(out, "</title>\n");
    write_style_sheet(out);
    rk_buffer_append_text(out, "</head>\n<body>\n<h1>");
    write_names_of_runs(runs, n, out);
    rk_buffer_append_text(out, "</h1>\n");
}

static void write_introduction(const rk_report_run *runs, size_t n, const char *split, rk_buffer *out) {
    int64_t n_rows = 0;
    for (size_t r = 0; r < n; r++) n_rows = runs[r].n_rows > n_rows ? runs[r].n_rows : n_rows;
    if (n_rows == 0) {
        rk_buffer_append_text(
            out, "<p class=\"lead\">No run has validation data: here is what they logged.</p>\n");
        return;
    }
    rk_buffer_append_text(out, n == 1 ? "<p class=\"lead\">A training run of Reckon, looked at on "
                                      : "<p class=\"lead\">Training runs of Reckon, looked at on ");
    rk_markup_escape(split, out);
    rk_buffer_append_text(out, " data.</p>\n");
}

static rk_status write_task_section(const rk_report_run *runs, size_t n, const char *name, bool alone,
                                    const char *split, int32_t n_features, rk_buffer *out) {
    rk_buffer_append_text(out, "<h2>");
    if (!alone) rk_markup_escape(name, out);
    rk_buffer_append_text(out, alone ? "Predictions of " : ": predictions of ");
    rk_markup_escape(split, out);
    rk_buffer_append_text(out, " data</h2>\n");
    RK_TRY(rk_report_write_task_section(runs, n, name, out));
    return rk_report_write_importance_section(runs, n, name, n_features, out);
}

/* Of runs that rank, whose rankings come under one heading. */
static rk_status write_ranking_section(const rk_report_run *runs, size_t n, const char *split,
                                       rk_buffer *out) {
    rk_buffer_append_text(out, "<h2>Rankings of all items, for the users of ");
    rk_markup_escape(split, out);
    rk_buffer_append_text(out, " data</h2>\n");
    return rk_report_write_ranking_section(runs, n, out);
}

static rk_status write_body(const rk_report_run *runs, size_t n, const rk_report_names *tasks,
                            const char *split, int32_t n_features, rk_buffer *out) {
    bool has_rows = false, has_rankings = false;
    for (size_t r = 0; r < n; r++) {
        has_rows = has_rows || (runs[r].n_rows && !runs[r].ranks);
        has_rankings = has_rankings || (runs[r].n_rows && runs[r].ranks);
    }
    write_page_head(runs, n, out);
    write_introduction(runs, n, split, out);
    RK_TRY(rk_report_write_table(runs, n, tasks, split, out));
    RK_TRY(rk_report_write_learning_section(runs, n, out));
    for (size_t k = 0; has_rows && k < tasks->n; k++)
        RK_TRY(write_task_section(runs, n, tasks->names[k], tasks->n == 1, split, n_features, out));
    if (has_rankings) RK_TRY(write_ranking_section(runs, n, split, out));
    rk_buffer_printf(out,
                     "<footer>Written by reckon %s. What each picture shows: "
                     "docs/reports.md.</footer>\n</body>\n</html>\n",
                     rk_version());
    return out->status;
}

rk_status rk_report_write_page(const rk_report_run *runs, size_t n, const char *split, int32_t n_features,
                               rk_buffer *out) {
    rk_report_names tasks = {0};
    rk_status status = RK_OK;
    for (size_t r = 0; r < n; r++)
        for (int32_t k = 0; status == RK_OK && k < runs[r].n_tasks; k++)
            status = rk_report_names_add(&tasks, runs[r].tasks[k].name);
    if (status == RK_OK) status = write_body(runs, n, &tasks, split, n_features, out);
    rk_free(tasks.names);
    return status;
}
