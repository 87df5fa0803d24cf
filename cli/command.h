/* One table describes every command: parsing, --help, the man page and shell completion all read it. */
#ifndef RK_CLI_COMMAND_H
#define RK_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef enum option_kind {
    OPTION_FLAG, /* --name */
    OPTION_TEXT, /* --name VALUE or --name=VALUE */
    OPTION_INT,  /* a whole number >= 0 */
    OPTION_LIST  /* OPTION_TEXT that may be given several times */
} option_kind;

typedef struct option {
    const char *name; /* without the dashes */
    char letter;      /* short form, or 0 */
    option_kind kind;
    const char *value;   /* what VALUE is called in the help */
    const char *choices; /* "a|b|c", or NULL */
    const char *help;
} option;

enum { MAX_OPTIONS = 16, MAX_LIST = 256, MAX_ARGUMENTS = 16 };

/* What the user gave; index i belongs to the command's options[i]. */
typedef struct arguments {
    const char *positional[MAX_ARGUMENTS];
    int n_positional;
    struct {
        bool given;
        const char *text; /* NULL: not given */
        long number;
        const char *list[MAX_LIST];
        size_t n_list;
    } options[MAX_OPTIONS];
} arguments;

typedef struct command {
    const char *name;
    const char *summary;    /* one line */
    const char *positional; /* "RUN.yaml", "INPUT OUTPUT" */
    int min_positional, max_positional;
    const char *description;
    option options[MAX_OPTIONS]; /* ended by a NULL name */
    const char *examples;        /* lines, each a command */
    int (*run)(const arguments *args);
    bool hidden; /* left out of the help's list */
} command;

/* Every command, in the order of the help. */
#define COMMAND_LIST(X) \
    X(train)            \
    X(eval)             \
    X(predict)          \
    X(recommend)        \
    X(index)            \
    X(export)           \
    X(serve) X(health) X(report) X(convert) X(inspect) X(tune) X(bench) X(plan) X(completion) X(manual)
#define COMMAND_DECLARE(name) extern const command command_##name;
COMMAND_LIST(COMMAND_DECLARE)
#undef COMMAND_DECLARE

const command *find_command(const char *name);
/* The one that begins most like the name, by two letters or more; or NULL. */
const command *find_nearest_command(const char *name);
bool has_longer_common_prefix(const char *name, const char *word,
                              size_t *most); /* begins like it by two letters or more, and by more than *most
                                                (at first 0), which it sets */
const command *const *list_commands(size_t *n);

/* Fill *out from argv[0..argc); false after printing what is wrong (exit EXIT_USAGE). */
bool arguments_parse(const command *cmd, int argc, char **argv, arguments *out);

void print_program_help(void);
void print_command_help(const command *cmd);
void print_manual_page(void);                   /* the man page, in roff */
bool print_shell_completion(const char *shell); /* "bash", "zsh" or "fish"; false: no such shell */

#endif
