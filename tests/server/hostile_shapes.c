#include "hostile_shapes.h"

#include <string.h>

#include "base/memory.h"

#define COUNT(array)    (sizeof(array) / sizeof *(array))
#define ANY(rng, array) ((array)[rk_rng_below(rng, COUNT(array))])
#define CHANCE(rng, of) (rk_rng_below(rng, of) == 0)
#define SMUGGLED        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
#define PREDICT_LINE    "POST /v1/models/ads:predict HTTP/1.1\r\nHost: x\r\n"
enum { MOST_BODY = 19000 };

static const char *const paths[] = {"/v1/models/ads:predict",  "/v1/models/ads:predict",
                                    "/v1/models/ads:classify", "/v1/models/ads:regress",
                                    "/v1/models/ads:retrieve", "/v2/models/ads/infer",
                                    "/v2/models/ads/infer",    "/v1/models/ads/versions/7:predict"};

static void split(rk_span request, rk_span *head, rk_span *body) {
    const char *end = memmem(request.data, request.n_bytes, "\r\n\r\n", 4);
    size_t n = end ? (size_t)(end + 4 - request.data) : request.n_bytes;
    *head = (rk_span){request.data, n};
    *body = (rk_span){request.data + n, request.n_bytes - n};
}

static void frame(rk_buffer *out, const char *path, const char *headers, const rk_buffer *body) {
    rk_buffer_printf(out, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n\r\n", path, headers,
                     body->n_bytes);
    rk_buffer_append(out, body->n_bytes ? body->data : "", body->n_bytes);
}

static void noise(rk_rng *rng, rk_buffer *out, size_t n) {
    for (size_t i = 0; i < n; i++) rk_buffer_append_u8(out, (uint8_t)rk_rng_next(rng));
}

static void repeat(rk_buffer *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) rk_buffer_append_text(out, text);
}

/* --- framing, headers ---------------------------------------------------------------------------------- */

static void smuggling(rk_rng *rng, hostile *h) {
    static const char *const shapes[] = {
        "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        "Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
        "Content-Length: 2, 2\r\n\r\n{}",
        "Content-Length: +2\r\n\r\n{}",
        "Content-Length: -1\r\n\r\n{}",
        "Content-Length: 0x2\r\n\r\n{}",
        "Content-Length: 2 2\r\n\r\n{}",
        "Content-Length: 99999999999999999999999\r\n\r\n{}",
        "Content-Length: 18446744073709551615\r\n\r\n{}",
        "Content-Length: 9223372036854775807\r\n\r\n{}",
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "Transfer-Encoding: \tchunked x\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "Content Length: 2\r\n\r\n{}",
        "Content-Length : 2\r\n\r\n{}"};
    rk_buffer_append_text(&h->bytes, PREDICT_LINE);
    rk_buffer_append_text(&h->bytes, ANY(rng, shapes));
    rk_buffer_append_text(&h->bytes, SMUGGLED);
    h->refused = true;
}

/* Which of these are refused, and when, is libmicrohttpd's business; none may do harm. */
static void headers(rk_rng *rng, hostile *h) {
    static const char *const whole[] = {
        "GET /v2 HTTP/1.1\r\n\r\n",
        "GET /v2 HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /v2 HTTP/9.9\r\nHost: x\r\n\r\n",
        "GET  /v2  HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v2\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\r\n\r\n\r\nGET /v2 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/models/%2e%2e/%00 HTTP/1.1\r\nHost: x\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET http://elsewhere/v2 HTTP/1.1\r\nHost: x\r\n\r\n",
        "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v2 HTTP/1.1\nHost: x\n\n",
        "GET /v2 HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
        "GET /v2 HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        "GET /v2 HTTP/1.1\r\nHost: x\r\n: empty\r\n\r\n",
        "DELETE /v1/models/ads HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /v1/models/ads:predict HTTP/1.1\r\n",
        "GET /v1/models/ads/versions/99999999999999999999 HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /v1/models/ads:predict HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: "
        "4\r\n\r\n\x1f\x8b\x08\x01",
        "POST /v1/models/ads:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
        "chunked\r\n\r\nffffffffffffffffff\r\n{}",
        "POST /v1/models/ads:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;a=\"b\r\n{}",
        "POST /v1/models/ads:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n{}"};
    rk_buffer *out = &h->bytes;
    switch (rk_rng_below(rng, 6)) {
        case 0:
            rk_buffer_append_text(out, "GET /");
            repeat(out, CHANCE(rng, 2) ? "a" : "%41/", 1 + rk_rng_below(rng, 12000));
            rk_buffer_append_text(out, " HTTP/1.1\r\nHost: x\r\n\r\n");
            break;
        case 1:
            rk_buffer_append_text(out, "GET /v2 HTTP/1.1\r\nHost: x\r\n");
            for (uint64_t i = rk_rng_below(rng, 3000); i > 0; i--)
                rk_buffer_printf(out, "A%llu: %llu\r\n", (unsigned long long)i, (unsigned long long)i);
            rk_buffer_append_text(out, "\r\n");
            break;
        case 2:
            rk_buffer_append_text(out, "GET /v2 HTTP/1.1\r\nHost: x\r\nA: ");
            noise(rng, out, 1 + rk_rng_below(rng, 200));
            rk_buffer_append_text(out, "\r\n\r\n");
            break;
        case 3:
            noise(rng, out, 1 + rk_rng_below(rng, 400));
            rk_buffer_append_text(out, "\r\n\r\n");
            break;
        default:
            rk_buffer_append_text(out, ANY(rng, whole));
            break;
    }
}

/* --- bodies -------------------------------------------------------------------------------------------- */

/* Bytes changed, taken out, put in and doubled, a few at a time. */
static void mutate(rk_rng *rng, rk_span from, rk_buffer *out) {
    static const char *const tokens[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"",
                                         "null",
                                         "true",
                                         "-",
                                         "1e999",
                                         "\\u0000",
                                         "\\ud800",
                                         "\xff",
                                         "\xc0\x80",
                                         "NaN",
                                         "\\",
                                         "\"\"",
                                         "{\"b64\": \"====\"}",
                                         "\"context\": {",
                                         "\"instances\": [",
                                         "\"inputs\": ",
                                         "\r\n",
                                         "\r\n\r\n",
                                         "0",
                                         "\"user\": ",
                                         "18446744073709551616",
                                         "\"id\": ",
                                         "/**/"};
    size_t n_changes = 1 + rk_rng_below(rng, 4), at = 0;
    for (size_t c = 0; c < n_changes; c++) {
        size_t left = from.n_bytes - at, skip = left ? rk_rng_below(rng, left / (n_changes - c) + 1) : 0;
        size_t n = rk_rng_below(rng, 12);
        rk_buffer_append(out, from.data + at, skip);
        at += skip;
        if (n > from.n_bytes - at) n = from.n_bytes - at;
        switch (rk_rng_below(rng, 4)) {
            case 0:
                noise(rng, out, 1);
                at += n > 0;
                break;
            case 1:
                at += n;
                break;
            case 2:
                rk_buffer_append_text(out, ANY(rng, tokens));
                break;
            default:
                rk_buffer_append(out, from.data + at, n);
                break;
        }
    }
    rk_buffer_append(out, from.data + at, from.n_bytes - at);
}

static void bad_json(rk_rng *rng, rk_span good, hostile *h, rk_buffer *body) {
    rk_span head, whole;
    split(good, &head, &whole);
    if (CHANCE(rng, 3))
        rk_buffer_append(body, whole.data, rk_rng_below(rng, whole.n_bytes + 1));
    else
        mutate(rng, whole, body);
    frame(&h->bytes, ANY(rng, paths), "", body);
    h->framed = true;
}

static void deep_json(rk_rng *rng, hostile *h, rk_buffer *body) {
    static const char *const begins[] = {"",
                                         "{\"instances\": ",
                                         "{\"context\": ",
                                         "{\"inputs\": {\"user\": ",
                                         "{\"id\": ",
                                         "{\"instances\": [{\"tags\": ",
                                         "{\"inputs\": [{\"data\": "};
    static const char *const levels[] = {"[", "{\"a\": ", "[[], ", "[{\"b64\": ", "{\"instances\": ["};
    const char *level = ANY(rng, levels);
    rk_buffer_append_text(body, ANY(rng, begins));
    repeat(body, level, rk_rng_below(rng, MOST_BODY / strlen(level)));
    if (CHANCE(rng, 2)) repeat(body, "]", rk_rng_below(rng, 20000 - body->n_bytes));
    frame(&h->bytes, ANY(rng, paths), "", body);
    h->framed = true;
}

static void number(rk_rng *rng, rk_buffer *out) {
    static const char *const numbers[] = {"1e999",
                                          "-1e999",
                                          "1e-999",
                                          "1e99999999999",
                                          "-0",
                                          "-0.0e-0",
                                          "18446744073709551616",
                                          "1E+308",
                                          "1.7976931348623159e308",
                                          "4.9e-324",
                                          "2.5e-324",
                                          "9007199254740993",
                                          "-9223372036854775809",
                                          "NaN",
                                          "Infinity",
                                          "-Infinity",
                                          "0x10",
                                          "01",
                                          "1.",
                                          ".5",
                                          "+1",
                                          "1e",
                                          "--1",
                                          "1_0",
                                          "1,0",
                                          "3.4028236e38"};
    if (!CHANCE(rng, 4)) {
        rk_buffer_append_text(out, ANY(rng, numbers));
        return;
    }
    uint64_t n = 1 + rk_rng_below(rng, 3000), dot = rk_rng_below(rng, 3000);
    for (uint64_t i = 0; i < n; i++)
        rk_buffer_append_u8(out, i == dot ? '.' : (uint8_t)('0' + rk_rng_below(rng, 10)));
    if (CHANCE(rng, 2)) rk_buffer_printf(out, "e%lld", (long long)rk_rng_below(rng, 800) - 400);
}

static void numbers(rk_rng *rng, hostile *h, rk_buffer *body) {
    static const char *const columns[] = {"user", "tags", "city", "age", "price"};
    rk_buffer_append_text(body, "{\"instances\": [{");
    for (size_t c = 0; c < COUNT(columns); c++) {
        rk_buffer_printf(body, "%s\"%s\": ", c ? ", " : "", columns[c]);
        number(rng, body);
    }
    rk_buffer_append_text(body, "}]}");
    frame(&h->bytes, "/v1/models/ads:predict", "", body);
    h->framed = true;
}

static void tensors(rk_rng *rng, hostile *h, rk_buffer *body) {
    static const char *const columns[] = {"user", "tags", "city", "age", "price", "user"};
    static const char *const types[] = {"BYTES", "FP32", "FP64", "INT64", "BOOL", "UINT8", "FP16", "FP8", ""};
    static const char *const sizes[] = {
        "0", "1", "-1", "4", "8", "9223372036854775807", "1e3", "2147483648", "18446744073709551615", "100"};
    static const char *const shapes[] = {"1",
                                         "2",
                                         "0",
                                         "1, 1",
                                         "1, 0",
                                         "2, 3",
                                         "-1",
                                         "4294967296, 4294967296",
                                         "2147483647, 2147483647",
                                         "",
                                         "1, 1, 1",
                                         "1000000000",
                                         "1e2"};
    char lie[100];
    rk_buffer_append_text(body, "{\"inputs\": [");
    for (size_t c = 0, n = 1 + rk_rng_below(rng, 6); c < n; c++)
        rk_buffer_printf(body,
                         "%s{\"name\": \"%s\", \"shape\": [%s], \"datatype\": \"%s\", \"parameters\": "
                         "{\"binary_data_size\": %s}}",
                         c ? ", " : "", columns[CHANCE(rng, 3) ? rk_rng_below(rng, 6) : c % 5],
                         CHANCE(rng, 2) ? "1" : ANY(rng, shapes), CHANCE(rng, 2) ? "BYTES" : ANY(rng, types),
                         ANY(rng, sizes));
    rk_buffer_append_text(body, "]}");
    size_t n_json = body->n_bytes;
    for (uint64_t i = rk_rng_below(rng, 8); i > 0; i--) {
        rk_buffer_append_u32le(body,
                               CHANCE(rng, 4) ? (uint32_t)rk_rng_next(rng) : (uint32_t)rk_rng_below(rng, 9));
        noise(rng, body, rk_rng_below(rng, 9));
    }
    static const char *const lengths[] = {
        "0", "-1", "1", "99999999", "9223372036854775807", "x", "", "18446744073709551616"};
    if (CHANCE(rng, 3))
        rk_snprintf(lie, sizeof lie, "Inference-Header-Content-Length: %s\r\n", ANY(rng, lengths));
    else
        rk_snprintf(lie, sizeof lie, "Inference-Header-Content-Length: %zu\r\n",
                    n_json + (CHANCE(rng, 4) ? rk_rng_below(rng, 5) : 0));
    frame(&h->bytes, "/v2/models/ads/infer", lie, body);
    h->framed = true;
}

/* --- what is sent of a good request -------------------------------------------------------------------- */

static void lengths(rk_rng *rng, rk_span good, hostile *h) {
    rk_span head, body;
    split(good, &head, &body);
    rk_buffer_printf(&h->bytes, PREDICT_LINE "Content-Length: %zu\r\n\r\n",
                     (size_t)rk_rng_below(rng, 2 * body.n_bytes + 2));
    rk_buffer_append(&h->bytes, body.data, body.n_bytes);
}

static void cut(rk_rng *rng, rk_span good, hostile *h) {
    rk_buffer_append(&h->bytes, good.data, rk_rng_below(rng, good.n_bytes));
    h->reset = CHANCE(rng, 2);
}

static void pipelined(rk_rng *rng, const rk_span *good, size_t n_good, hostile *h) {
    for (uint64_t i = rk_rng_below(rng, 6); i > 0; i--) {
        rk_span one = good[rk_rng_below(rng, n_good)];
        rk_buffer_append(&h->bytes, one.data, one.n_bytes);
    }
    noise(rng, &h->bytes, 1 + rk_rng_below(rng, 300));
    if (CHANCE(rng, 2)) rk_buffer_append_text(&h->bytes, "\r\n\r\n");
    h->reset = CHANCE(rng, 4);
}

void hostile_draw(rk_rng *rng, const rk_span *good, size_t n_good, hostile *h) {
    RK_AUTO(rk_buffer_release) rk_buffer body = {0};
    rk_span one = good[rk_rng_below(rng, n_good)];
    h->kind = (hostile_kind)rk_rng_below(rng, N_HOSTILE_KINDS);
    if (h->kind == HOSTILE_SLOW && !CHANCE(rng, 100)) h->kind = HOSTILE_MUTATED; /* they take seconds */
    h->framed = h->refused = h->reset = false;
    rk_buffer_clear(&h->bytes);
    switch (h->kind) {
        case HOSTILE_SMUGGLING:
            smuggling(rng, h);
            break;
        case HOSTILE_HEADERS:
            headers(rng, h);
            break;
        case HOSTILE_BAD_JSON:
            bad_json(rng, one, h, &body);
            break;
        case HOSTILE_DEEP_JSON:
            deep_json(rng, h, &body);
            break;
        case HOSTILE_NUMBERS:
            numbers(rng, h, &body);
            break;
        case HOSTILE_LENGTHS:
            lengths(rng, one, h);
            break;
        case HOSTILE_CUT:
            cut(rng, one, h);
            break;
        case HOSTILE_PIPELINED:
            pipelined(rng, good, n_good, h);
            break;
        case HOSTILE_TENSORS:
            tensors(rng, h, &body);
            break;
        default: /* slow ones too */
            mutate(rng, one, &h->bytes);
            break;
    }
}
