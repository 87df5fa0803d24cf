#include <stdio.h>
#include <string.h>

#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"

static int run_manual(const arguments *args) {
    if (args->n_positional == 0) {
        print_manual_page();
        return EXIT_OK;
    }
    if (strcmp(args->positional[0], "keys") != 0) {
        report_usage_error(&command_manual, "there is no manual of '%s'", args->positional[0]);
        return EXIT_USAGE;
    }
    char *text;
    if (rk_config_reference(&text) != RK_OK) return report_last_error();
    fputs(text, stdout);
    rk_text_free(text);
    return EXIT_OK;
}

const command command_manual = {
    .name = "manual",
    .summary = "print the man page, or the reference of every key of a run file",
    .positional = "[keys]",
    .max_positional = 1,
    .description =
        "Prints the man page in roff, or with 'keys' a Markdown reference of every key of a run file.",
    .examples = "reckon manual > reckon.1\nreckon manual keys | less",
    .run = run_manual,
};
