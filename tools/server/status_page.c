#include "server/status_page.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include <reckon/version.h>

#include "base/memory.h"
#include "base/text/markup.h"
#include "format/json_text.h"

static const char styles[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem;border-bottom:1px solid #ccc}"
    "table{border-collapse:collapse;margin:.6rem 0}th,td{padding:.15rem .8rem .15rem 0;text-align:left}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}rect{fill:#3b6ea8}.bad{color:#a11}"
    "textarea{width:100%;font:13px/1.4 monospace;box-sizing:border-box}"
    "pre{background:#f4f4f4;padding:.6rem;white-space:pre-wrap;overflow-wrap:anywhere}";

/* A form's text goes to its model, and the answer is shown as text. Rates are of the time between two looks
 * at /metrics. */
static const char script[] =
    "'use strict';\n"
    "for (const form of document.forms) form.addEventListener('submit', async (event) => {\n"
    "  event.preventDefault();\n"
    "  const shown = form.querySelector('pre'), begun = performance.now();\n"
    "  shown.hidden = false;\n"
    "  try {\n"
    "    const got = await fetch(form.dataset.path, {method: 'POST', body: form.elements.body.value});\n"
    "    const text = await got.text();\n"
    "    shown.textContent = got.status + ', ' + (performance.now() - begun).toFixed(1) + ' ms\\n' + text;\n"
    "  } catch (failure) {\n"
    "    shown.textContent = String(failure);\n"
    "  }\n"
    "});\n"
    "let before = null;\n"
    "const sums = (text) => {\n"
    "  const found = new Map([['at', performance.now() / 1000]]);\n"
    "  const lines = /^reckon_(requests|rows)_total\\{model=\"([^\"]*)\"[^}]*\\} (\\d+)$/gm;\n"
    "  for (const [, what, model, n] of text.matchAll(lines)) {\n"
    "    const key = what + ' ' + model;\n"
    "    found.set(key, (found.get(key) || 0) + Number(n));\n"
    "  }\n"
    "  return found;\n"
    "};\n"
    "const look = async () => {\n"
    "  if (document.hidden) return;\n"
    "  try {\n"
    "    const now = sums(await (await fetch('/metrics')).text());\n"
    "    for (const cell of document.querySelectorAll('[data-rate]')) {\n"
    "      const n = (now.get(cell.dataset.rate) || 0) - ((before && before.get(cell.dataset.rate)) || 0);\n"
    "      if (before) cell.textContent = (n / (now.get('at') - before.get('at'))).toFixed(1);\n"
    "    }\n"
    "    before = now;\n"
    "  } catch (failure) {\n"
    "    before = null;\n"
    "  }\n"
    "};\n"
    "look();\n"
    "setInterval(look, 2000);\n";

static void write_time(double seconds, rk_buffer *out) {
    char text[32];
    time_t when = (time_t)seconds;
    struct tm utc;
    gmtime_r(&when, &utc);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
    rk_buffer_text(out, text);
}

static void write_versions(rk_served_model *model, rk_buffer *out) {
    rk_buffer_text(out, "<table><tr><th class=\"n\">version<th>loaded</tr>\n");
    pthread_mutex_lock(&model->mutex);
    for (const rk_served_version *v = model->versions; v; v = v->next) {
        rk_buffer_printf(out, "<tr><td class=\"n\">%lld<td>", (long long)v->number);
        write_time(v->loaded_at, out);
        rk_buffer_text(out, "</tr>\n");
    }
    rk_buffer_text(out, "</table>\n");
    if (model->failed_path) {
        rk_buffer_printf(out,
                         "<p class=\"bad\">Version %lld is not served: ", (long long)model->failed_number);
        rk_markup_escape(model->failure, out);
        rk_buffer_text(out, "</p>\n");
    }
    pthread_mutex_unlock(&model->mutex);
}

/* A cell that the script keeps up to date; until then, the mean since the server began. */
static void write_rate(const char *what, const char *model, double rate, rk_buffer *out) {
    rk_buffer_printf(out, "<td class=\"n\" data-rate=\"%s %s\">%.1f", what, model, rate);
}

static void write_traffic(const rk_page *page, int64_t m, rk_buffer *out) {
    const rk_model_metrics *metrics = &page->metrics[m];
    const char *name = page->models[m].entry->name;
    unsigned long long n = 0, n_rows = rk_counter(&metrics->rows);
    double seconds = fmax(page->seconds, 1e-3);
    for (int b = 0; b <= RK_DURATION_BUCKETS; b++) n += rk_counter(&metrics->durations[b]);
    rk_buffer_text(out, "<table><tr><th><th class=\"n\">in all<th class=\"n\">a second</tr>\n");
    rk_buffer_printf(out, "<tr><th>requests<td class=\"n\">%llu", n);
    write_rate("requests", name, (double)n / seconds, out);
    rk_buffer_printf(out, "</tr>\n<tr><th>rows<td class=\"n\">%llu", n_rows);
    write_rate("rows", name, (double)n_rows / seconds, out);
    for (int code = 0; code < RK_HTTP_CODES; code++)
        if (rk_counter(&metrics->requests[code]))
            rk_buffer_printf(out, "</tr>\n<tr><th>answered with %d<td class=\"n\">%llu<td>", code,
                             rk_counter(&metrics->requests[code]));
    rk_buffer_text(out, "</tr></table>\n");
}

static void write_limit(double seconds, rk_buffer *out) {
    if (isinf(seconds))
        rk_buffer_text(out, "more");
    else if (seconds < 1)
        rk_buffer_printf(out, "%g ms", seconds * 1e3);
    else
        rk_buffer_printf(out, "%g s", seconds);
}

/* A bar for each bucket of /metrics. */
static void write_durations(const rk_model_metrics *metrics, rk_buffer *out) {
    unsigned long long counts[RK_DURATION_BUCKETS + 1], most = 1;
    for (int b = 0; b <= RK_DURATION_BUCKETS; b++) {
        counts[b] = rk_counter(&metrics->durations[b]);
        if (counts[b] > most) most = counts[b];
    }
    rk_buffer_text(out,
                   "<table><caption>From a request's headers to its answer</caption>\n"
                   "<tr><th class=\"n\">up to<th class=\"n\">requests<th></tr>\n");
    for (int b = 0; b <= RK_DURATION_BUCKETS; b++) {
        rk_buffer_text(out, "<tr><td class=\"n\">");
        write_limit(rk_metrics_duration(b), out);
        rk_buffer_printf(out,
                         "<td class=\"n\">%llu<td><svg width=\"300\" height=\"12\" aria-hidden=\"true\">"
                         "<rect width=\"%.1f\" height=\"12\"/></svg></tr>\n",
                         counts[b], 300.0 * (double)counts[b] / (double)most);
    }
    rk_buffer_text(out, "</table>\n");
}

/* A row to begin with, as JSON: zeros where numbers stand, else missing values. */
static void write_example(const rk_served_version *v, rk_buffer *json) {
    rk_buffer_text(json, v->catalog ? "{\"context\": {" : "{\"instances\": [{");
    bool first = true;
    for (int64_t c = 0; c < v->n_inputs; c++) {
        const struct ArrowSchema *column = v->columns.children[c];
        if (!rk_served_version_needs(v, c)) continue;
        rk_buffer_text(json, first ? "" : ", ");
        rk_json_write_text(json, (rk_span){column->name, strlen(column->name)});
        rk_buffer_text(json, strchr("lfg", *column->format) ? ": 0" : ": null");
        first = false;
    }
    rk_buffer_text(json, v->catalog ? "}, \"k\": 10}" : "}]}");
}

static void write_form(rk_served_model *model, rk_buffer *out) {
    rk_served_version *v = rk_served_model_get(model, (rk_span){0}, (rk_span){0});
    RK_AUTO(rk_buffer_release) rk_buffer json = {0};
    if (!v) return;
    write_example(v, &json);
    const char *verb = v->catalog ? "retrieve" : "predict";
    rk_buffer_printf(out,
                     "<form data-path=\"/v1/models/%s:%s\"><p><label>POST /v1/models/%s:%s<br>"
                     "<textarea name=\"body\" rows=\"6\" spellcheck=\"false\">",
                     model->entry->name, verb, model->entry->name, verb);
    rk_served_version_release(v);
    if (json.status == RK_OK) rk_markup_escape(json.data, out);
    rk_buffer_text(out, "</textarea></label></p><p><button>Send</button></p><pre hidden></pre></form>\n");
}

static void write_model(const rk_page *page, int64_t m, rk_buffer *out) {
    rk_buffer_printf(out, "<section>\n<h2>%s</h2>\n", page->models[m].entry->name);
    write_versions(&page->models[m], out);
    write_traffic(page, m, out);
    write_durations(&page->metrics[m], out);
    write_form(&page->models[m], out);
    rk_buffer_text(out, "</section>\n");
}

void rk_write_page(const rk_page *page, rk_buffer *out) {
    rk_buffer_printf(out,
                     "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width\">\n<title>Reckon serves</title>\n"
                     "<link rel=\"icon\" href=\"data:,\">\n<style nonce=\"%s\">%s</style>\n</head>\n<body>\n"
                     "<h1>Reckon %s serves</h1>\n<p%s>%s. Begun %.0f s ago; %llu requests wait or are being "
                     "answered, %llu batches were predicted.</p>\n",
                     page->nonce, styles, rk_version(), page->ready ? "" : " class=\"bad\"",
                     page->ready ? "Ready" : "Not ready: the server is stopping", page->seconds,
                     (unsigned long long)page->counts.n_pending, (unsigned long long)page->counts.n_batches);
    for (int64_t m = 0; m < page->n_models; m++) write_model(page, m, out);
    rk_buffer_printf(out, "<script nonce=\"%s\">\n%s</script>\n</body>\n</html>\n", page->nonce, script);
}
