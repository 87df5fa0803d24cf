/* Everything that is written from the table of commands: help, man page, shell completion. */
#include <stdio.h>
#include <string.h>

#include <reckon/status.h>
#include <reckon/version.h>

#include "command.h"

static void print_option_help(const option *opt) {
    char left[64];
    int n = snprintf(left, sizeof left, "  %c%c%s --%s", opt->letter ? '-' : ' ',
                     opt->letter ? opt->letter : ' ', opt->letter ? "," : " ", opt->name);
    if (opt->kind != OPTION_FLAG) snprintf(left + n, sizeof left - (size_t)n, " %s", opt->value);
    printf("%-30s %s%s%s%s\n", left, opt->help, opt->choices ? " (" : "", opt->choices ? opt->choices : "",
           opt->choices ? ")" : "");
}

static const option help_option = {"help", 'h', OPTION_FLAG, NULL, NULL, "show this help"};

void print_program_help(void) {
    printf(
        "reckon %s: recommendation models with embedding tables larger than one device\n\nusage: reckon "
        "COMMAND ...\n\n",
        rk_version());
    size_t n;
    const command *const *all = list_commands(&n);
    for (size_t i = 0; i < n; i++)
        if (!all[i]->hidden) printf("  %-12s %s\n", all[i]->name, all[i]->summary);
    printf(
        "\n'reckon COMMAND --help' shows a command's options and examples; 'reckon --version' the version.\n"
        "environment: RK_THREADS (threads), RK_ISA (scalar, avx2, avx512), RK_LOG (debug, info, warning, "
        "error)\n");
}

void print_command_help(const command *cmd) {
    printf("reckon %s: %s\n\nusage: reckon %s [OPTIONS] %s\n\n%s\n\noptions:\n", cmd->name, cmd->summary,
           cmd->name, cmd->positional, cmd->description);
    for (int i = 0; i < MAX_OPTIONS && cmd->options[i].name; i++) print_option_help(&cmd->options[i]);
    print_option_help(&help_option);
    printf("\nexamples:\n");
    for (const char *line = cmd->examples; *line;) {
        const char *end = strchrnul(line, '\n');
        printf("  %.*s\n", (int)(end - line), line);
        line = *end ? end + 1 : end;
    }
}

/* Text in roff: hyphens that are typed, and no line that begins with a dot. */
static void print_escaped_for_roff(const char *text) {
    for (const char *at = text; *at; at++) {
        if (*at == '-') fputc('\\', stdout);
        if (*at == '\\') fputc('\\', stdout);
        fputc(*at, stdout);
    }
}

void print_manual_page(void) {
    printf(
        ".TH RECKON 1 \"\" \"reckon %s\" \"User Commands\"\n.SH NAME\nreckon \\- train, evaluate and use "
        "recommendation models\n"
        ".SH SYNOPSIS\n.B reckon\nCOMMAND [OPTIONS] ...\n.SH COMMANDS\n",
        rk_version());
    size_t n;
    const command *const *all = list_commands(&n);
    for (size_t i = 0; i < n; i++) {
        if (all[i]->hidden) continue;
        printf(".SS reckon %s [OPTIONS] %s\n", all[i]->name, all[i]->positional);
        print_escaped_for_roff(all[i]->description);
        fputc('\n', stdout);
        for (int j = 0; j < MAX_OPTIONS && all[i]->options[j].name; j++) {
            const option *opt = &all[i]->options[j];
            printf(".TP\n.B ");
            if (opt->letter) printf("\\-%c, ", opt->letter);
            printf("\\-\\-");
            print_escaped_for_roff(opt->name);
            printf("%s%s\n", opt->kind == OPTION_FLAG ? "" : " ", opt->kind == OPTION_FLAG ? "" : opt->value);
            print_escaped_for_roff(opt->help);
            printf("%s%s%s\n", opt->choices ? " (" : "", opt->choices ? opt->choices : "",
                   opt->choices ? ")" : "");
        }
        printf(".PP\nExamples:\n.PP\n.nf\n");
        print_escaped_for_roff(all[i]->examples);
        printf("\n.fi\n");
    }
    printf(
        ".SH EXIT STATUS\n0: done. 1: the run failed. 2: wrong usage. 130, 143: it was stopped by SIGINT or "
        "SIGTERM; a training has saved and can be resumed.\n"
        ".SH ENVIRONMENT\n.TP\n.B RK_THREADS\nthreads of the library's pool\n.TP\n.B RK_ISA\nkernels: "
        "scalar, avx2 or avx512\n"
        ".TP\n.B RK_LOG\nleast level of messages: debug, info, warning or error\n");
}

static void print_bash_completion(void) {
    size_t n;
    const command *const *all = list_commands(&n);
    printf(
        "_reckon() {\n    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} "
        "words=\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"");
    for (size_t i = 0; i < n; i++)
        if (!all[i]->hidden) printf("%s ", all[i]->name);
    printf("help --help --version\"\n    else\n        case ${COMP_WORDS[1]}:$previous in\n");
    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < MAX_OPTIONS && all[i]->options[j].name; j++)
            if (all[i]->options[j].choices)
                printf("            %s:--%s) words=$(echo '%s' | tr '|' ' ') ;;\n", all[i]->name,
                       all[i]->options[j].name, all[i]->options[j].choices);
    /* a key of the reference, and what follows its '=' is free; readline takes '=' for a word of its own */
    printf(
        "            *:--set|*:-s|*:--grid|*:--range) words=$(\"${COMP_WORDS[0]}\" manual keys 2>/dev/null | "
        "sed -n 's/^| `\\([^`[]*\\)`.*/\\1=/p')\n"
        "                compopt -o nospace 2>/dev/null ;;\n");
    printf(
        "        esac\n        if [ -z \"$words\" ]; then\n            case ${COMP_WORDS[1]}:$current in\n");
    for (size_t i = 0; i < n; i++) {
        if (all[i]->hidden) continue;
        printf("                %s:-*) words=\"", all[i]->name);
        for (int j = 0; j < MAX_OPTIONS && all[i]->options[j].name; j++)
            printf("--%s ", all[i]->options[j].name);
        printf("--help\" ;;\n");
    }
    printf(
        "            esac\n        fi\n    fi\n    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n"
        "complete -o default -F _reckon reckon\n");
}

static void print_zsh_completion(void) {
    printf("#compdef reckon\nautoload -U +X bashcompinit && bashcompinit\n");
    print_bash_completion();
}

static void print_fish_completion(void) {
    size_t n;
    const command *const *all = list_commands(&n);
    for (size_t i = 0; i < n; i++) {
        if (all[i]->hidden) continue;
        printf("complete -c reckon -n __fish_use_subcommand -a %s -d \"%s\"\n", all[i]->name,
               all[i]->summary);
        for (int j = 0; j < MAX_OPTIONS && all[i]->options[j].name; j++)
            printf("complete -c reckon -n '__fish_seen_subcommand_from %s' -l %s%s -d \"%s\"\n", all[i]->name,
                   all[i]->options[j].name, all[i]->options[j].kind == OPTION_FLAG ? "" : " -r",
                   all[i]->options[j].help);
    }
}

bool print_shell_completion(const char *shell) {
    static const struct {
        const char *shell;
        void (*print)(void);
    } printers[] = {
        {"bash", print_bash_completion}, {"zsh", print_zsh_completion}, {"fish", print_fish_completion}};
    for (size_t i = 0; i < sizeof printers / sizeof printers[0]; i++)
        if (strcmp(shell, printers[i].shell) == 0) {
            printers[i].print();
            return true;
        }
    return false;
}
