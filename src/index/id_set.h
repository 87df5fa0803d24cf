/* Some ids, sorted, to be found among those of an index. */
#ifndef RK_INDEX_ID_SET_H
#define RK_INDEX_ID_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct rk_id_set {
    int64_t *ids; /* [n], ascending */
    int64_t n;
} rk_id_set;

rk_status rk_id_set_create(const int64_t *ids, int64_t n, rk_id_set *out);
void rk_id_set_release(rk_id_set *set);
/* None is below 0, and none is there twice. */
rk_status rk_id_set_check_unique(const rk_id_set *set);

#endif
