#include <string.h>

#include "command.h"

#define COMMAND_POINTER(name) &command_##name,
static const command *const all[] = {COMMAND_LIST(COMMAND_POINTER)};
#undef COMMAND_POINTER

const command *const *command_all(size_t *n) {
    *n = sizeof all / sizeof all[0];
    return all;
}

size_t n_alike(const char *a, const char *b) {
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    return n;
}

const command *command_like(const char *name) {
    const command *like = NULL;
    size_t most = 1; /* one letter says nothing */
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t n = n_alike(name, all[i]->name);
        if (all[i]->hidden || n <= most) continue;
        most = n;
        like = all[i];
    }
    return like;
}

const command *command_find(const char *name) {
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    return NULL;
}
