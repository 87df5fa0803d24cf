#include "command.h"
#include "terminal.h"

static int run_completion(const arguments *args) {
    if (print_shell_completion(args->positional[0])) return EXIT_OK;
    report_usage_error(&command_completion, "there is no completion for the shell '%s'", args->positional[0]);
    return EXIT_USAGE;
}

const command command_completion = {
    .name = "completion",
    .summary = "print a shell's completion script",
    .positional = "bash|zsh|fish",
    .min_positional = 1,
    .max_positional = 1,
    .description = "Prints a script that makes the shell complete reckon's commands and options.",
    .examples =
        "source <(reckon completion bash)\nreckon completion fish > ~/.config/fish/completions/reckon.fish",
    .run = run_completion,
};
