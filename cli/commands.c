#include <string.h>

#include "command.h"

#define COMMAND_POINTER(name) &command_##name,
static const command *const all[] = {COMMAND_LIST(COMMAND_POINTER)};
#undef COMMAND_POINTER

const command *const *command_all(size_t *n) {
    *n = sizeof all / sizeof all[0];
    return all;
}

const command *command_find(const char *name) {
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    return NULL;
}
