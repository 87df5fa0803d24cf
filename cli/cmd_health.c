#include <stdio.h>

#include <reckon/experimental/server.h>
#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"

enum { OPT_TIMEOUT };

static int run_health(const arguments *args) {
    const char *server = args->n_positional > 0 ? args->positional[0] : "127.0.0.1:8501";
    double timeout = args->options[OPT_TIMEOUT].given ? (double)args->options[OPT_TIMEOUT].number : 5;
    if (rk_server_health(server, timeout) != RK_OK) return report_last_error();
    puts("ready");
    return EXIT_OK;
}

const command command_health = {
    .name = "health",
    .summary = "ask a server whether it is ready",
    .positional = "[ADDRESS:PORT|serve.yaml]",
    .min_positional = 0,
    .max_positional = 1,
    .description =
        "Asks the server at an address (127.0.0.1:8501), or where a file of `reckon serve` says, whether it "
        "takes requests: a container's health check. By a file that has `tls` it asks over TLS, and does not "
        "look at "
        "the certificate. Exit status 0: it is ready; 1: it is not, or does not answer.",
    .options =
        {
            {"timeout", 't', OPTION_INT, "SECONDS", NULL, "until it must have answered (5)"},
            {0},
        },
    .examples =
        "reckon health\n"
        "reckon health serve.yaml\n",
    .run = run_health,
};
