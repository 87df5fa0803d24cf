#include "progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "terminal.h"

#define COUNT_PREFIX "dynamic_"

void progress_init(progress *state, bool quiet) {
    *state = (progress){.interactive = terminal_is_interactive(), .quiet = quiet};
}

void progress_end(progress *state) {
    if (state->line_open) fputc('\n', stderr);
    state->line_open = false;
}

/* A line that the next one replaces on a terminal. */
static void rewrite_progress_line(progress *state, const char *line) {
    if (state->interactive) {
        fprintf(stderr, "\r\033[K%s", line);
        state->line_open = true;
    } else {
        fprintf(stderr, "%s\n", line);
    }
    fflush(stderr);
}

static void print_progress_message(progress *state, const char *format, ...) RK_PRINTF(2, 3);
static void print_progress_message(progress *state, const char *format, ...) {
    if (state->line_open) fputs("\r\033[K", stderr);
    state->line_open = false;
    va_list list;
    va_start(list, format);
    print_format(format, list);
    va_end(list);
    fputc('\n', stderr);
}

static void format_count(double value, char *out, size_t out_bytes) {
    static const char *const units[] = {"", " k", " M", " G"};
    int unit = 0;
    while (value >= 10000 && unit < 3) {
        value /= 1000;
        unit++;
    }
    snprintf(out, out_bytes, unit ? "%.1f%s" : "%.0f%s", value, units[unit]);
}

static void format_duration(double seconds, char *out, size_t out_bytes) {
    long s = (long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, out_bytes, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, out_bytes, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(out, out_bytes, "%lds", s);
}

static void format_bar(double fraction, char *out, int width) {
    int full = (int)(fraction * width + 0.5);
    for (int i = 0; i < width; i++) out[i] = i < full ? '=' : i == full ? '>' : ' ';
    out[width] = 0;
}

/* Whole numbers, which dynamic tables count. */
static bool is_count_metric(const char *name) {
    return strncmp(name, COUNT_PREFIX, strlen(COUNT_PREFIX)) == 0;
}

static int format_count_metrics(const rk_event *event, char *out, size_t out_bytes) {
    int n = 0;
    out[0] = 0;
    for (int32_t i = 0; i < event->n_metrics; i++) {
        char count[32];
        format_count(event->metrics[i].value, count, sizeof count);
        n += snprintf(out + n, out_bytes - (size_t)n, "%s%s %s",
                      i ? ", " : "  keys: ", event->metrics[i].name + strlen(COUNT_PREFIX), count);
    }
    return n;
}

static void print_training_progress(progress *state, const rk_event *event) {
    char line[400], rate[32], left[32] = "", bar[32] = "";
    format_count(event->samples_per_second, rate, sizeof rate);
    if (event->seconds_left >= 0) format_duration(event->seconds_left, left, sizeof left);
    int n = 0;
    if (event->n_steps > 0) {
        format_bar((double)event->step / (double)event->n_steps, bar, 20);
        if (state->interactive) n = snprintf(line, sizeof line, "[%s] ", bar);
        n += snprintf(line + n, sizeof line - (size_t)n, "step %lld/%lld", (long long)event->step,
                      (long long)event->n_steps);
    } else {
        n = snprintf(line, sizeof line, "step %lld", (long long)event->step);
    }
    n += snprintf(line + n, sizeof line - (size_t)n, "  epoch %lld  loss %.5f  %s samples/s",
                  (long long)event->epoch + 1, event->loss, rate);
    n += format_count_metrics(event, line + n, sizeof line - (size_t)n);
    snprintf(line + n, sizeof line - (size_t)n, "%s%s", left[0] ? "  left " : "", left);
    rewrite_progress_line(state, line);
}

void print_metrics(const rk_metric *metrics, int32_t n_metrics, bool to_stdout) {
    FILE *out = to_stdout ? stdout : stderr;
    for (int32_t i = 0; i < n_metrics; i++) {
        if (i) fputs("  ", out);
        print_text(out, metrics[i].name);
        if (isnan(metrics[i].value))
            fputs(" undefined", out);
        else
            fprintf(out, is_count_metric(metrics[i].name) ? " %.0f" : " %.5f", metrics[i].value);
    }
    fputc('\n', out);
}

void progress_print_event(void *user, const rk_event *event) {
    progress *state = user;
    if (state->quiet) return;
    switch (event->kind) {
        case RK_EVENT_STAGE:
            print_progress_message(state, "%s", event->message);
            break;
        case RK_EVENT_PROGRESS:
            print_training_progress(state, event);
            break;
        case RK_EVENT_EVALUATION:
            print_progress_message(state, "epoch %lld  step %lld  validation%s", (long long)event->epoch + 1,
                                   (long long)event->step, event->best ? " (best so far)" : "");
            fputs("    ", stderr);
            print_metrics(event->metrics, event->n_metrics, false);
            break;
        case RK_EVENT_CHECKPOINT:
            print_progress_message(state, "saved %s", event->message);
            break;
        case RK_EVENT_STOP:
            print_progress_message(state, "%s", event->message);
            break;
    }
}

void progress_print_rows(progress *state, const char *what, int64_t n_rows, double fraction) {
    if (state->quiet) return;
    char line[128], rows[32], bar[32];
    format_count((double)n_rows, rows, sizeof rows);
    if (fraction >= 0) {
        format_bar(fraction, bar, 20);
        snprintf(line, sizeof line, "[%s] %3.0f%%  %s %s rows", bar, 100 * fraction, what, rows);
    } else {
        snprintf(line, sizeof line, "%s %s rows", what, rows);
    }
    rewrite_progress_line(state, line);
}
