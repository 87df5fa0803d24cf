/* Versions of a model on disk: the checkpoints of a run, or the runs of a folder that are named by numbers.
 */
#ifndef RK_SERVER_VERSION_LIST_H
#define RK_SERVER_VERSION_LIST_H

#include "base/text/text.h"
#include "server/server_config.h"

typedef struct rk_listed_version {
    int64_t number;
    char *path;
} rk_listed_version;

typedef struct rk_version_list {
    rk_listed_version *versions; /* [n] newest first */
    size_t n, capacity;
} rk_version_list;

/* What the model's path holds now, by its policy, or of one number (pin; -1: none). Release after a failure
 * too. RK_NOT_FOUND: nothing. */
rk_status rk_version_list_find(const rk_model_entry *entry, int64_t pin, rk_version_list *out);
void rk_version_list_release(rk_version_list *list);
/* The names below the model's path, one after the other. As long as they stay the same nothing need be read,
 * where a look for the best checkpoint reads all of it. */
rk_status rk_list_version_names(const rk_model_entry *entry, char **out);
/* Digits alone, in a number's range; else -1. */
int64_t rk_parse_version_number(rk_span text);

#endif
