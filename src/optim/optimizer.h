/* A caller's optimizer options as the library's own. */
#ifndef RK_OPTIM_OPTIMIZER_H
#define RK_OPTIM_OPTIMIZER_H

#include <reckon/optimizer.h>

/* What the caller's struct says, and the kind's defaults for fields that it is too old to have. Errors:
 * RK_INVALID_ARGUMENT (a struct_size or a kind that is none). */
rk_status rk_optimizer_copy_in(const rk_optimizer *optimizer, rk_optimizer *out);

#endif
