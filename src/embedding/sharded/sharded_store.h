/* A store (embedding/store.h) over ranks: a sharded collection. */
#ifndef RK_EMBEDDING_SHARDED_SHARDED_STORE_H
#define RK_EMBEDDING_SHARDED_SHARDED_STORE_H

#include "embedding/sharded/sharded.h"
#include "embedding/store.h"

/* Takes the collection, whatever happens. has_servers: ranks that do not train hold rows. */
rk_status rk_sharded_store_create(rk_sharded *sharded, bool has_servers, rk_store **out);

#endif
