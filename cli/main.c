/* The program `reckon`: finds the command, parses its arguments, runs it. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include <reckon/reckon.h>

#include "bus_error.h"
#include "command.h"
#include "terminal.h"

/* What was printed must have arrived: a full disk, say, is a failure. */
static int flush_stdout(int code) {
    bool lost = ferror(stdout) || fflush(stdout) != 0;
    return lost && code == EXIT_OK ? report_error("standard output could not be written") : code;
}

static int run_command(int argc, char **argv) {
    if (argc < 2) {
        print_program_help();
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0) {
        printf("reckon %s (kernels: %s, threads: %d)\n", rk_version(), rk_runtime_isa(), rk_threads());
        return EXIT_OK;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        const command *topic = argc > 2 ? find_command(argv[2]) : NULL;
        if (topic)
            print_command_help(topic);
        else
            print_program_help();
        return EXIT_OK;
    }
    const command *cmd = find_command(word);
    if (!cmd) {
        const command *like = find_nearest_command(word);
        report_usage_error(NULL,
                           like ? "there is no command '%s'; there is '%s'" : "there is no command '%s'",
                           word, like ? like->name : "");
        return EXIT_USAGE;
    }
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_command_help(cmd);
            return EXIT_OK;
        }
    static arguments args;
    if (!arguments_parse(cmd, argc - 2, argv + 2, &args)) return EXIT_USAGE;
    return cmd->run(&args);
}

/* glibc raises the size from which memory is the kernel's to whatever was freed last, and then keeps what
 * growing arrays leave behind: up to a fifth of a run's memory. */
static void lower_mmap_threshold(void) {
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 1 << 18);
#endif
}

int main(int argc, char **argv) {
    lower_mmap_threshold();
    terminal_init();
    bus_error_install_handler();
    return flush_stdout(run_command(argc, argv));
}
