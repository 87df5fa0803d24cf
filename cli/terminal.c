#include "terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of the UTF-8 character at `at` that a terminal shows; 0: a byte that it would obey, or that is no
 * UTF-8. */
static int printable_character_bytes(const unsigned char *at) {
    if (at[0] < 0x80) return at[0] == '\n' || at[0] == '\t' || (at[0] >= 0x20 && at[0] != 0x7f);
    int n = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4) return 0;
    for (int i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return at[0] == 0xc2 && at[1] < 0xa0 ? 0 : n; /* U+0080 to U+009F are controls too */
}

/* In as few writes as can be: what several ranks say at once must not be mixed letter by letter. */
void print_text(FILE *out, const char *text) {
    char shown[16384];
    size_t n_shown = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int n = printable_character_bytes(at);
        if (n)
            memcpy(shown + n_shown, at, (size_t)n);
        else
            snprintf(shown + n_shown, 5, "\\x%02x", *at);
        n_shown += n ? (size_t)n : 4;
        at += n ? n : 1;
        if (n_shown > sizeof shown - 8) {
            fwrite(shown, 1, n_shown, out);
            n_shown = 0;
        }
    }
    fwrite(shown, 1, n_shown, out);
}

/* before, the text, after: at once. */
static void print_with_prefix_and_suffix(const char *before, const char *format, va_list list,
                                         const char *after) {
    char text[8192];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", before), room = sizeof text - strlen(after);
    vsnprintf(text + n, room - n, format, list);
    strcat(text, after);
    print_text(stderr, text);
}

void print_format(const char *format, va_list list) {
    print_with_prefix_and_suffix("", format, list, "");
}

static void print_to_stderr(const char *format, ...) RK_PRINTF(1, 2);
static void print_to_stderr(const char *format, ...) {
    va_list list;
    va_start(list, format);
    print_format(format, list);
    va_end(list);
}

static void print_log_message(void *user, rk_log_level level, const char *message) {
    (void)user;
    static const char *const names[] = {"debug", "info", "warning", "error"};
    print_to_stderr("reckon: %s: %s\n", names[level], message);
}

void terminal_init(void) {
    static const char *const names[] = {"debug", "info", "warning", "error"};
    const char *wanted = getenv("RK_LOG");
    rk_log_level level = RK_LOG_WARNING;
    for (int i = 0; wanted && i < 4; i++)
        if (strcmp(wanted, names[i]) == 0) level = (rk_log_level)i;
    rk_log_set(print_log_message, NULL, level);
}

bool terminal_is_interactive(void) {
    return isatty(STDERR_FILENO);
}

int report_last_error(void) {
    print_to_stderr("reckon: error: %s\n", rk_last_error());
    return EXIT_FAILED;
}

int report_error(const char *format, ...) {
    va_list list;
    va_start(list, format);
    print_with_prefix_and_suffix("reckon: error: ", format, list, "\n");
    va_end(list);
    return EXIT_FAILED;
}

void report_usage_error(const command *cmd, const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (cmd) {
        char hint[256];
        snprintf(hint, sizeof hint, "\nhint: 'reckon %s --help' shows the usage\n", cmd->name);
        print_with_prefix_and_suffix("reckon: ", format, list, hint);
    } else {
        print_with_prefix_and_suffix("reckon: ", format, list,
                                     "\nhint: 'reckon --help' lists the commands\n");
    }
    va_end(list);
}

void print_note(const char *format, ...) {
    va_list list;
    va_start(list, format);
    print_with_prefix_and_suffix("", format, list, "\n");
    va_end(list);
}
