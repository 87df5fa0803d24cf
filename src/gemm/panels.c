#include "gemm/panels.h"

#include <string.h>

#include "base/memory.h"
#include "kernels/kernels.h"

rk_status rk_panels_init(rk_panels *panels, int64_t in, int64_t out) {
    int64_t n_panels = (out + RK_PANEL_COLUMNS - 1) / RK_PANEL_COLUMNS;
    *panels = (rk_panels){
        .in = in, .out = out, .n_bytes = (size_t)(n_panels * in * RK_PANEL_COLUMNS) * sizeof(rk_real)};
    return rk_pages_alloc(panels->n_bytes, &panels->values);
}

void rk_panels_release(rk_panels *panels) {
    rk_pages_free(panels->values, panels->n_bytes);
}

void rk_panels_set(rk_panels *panels, const rk_real *w) {
    rk_real *to = panels->values;
    for (int64_t c = 0; c < panels->out; c += RK_PANEL_COLUMNS) {
        int64_t left = panels->out - c;
        size_t n = (size_t)(left < RK_PANEL_COLUMNS ? left : RK_PANEL_COLUMNS);
        for (int64_t i = 0; i < panels->in; i++, to += RK_PANEL_COLUMNS)
            memcpy(to, w + i * panels->out + c, n * sizeof *to); /* the pages began as zeros */
    }
}

static rk_panel_product_args args_of(const rk_panels *panels, rk_lines lines, int64_t m, const rk_real *x,
                                     bool relu, rk_real *y) {
    return (rk_panel_product_args){.n = m,
                                   .in = lines.last - lines.first,
                                   .out = panels->out,
                                   .lines = panels->in,
                                   .x = x + lines.first,
                                   .w = panels->values + lines.first * RK_PANEL_COLUMNS,
                                   .relu = relu,
                                   .y = y};
}

void rk_panels_multiply(const rk_panels *panels, rk_lines lines, int64_t m, const rk_real *x,
                        const rk_real *b, bool relu, rk_real *y) {
    rk_panel_product_args args = args_of(panels, lines, m, x, relu, y);
    args.bias = b;
    rk_panel_product(&args);
}

void rk_panels_add(const rk_panels *panels, int64_t m, const rk_real *x, const rk_real *begin,
                   const rk_real *b, bool relu, rk_real *y) {
    rk_panel_product_args args = args_of(panels, (rk_lines){0, panels->in}, m, x, relu, y);
    args.begin = begin;
    args.bias = b;
    rk_panel_product(&args);
}
