#include <string.h>

#include "command.h"

#define COMMAND_POINTER(name) &command_##name,
static const command *const all[] = {COMMAND_LIST(COMMAND_POINTER)};
#undef COMMAND_POINTER

const command *const *list_commands(size_t *n) {
    *n = sizeof all / sizeof all[0];
    return all;
}

bool has_longer_common_prefix(const char *name, const char *word, size_t *most) {
    size_t n = 0;
    while (name[n] && name[n] == word[n]) n++;
    bool more = n >= 2 && n > *most; /* one letter says nothing */
    if (more) *most = n;
    return more;
}

const command *find_nearest_command(const char *name) {
    const command *like = NULL;
    size_t most = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!all[i]->hidden && has_longer_common_prefix(all[i]->name, name, &most)) like = all[i];
    return like;
}

const command *find_command(const char *name) {
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    return NULL;
}
