/* The program `reckon`: finds the command, parses its arguments, runs it. */
#include <stdio.h>
#include <string.h>

#include <reckon/reckon.h>

#include "command.h"
#include "terminal.h"

int main(int argc, char **argv) {
    terminal_init();
    if (argc < 2) {
        help_program();
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0) {
        printf("reckon %s (kernels: %s, threads: %d)\n", rk_version(), rk_runtime_isa(), rk_threads());
        return EXIT_OK;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        const command *topic = argc > 2 ? command_find(argv[2]) : NULL;
        if (topic)
            help_command(topic);
        else
            help_program();
        return EXIT_OK;
    }
    const command *cmd = command_find(word);
    if (!cmd) {
        usage_error(NULL, "there is no command '%s'", word);
        return EXIT_USAGE;
    }
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            help_command(cmd);
            return EXIT_OK;
        }
    static arguments args;
    if (!arguments_parse(cmd, argc - 2, argv + 2, &args)) return EXIT_USAGE;
    return cmd->run(&args);
}
