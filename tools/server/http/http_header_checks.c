#include "server/http/http_header_checks.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>

#include "base/text/text.h"

typedef struct framing {
    int n_lengths, n_codings;
    const char *wrong;
} framing;

static bool is_header_named(const char *key, size_t n_bytes, const char *name) {
    return strlen(name) == n_bytes && strncasecmp(key, name, n_bytes) == 0;
}

/* The characters of a token (RFC 9110, 5.6.2). */
static bool is_token(const char *text, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i++) {
        char c = text[i];
        bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!word && (c == 0 || !strchr("!#$%&'*+-.^_`|~", c))) return false;
    }
    return n_bytes > 0;
}

static enum MHD_Result check_header(void *context, enum MHD_ValueKind kind, const char *key, size_t key_bytes,
                                    const char *value, size_t value_bytes) {
    framing *f = context;
    (void)kind;
    if (!is_token(key, key_bytes)) f->wrong = "a header's name has a character that names do not have";
    if (value && memchr(value, 0, value_bytes)) f->wrong = "a header's value has a NUL";
    if (is_header_named(key, key_bytes, MHD_HTTP_HEADER_CONTENT_LENGTH)) {
        f->n_lengths++;
        for (size_t i = 0; i < value_bytes; i++)
            if (value[i] < '0' || value[i] > '9') f->wrong = "Content-Length is no number";
        if (value_bytes == 0) f->wrong = "Content-Length is no number";
    }
    if (is_header_named(key, key_bytes, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        f->n_codings++;
        if (value_bytes != 7 || strncasecmp(value, "chunked", 7) != 0)
            f->wrong = "Transfer-Encoding is not 'chunked'";
    }
    return MHD_YES;
}

const char *rk_http_check_framing(struct MHD_Connection *connection, const char *version) {
    framing f = {0};
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, check_header, &f);
    if (f.wrong) return f.wrong;
    if (f.n_lengths > 1) return "there is more than one Content-Length";
    if (f.n_codings > 1) return "there is more than one Transfer-Encoding";
    if (f.n_lengths && f.n_codings) return "Content-Length and Transfer-Encoding do not go together";
    if (f.n_codings && strcmp(version, "HTTP/1.1") != 0) return "HTTP/1.0 has no Transfer-Encoding";
    return NULL;
}

/* Of any n bytes the same time. */
static bool is_equal_in_constant_time(const char *a, const char *b, size_t n) {
    unsigned char different = 0;
    for (size_t i = 0; i < n; i++) different |= (unsigned char)(a[i] ^ b[i]);
    return different == 0;
}

bool rk_http_check_bearer(const char *authorization, const char *tokens) {
    bool found = false;
    if (!tokens) return true;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0) return false;
    const char *given = authorization + 7;
    size_t n = strlen(given);
    for (const char *line = tokens; *line;) {
        size_t length = strcspn(line, "\r\n");
        if (length > 0 && length == n && is_equal_in_constant_time(line, given, n)) found = true;
        line += length;
        line += strspn(line, "\r\n");
    }
    return found;
}
