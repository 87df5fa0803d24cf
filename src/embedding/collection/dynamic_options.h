/* A caller's options of a dynamic table as the library's own. */
#ifndef RK_EMBEDDING_COLLECTION_DYNAMIC_OPTIONS_H
#define RK_EMBEDDING_COLLECTION_DYNAMIC_OPTIONS_H

#include "base/error.h"
#include "embedding/dynamic_config.h"

/* table: with its own options. RK_INVALID_ARGUMENT names the table. */
rk_status rk_dynamic_options_copy_in(const rk_table_config *table, rk_dynamic_config *out);

#endif
