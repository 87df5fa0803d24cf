/* Whether a page is what a report writes: elements that are closed in order, quoted attributes, entities,
 * UTF-8 without controls, and nothing that runs. */
#ifndef RK_TESTS_REPORT_HTML_CHECK_H
#define RK_TESTS_REPORT_HTML_CHECK_H

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { HTML_DEPTH = 64, HTML_NAME = 32 };

/* An attribute's value ends with the quote that it begins with; NULL: it is not quoted. */
static inline const char *html_attributes(const char *at, const char *end) {
    while (at < end && *at != '>') {
        if (*at == '<') return NULL;
        if ((at[0] == 'o' || at[0] == 'O') && (at[1] == 'n' || at[1] == 'N') && at[-1] == ' ')
            return NULL; /* a handler */
        if (*at == '=') {
            if (at[1] != '"') return NULL;
            for (at += 2; at < end && *at != '"'; at++)
                if (*at == '<') return NULL;
        }
        at++;
    }
    return at < end ? at : NULL;
}

static inline size_t html_character(const unsigned char *at, size_t left) {
    if (*at < 0x80) return *at >= 0x20 || *at == '\n' || *at == '\t';
    size_t n = *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : 2;
    if (*at < 0xc2 || *at > 0xf4 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return n;
}

/* NULL: it is; else what is wrong. */
static inline const char *html_check(const char *page, size_t n_bytes) {
    static const char *const alone[] = {"meta", "br", "hr"}, *const refused[] = {"script", "iframe", "object",
                                                                                 "embed",  "link",   "a",
                                                                                 "img",    "form"};
    char open[HTML_DEPTH][HTML_NAME];
    int depth = 0;
    const char *end = page + n_bytes;
    for (const char *at = page; at < end;) {
        size_t n = html_character((const unsigned char *)at, (size_t)(end - at));
        if (n == 0) return "no UTF-8, or a control character";
        if (*at == '&' && (!memchr(at, ';', (size_t)(end - at) < 12 ? (size_t)(end - at) : 12)))
            return "an '&' that begins no entity";
        if (*at != '<') {
            at += n;
            continue;
        }
        if (strncasecmp(at, "<!doctype html>", 15) == 0) {
            at += 15;
            continue;
        }
        int closes = at[1] == '/';
        const char *name = at + 1 + closes, *name_end = name, *tag_end;
        while (name_end < end && (isalnum((unsigned char)*name_end))) name_end++;
        if (name_end == name || name_end - name >= HTML_NAME) return "a '<' that begins no element";
        char text[HTML_NAME];
        snprintf(text, sizeof text, "%.*s", (int)(name_end - name), name);
        for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
            if (strcasecmp(text, refused[i]) == 0) return "an element that no report has";
        if (!(tag_end = html_attributes(name_end, end)))
            return "an attribute that is not quoted, or a handler";
        int is_alone = tag_end[-1] == '/';
        for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) is_alone |= strcmp(text, alone[i]) == 0;
        if (closes && (depth == 0 || strcmp(open[--depth], text) != 0))
            return "an element that is closed out of order";
        if (!closes && !is_alone) {
            if (depth == HTML_DEPTH) return "elements too deep";
            strcpy(open[depth++], text);
        }
        at = tag_end + 1;
        if (!closes && strcmp(text, "style") == 0 && !(at = strstr(at, "</style>")))
            return "a style without an end";
    }
    return depth ? "an element that is not closed" : NULL;
}

#endif
