#include "server/status_page.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include <reckon/version.h>

#include "base/memory.h"
#include "base/text/markup_escape.h"
#include "format/json_writer.h"
#include "server/assets.h"
#include "server/model_descriptions.h"

static void write_time(double seconds, rk_buffer *out) {
    char text[32];
    time_t when = (time_t)seconds;
    struct tm utc;
    gmtime_r(&when, &utc);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
    rk_buffer_append_text(out, text);
}

static void write_failure(const rk_served_model *model, rk_buffer *out) {
    RK_AUTO(rk_buffer_release) rk_buffer reason = {0};
    rk_describe_failure(model, &reason);
    rk_buffer_append_text(&reason, "");
    if (reason.status == RK_OK)
        rk_markup_escape(reason.data, out);
    else
        out->status = reason.status;
}

static void write_versions(rk_served_model *model, rk_buffer *out) {
    rk_buffer_append_text(out, "<table><tr><th class=\"n\">version<th>loaded</tr>\n");
    pthread_mutex_lock(&model->mutex);
    for (const rk_served_version *v = model->versions; v; v = v->next) {
        rk_buffer_printf(out, "<tr><td class=\"n\">%lld<td>", (long long)v->number);
        write_time(v->loaded_at, out);
        rk_buffer_append_text(out, "</tr>\n");
    }
    rk_buffer_append_text(out, "</table>\n");
    if (model->failed_path) {
        rk_buffer_printf(out,
                         "<p class=\"bad\">Version %lld is not served: ", (long long)model->failed_number);
        write_failure(model, out);
        rk_buffer_append_text(out, "</p>\n");
    }
    pthread_mutex_unlock(&model->mutex);
}

/* A total and its rate, which the script knows from two totals; until then, the mean since the server began.
 */
static void write_total_and_rate(const char *what, const char *model, unsigned long long n, double seconds,
                                 rk_buffer *out) {
    rk_buffer_printf(out,
                     "<tr><th>%s<td class=\"n\" data-total=\"%s %s\">%llu<td class=\"n\" data-rate=\"%s "
                     "%s\">%.1f</tr>\n",
                     what, what, model, n, what, model, (double)n / seconds);
}

static void write_request_statistics(const rk_page *page, int64_t m, rk_buffer *out) {
    const rk_model_compute_metrics *metrics = &page->metrics[m];
    const char *name = page->models[m].entry->name;
    unsigned long long n = 0, n_rows = rk_read_counter(&metrics->rows);
    double seconds = fmax(page->seconds, 1e-3);
    for (int b = 0; b <= RK_DURATION_BUCKETS; b++) n += rk_read_counter(&metrics->durations[b]);
    rk_buffer_append_text(out, "<table><tr><th><th class=\"n\">in all<th class=\"n\">a second</tr>\n");
    write_total_and_rate("requests", name, n, seconds, out);
    write_total_and_rate("rows", name, n_rows, seconds, out);
    for (int code = 0; code < RK_HTTP_CODES; code++)
        if (rk_read_counter(&metrics->requests[code]))
            rk_buffer_printf(out, "<tr><th>answered with %d<td class=\"n\">%llu<td></tr>\n", code,
                             rk_read_counter(&metrics->requests[code]));
    rk_buffer_append_text(out, "</table>\n");
}

static void write_bucket_limit(double seconds, rk_buffer *out) {
    if (isinf(seconds))
        rk_buffer_append_text(out, "more");
    else if (seconds < 1)
        rk_buffer_printf(out, "%g ms", seconds * 1e3);
    else
        rk_buffer_printf(out, "%g s", seconds);
}

/* A bar for each bucket of /metrics, from the first that has a request to the last. */
static void write_durations(const rk_model_compute_metrics *metrics, rk_buffer *out) {
    unsigned long long counts[RK_DURATION_BUCKETS + 1], most = 1;
    int first = RK_DURATION_BUCKETS, last = -1;
    for (int b = 0; b <= RK_DURATION_BUCKETS; b++) {
        counts[b] = rk_read_counter(&metrics->durations[b]);
        if (counts[b] > most) most = counts[b];
        if (counts[b] > 0 && b < first) first = b;
        if (counts[b] > 0) last = b;
    }
    if (last < 0) {
        rk_buffer_append_text(out, "<p>No request came yet.</p>\n");
        return;
    }
    rk_buffer_append_text(out,
                          "<table><caption>From a request's headers to its answer</caption>\n"
                          "<tr><th class=\"n\">up to<th class=\"n\">requests<th></tr>\n");
    for (int b = first; b <= last; b++) {
        rk_buffer_append_text(out, "<tr><td class=\"n\">");
        write_bucket_limit(rk_server_metrics_bucket_limit(b), out);
        rk_buffer_printf(out,
                         "<td class=\"n\">%llu<td><svg width=\"100%%\" height=\"12\" aria-hidden=\"true\">"
                         "<rect width=\"%.1f%%\" height=\"12\"/></svg></tr>\n",
                         counts[b], 100.0 * (double)counts[b] / (double)most);
    }
    rk_buffer_append_text(out, "</table>\n");
}

/* A row to begin with, as JSON: zeros where numbers stand, else missing values. */
static void write_example_row(const rk_served_version *v, rk_buffer *json) {
    rk_buffer_append_text(json, v->catalog ? "{\"context\": {" : "{\"instances\": [{");
    bool first = true;
    for (int64_t c = 0; c < v->n_inputs; c++) {
        const struct ArrowSchema *column = v->columns.children[c];
        if (!rk_served_version_requires_column(v, c)) continue;
        rk_buffer_append_text(json, first ? "" : ", ");
        rk_json_write_string_repaired(json, (rk_span){column->name, strlen(column->name)});
        rk_buffer_append_text(json, strchr("lfg", *column->format) ? ": 0" : ": null");
        first = false;
    }
    rk_buffer_append_text(json, v->catalog ? "}, \"k\": 10}" : "}]}");
}

static void write_form_that_tries_model(rk_served_model *model, rk_buffer *out) {
    rk_served_version *v = rk_served_model_get_version(model, (rk_span){0}, (rk_span){0});
    RK_AUTO(rk_buffer_release) rk_buffer json = {0};
    if (!v) return;
    write_example_row(v, &json);
    const char *verb = v->catalog ? "retrieve" : "predict";
    rk_buffer_printf(out,
                     "<form data-path=\"/v1/models/%s:%s\"><p><label>POST /v1/models/%s:%s<br>"
                     "<textarea name=\"body\" rows=\"6\" spellcheck=\"false\">",
                     model->entry->name, verb, model->entry->name, verb);
    rk_served_version_unref(v);
    if (json.status == RK_OK) rk_markup_escape(json.data, out);
    rk_buffer_append_text(out,
                          "</textarea></label></p><p><button>Send</button></p><pre hidden></pre></form>\n");
}

static void write_model_section(const rk_page *page, int64_t m, rk_buffer *out) {
    const char *name = page->models[m].entry->name;
    rk_buffer_printf(out, "<section>\n<h2>%s</h2>\n<div class=\"live\" data-live=\"%s\">\n<div>\n", name,
                     name);
    write_versions(&page->models[m], out);
    write_request_statistics(page, m, out);
    rk_buffer_append_text(out, "</div>\n<div>\n");
    write_durations(&page->metrics[m], out);
    rk_buffer_append_text(out, "</div>\n</div>\n");
    write_form_that_tries_model(&page->models[m], out);
    rk_buffer_append_text(out, "</section>\n");
}

static void write_asset(const char *tag, const char *nonce, const unsigned char *bytes, size_t n_bytes,
                        rk_buffer *out) {
    rk_buffer_printf(out, "<%s nonce=\"%s\">\n", tag, nonce);
    rk_buffer_append(out, bytes, n_bytes);
    rk_buffer_printf(out, "</%s>\n", tag);
}

void rk_write_status_page(const rk_page *page, rk_buffer *out) {
    rk_buffer_append_text(out,
                          "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                          "<meta name=\"viewport\" content=\"width=device-width\">\n"
                          "<title>Reckon serves</title>\n<link rel=\"icon\" href=\"data:,\">\n");
    write_asset("style", page->nonce, rk_asset_status_page_css, rk_asset_status_page_css_bytes, out);
    rk_buffer_printf(
        out,
        "</head>\n<body>\n<h1>Reckon %s serves</h1>\n<p class=\"%s\" data-live=\"\">%s. Begun %.0f s "
        "ago; %llu requests wait or are being answered, %llu batches were predicted.</p>\n",
        rk_version(), page->ready ? "good" : "bad",
        page->ready ? "Ready" : "Not ready: the server is stopping", page->seconds,
        (unsigned long long)page->counts.n_pending, (unsigned long long)page->counts.n_batches);
    for (int64_t m = 0; m < page->n_models; m++) write_model_section(page, m, out);
    write_asset("script", page->nonce, rk_asset_status_page_js, rk_asset_status_page_js_bytes, out);
    rk_buffer_append_text(out, "</body>\n</html>\n");
}
