#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "terminal.h"

static int find_option(const command *cmd, const char *name, size_t n_bytes, char letter) {
    for (int i = 0; i < MAX_OPTIONS && cmd->options[i].name; i++) {
        const option *opt = &cmd->options[i];
        if (letter ? opt->letter == letter
                   : strlen(opt->name) == n_bytes && memcmp(opt->name, name, n_bytes) == 0)
            return i;
    }
    return -1;
}

/* The option that begins most like it, by two letters or more; or NULL. */
static const char *nearest_option(const command *cmd, const char *name) {
    const char *like = NULL;
    size_t most = 0;
    for (int i = 0; i < MAX_OPTIONS && cmd->options[i].name; i++)
        if (has_longer_common_prefix(cmd->options[i].name, name, &most)) like = cmd->options[i].name;
    return like;
}

static bool is_allowed_choice(const char *choices, const char *value) {
    size_t n_bytes = strlen(value);
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strncmp(at, value, n_bytes) == 0 && (at[n_bytes] == '|' || at[n_bytes] == 0)) return true;
    return false;
}

static bool set_option(const command *cmd, int index, const char *value, arguments *out) {
    const option *opt = &cmd->options[index];
    out->options[index].given = true;
    out->options[index].text = value;
    if (opt->choices && !is_allowed_choice(opt->choices, value)) {
        report_usage_error(cmd, "--%s takes one of %s, not '%s'", opt->name, opt->choices, value);
        return false;
    }
    if (opt->kind == OPTION_TEXT && !*value) { /* such as "$DIR" where there is no DIR */
        report_usage_error(cmd, "--%s needs a value: %s", opt->name, opt->value);
        return false;
    }
    if (opt->kind == OPTION_INT) {
        char *end;
        errno = 0;
        out->options[index].number = strtol(value, &end, 10);
        if (errno || *end || end == value || out->options[index].number < 0) {
            report_usage_error(cmd, "--%s takes a whole number, not '%s'", opt->name, value);
            return false;
        }
    }
    if (opt->kind == OPTION_LIST) {
        if (out->options[index].n_list == MAX_LIST) {
            report_usage_error(cmd, "--%s may be given %d times at most", opt->name, MAX_LIST);
            return false;
        }
        out->options[index].list[out->options[index].n_list++] = value;
    }
    return true;
}

/* One option at argv[*at]; moves *at past its value. */
static bool parse_option(const command *cmd, int argc, char **argv, int *at, arguments *out) {
    const char *word = argv[*at];
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    const char *equals = is_long ? strchr(name, '=') : NULL;
    size_t n_bytes = equals ? (size_t)(equals - name) : strlen(name);
    int index = find_option(cmd, name, n_bytes, is_long ? 0 : name[0]);
    if (index < 0) {
        const char *like = is_long ? nearest_option(cmd, name) : NULL;
        report_usage_error(cmd,
                           like ? "'reckon %s' has no option '%.*s'; did you mean '--%s'?"
                                : "'reckon %s' has no option '%.*s'",
                           cmd->name, (int)(n_bytes + (size_t)(name - word)), word, like);
        return false;
    }
    const option *opt = &cmd->options[index];
    const char *value = equals ? equals + 1 : (!is_long && name[1]) ? name + 1 : NULL;
    if (opt->kind == OPTION_FLAG) {
        if (value) {
            report_usage_error(cmd, "--%s takes no value", opt->name);
            return false;
        }
        out->options[index].given = true;
        return true;
    }
    if (!value) {
        if (*at + 1 >= argc) {
            report_usage_error(cmd, "--%s needs a value: %s", opt->name, opt->value);
            return false;
        }
        value = argv[++*at];
    }
    return set_option(cmd, index, value, out);
}

bool arguments_parse(const command *cmd, int argc, char **argv, arguments *out) {
    memset(out, 0, sizeof *out);
    bool only_positional = false;
    for (int i = 0; i < argc; i++) {
        if (!only_positional && strcmp(argv[i], "--") == 0) {
            only_positional = true;
        } else if (!only_positional && argv[i][0] == '-' && argv[i][1]) {
            if (!parse_option(cmd, argc, argv, &i, out)) return false;
        } else if (out->n_positional == cmd->max_positional) {
            report_usage_error(cmd, "unexpected argument '%s'", argv[i]);
            return false;
        } else {
            out->positional[out->n_positional++] = argv[i];
        }
    }
    if (out->n_positional < cmd->min_positional) {
        report_usage_error(cmd, "'reckon %s' needs %s", cmd->name, cmd->positional);
        return false;
    }
    return true;
}
