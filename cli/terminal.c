#include "terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_log(void *user, rk_log_level level, const char *message) {
    (void)user;
    static const char *const names[] = {"debug", "info", "warning", "error"};
    fprintf(stderr, "reckon: %s: %s\n", names[level], message);
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
    fprintf(stderr, "reckon: error: %s\n", rk_last_error());
    return EXIT_FAILED;
}

int failed_because(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("reckon: error: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return EXIT_FAILED;
}

void usage_error(const command *cmd, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("reckon: ", stderr);
    vfprintf(stderr, format, list);
    va_end(list);
    if (cmd)
        fprintf(stderr, "\nhint: 'reckon %s --help' shows the usage\n", cmd->name);
    else
        fputs("\nhint: 'reckon --help' lists the commands\n", stderr);
}

void note(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}
