/* What the program says on the terminal: errors, notes, the library's log. Results go to stdout, the rest to
 * stderr. */
#ifndef RK_CLI_TERMINAL_H
#define RK_CLI_TERMINAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <reckon/status.h>

#include "command.h"

void terminal_init(void);           /* send the library's log to stderr: warnings, or what RK_LOG says */
bool terminal_is_interactive(void); /* stderr is a terminal */

/* Text with names and values in it, which are whatever a file says: what a terminal would obey is written as
 * \xNN. On stderr nothing is printed in another way. */
void print_text(FILE *out, const char *text);
void print_format(const char *format, va_list list); /* on stderr */
/* "reckon: error: <reason of the last failure>" with its hint; returns EXIT_FAILED. */
int report_last_error(void);
/* As report_last_error, for a reason of the program's own. */
int report_error(const char *format, ...) RK_PRINTF(1, 2);
/* "reckon: ..." and where to read on; the caller returns EXIT_USAGE. cmd may be NULL. */
void report_usage_error(const command *cmd, const char *format, ...) RK_PRINTF(2, 3);
void print_note(const char *format, ...) RK_PRINTF(1, 2);

#endif
