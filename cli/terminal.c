#include "terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of the UTF-8 character at `at` that a terminal shows; 0: a byte that it would obey, or that is no UTF-8. */
static int shown_bytes(const unsigned char *at) {
    if (at[0] < 0x80) return at[0] == '\n' || at[0] == '\t' || (at[0] >= 0x20 && at[0] != 0x7f);
    int n = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4) return 0;
    for (int i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return at[0] == 0xc2 && at[1] < 0xa0 ? 0 : n; /* U+0080 to U+009F are controls too */
}

void print_text(FILE *out, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int n = shown_bytes(at);
        if (n)
            fwrite(at, 1, (size_t)n, out);
        else
            fprintf(out, "\\x%02x", *at);
        at += n ? n : 1;
    }
}

void print_format(const char *format, va_list list) {
    char text[8192];
    vsnprintf(text, sizeof text, format, list);
    print_text(stderr, text);
}

static void say(const char *format, ...) RK_PRINTF(1, 2);
static void say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    print_format(format, list);
    va_end(list);
}

static void print_log(void *user, rk_log_level level, const char *message) {
    (void)user;
    static const char *const names[] = {"debug", "info", "warning", "error"};
    say("reckon: %s: %s\n", names[level], message);
}

void terminal_init(void) {
    static const char *const names[] = {"debug", "info", "warning", "error"};
    const char *wanted = getenv("RK_LOG");
    rk_log_level level = RK_LOG_WARNING;
    for (int i = 0; wanted && i < 4; i++)
        if (strcmp(wanted, names[i]) == 0) level = (rk_log_level)i;
    rk_log_set(print_log, NULL, level);
}

bool terminal_is_interactive(void) {
    return isatty(STDERR_FILENO);
}

int failed(void) {
    say("reckon: error: %s\n", rk_last_error());
    return EXIT_FAILED;
}

int failed_because(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("reckon: error: ", stderr);
    print_format(format, list);
    fputc('\n', stderr);
    va_end(list);
    return EXIT_FAILED;
}

void usage_error(const command *cmd, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("reckon: ", stderr);
    print_format(format, list);
    va_end(list);
    if (cmd)
        fprintf(stderr, "\nhint: 'reckon %s --help' shows the usage\n", cmd->name);
    else
        fputs("\nhint: 'reckon --help' lists the commands\n", stderr);
}

void note(const char *format, ...) {
    va_list list;
    va_start(list, format);
    print_format(format, list);
    fputc('\n', stderr);
    va_end(list);
}
