#include <stdio.h>

#include <reckon/experimental/server.h>
#include <reckon/reckon.h>

#include "command.h"
#include "stop_signals.h"
#include "terminal.h"

enum { OPT_LISTEN, OPT_NAME };

static void stop_server(void *server) {
    rk_server_stop(server);
}

static int run_serve(const arguments *args) {
    rk_server_options options = RK_SERVER_OPTIONS_INIT;
    rk_server *server;
    options.listen = args->options[OPT_LISTEN].text;
    options.name = args->options[OPT_NAME].text;
    if (rk_server_create(args->positional[0], &options, &server) != RK_OK) return report_last_error();
    const stoppable running = {stop_server, server};
    stop_signals_install(&running);
    print_note("serves at port %d; Ctrl-C stops it", rk_server_port(server));
    rk_status status = rk_server_run(server);
    stop_signals_uninstall();
    rk_server_free(server);
    return status == RK_OK ? EXIT_OK : report_last_error();
}

const command command_serve = {
    .name = "serve",
    .summary = "answer requests over HTTP",
    .positional = "RUN|serve.yaml",
    .min_positional = 1,
    .max_positional = 1,
    .description =
        "Serves a trained run, an export of one, or the models of a file, by TensorFlow Serving's REST API "
        "and the Open Inference Protocol, on this machine's own address unless told otherwise. New versions "
        "are loaded as they appear; SIGTERM lets requests under way end (docs/serving.md).",
    .options =
        {
            {"listen", 'l', OPTION_TEXT, "ADDRESS:PORT", NULL,
             "where, in place of 127.0.0.1:8501; port 0: any that is free"},
            {"name", 'n', OPTION_TEXT, "NAME", NULL,
             "of a run: what requests call it, in place of its folder's name"},
            {0},
        },
    .examples =
        "reckon serve runs/adult\n"
        "reckon export --rows int8 runs/adult adult-int8 && reckon serve adult-int8\n"
        "curl -d '{\"instances\": [{\"age\": 39, ...}]}' localhost:8501/v1/models/adult:predict\n",
    .run = run_serve,
};
