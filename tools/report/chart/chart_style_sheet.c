#include "report/chart/chart.h"

/* Hues that stay apart for people with any of the common colour deficiencies: M. Okabe and K. Ito, "Color
 * Universal Design", 2008; made darker on light ground and lighter on dark ground until each has a contrast
 * of about 3 or more. */
#define LIGHT                                                                                           \
    "--paper:#ffffff;--ink:#1b1f24;--soft:#57606a;--faint:#e6e9ec;--rule:#c4cad0;--wash:#f6f8fa;"       \
    "--s0:#0072b2;--s1:#d55e00;--s2:#00875f;--s3:#b04a8a;--s4:#a87900;--s5:#2f97d0;--s6:#6b6f76;--s7:#" \
    "7552b8"
#define DARK                                                                                            \
    "--paper:#14181c;--ink:#e7eaed;--soft:#9aa5b0;--faint:#272d33;--rule:#434c55;--wash:#1b2026;"       \
    "--s0:#56b4e9;--s1:#f58a4b;--s2:#35c79b;--s3:#e08fc4;--s4:#e6b93c;--s5:#a3d4f2;--s6:#aab1b9;--s7:#" \
    "b49af0"

void rk_chart_write_style_sheet(rk_buffer *out) {
    rk_buffer_append_text(
        out,
        ":root{color-scheme:light dark;" LIGHT
        "}\n"
        "@media (prefers-color-scheme:dark){:root{" DARK
        "}}\n"
        ".chart text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica "
        "Neue',Arial,sans-serif;font-size:12px;fill:var(--ink)}\n"
        ".chart .title{font-size:13px;font-weight:600}\n"
        ".chart .tick,.chart .small{font-size:11px;fill:var(--soft);font-variant-numeric:tabular-nums}\n"
        ".chart .small{font-size:10px}.chart .name{fill:var(--soft)}\n"
        ".chart .grid{stroke:var(--faint)}.chart .axis{stroke:var(--rule)}\n"
        ".chart .guide{stroke:var(--soft);stroke-dasharray:3 4}\n"
        ".chart .line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n"
        ".chart .pale{fill:none;stroke:var(--c);stroke-width:1.25;stroke-linejoin:round;opacity:.5}\n"
        ".chart .dot{fill:var(--c);stroke:var(--paper);stroke-width:1}\n"
        ".chart .ring{fill:var(--paper);stroke:var(--c);stroke-width:2.25}\n"
        ".chart .spread{stroke:var(--c);stroke-width:1.5;opacity:.45}\n"
        ".chart .bar{fill:var(--c)}.chart .whisker{stroke:var(--ink);stroke-width:1.25;opacity:.65}\n");
    for (int k = 0; k < RK_CHART_COLOURS; k++) rk_buffer_printf(out, ".c%d{--c:var(--s%d)}", k, k);
    /* Paper may be grey: there lines differ by their dashes too. */
    rk_buffer_append_text(out,
                          "\n@media print{:root{color-scheme:light;" LIGHT
                          "}.d1{stroke-dasharray:8 4}.d2{stroke-dasharray:2 4}.d3{stroke-dasharray:10 3 2 3}"
                          ".d4{stroke-dasharray:5 3}.d5{stroke-dasharray:1 3}.d6{stroke-dasharray:14 "
                          "4}.d7{stroke-dasharray:6 3 1 3 1 3}}\n");
}
