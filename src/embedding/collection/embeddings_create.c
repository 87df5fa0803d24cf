/* A caller's config of a collection, whose structs may be of other sizes than the library's, as its own. */
#include <reckon/embeddings.h>

#include "base/memory.h"
#include "base/struct_size.h"
#include "base/thread/parallel.h"
#include "embedding/collection/dynamic_options.h"
#include "embedding/collection/sharded_embeddings.h"
#include "embedding/local/collection.h"
#include "optim/optimizer.h"

typedef struct taken_config {
    rk_embeddings_config config;
    rk_optimizer optimizer;
    rk_table_config *tables;     /* [n_tables] */
    rk_optimizer *optimizers;    /* [n_tables], of those that have one */
    rk_dynamic_config *dynamic;  /* [n_tables], max_capacity 0 of static ones */
    rk_table_part *parts;        /* [n_tables], whole tables */
    rk_feature_config *features; /* [n_features] */
} taken_config;

static void copied_config_release(taken_config *taken) {
    RK_FREE_ALL(taken->tables, taken->optimizers, taken->dynamic, taken->parts, taken->features);
}

/* A dynamic table's rows are as many as it may have. The caller's options are not looked at again. */
static rk_status set_table_rows(rk_table_config *table, rk_dynamic_config *dynamic, rk_table_part *part) {
    if (table->dynamic) {
        RK_TRY(rk_dynamic_options_copy_in(table, dynamic));
        table->n_rows = dynamic->max_capacity;
    }
    *part = (rk_table_part){
        .n_rows = table->n_rows, .dim = table->dim, .dynamic = table->dynamic ? dynamic : NULL};
    table->dynamic = NULL;
    return RK_OK;
}

static rk_status copy_tables(taken_config *taken) {
    size_t n = (size_t)taken->config.n_tables;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, taken->tables), RK_ARRAY(n, taken->optimizers),
                        RK_ARRAY(n, taken->dynamic), RK_ARRAY(n, taken->parts)));
    RK_TRY(rk_options_copy_in_array(taken->tables, sizeof *taken->tables, taken->config.tables, n,
                                    RK_SIZE_WITH(rk_table_config, frozen), "rk_table_config"));
    for (size_t t = 0; t < n; t++) {
        rk_table_config *table = &taken->tables[t];
        RK_TRY(set_table_rows(table, &taken->dynamic[t], &taken->parts[t]));
        if (!table->optimizer) continue;
        rk_status status = rk_optimizer_copy_in(table->optimizer, &taken->optimizers[t]);
        if (status != RK_OK) return rk_error_context(status, "table '%s'", table->name ? table->name : "");
        table->optimizer = &taken->optimizers[t];
    }
    taken->config.tables = taken->tables;
    return RK_OK;
}

static rk_status copy_features(taken_config *taken) {
    size_t n = (size_t)taken->config.n_features;
    RK_TRY(rk_alloc(n, sizeof *taken->features, &taken->features));
    RK_TRY(rk_options_copy_in_array(taken->features, sizeof *taken->features, taken->config.features, n,
                                    RK_SIZE_WITH(rk_feature_config, weighted), "rk_feature_config"));
    taken->config.features = taken->features;
    return RK_OK;
}

static rk_status copy_config(taken_config *taken, const rk_embeddings_config *config) {
    rk_embeddings_config *c = &taken->config;
    RK_TRY(rk_options_copy_in(c, sizeof *c, config, RK_SIZE_WITH(rk_embeddings_config, optimizer),
                              "rk_embeddings_config"));
    RK_FAIL_IF(!config || c->n_tables < 0 || c->n_features < 0 || (c->n_tables && !c->tables) ||
                   (c->n_features && !c->features),
               RK_INVALID_ARGUMENT, "the embeddings' config is missing or incomplete");
    if (c->optimizer) {
        RK_TRY(rk_optimizer_copy_in(c->optimizer, &taken->optimizer));
        c->optimizer = &taken->optimizer;
    }
    RK_TRY(copy_tables(taken));
    return copy_features(taken);
}

rk_status rk_embeddings_create(const rk_embeddings_config *config, rk_embeddings **out) {
    taken_config taken = {.config = RK_EMBEDDINGS_CONFIG_INIT};
    rk_status status = copy_config(&taken, config);
    rk_comm *comm = config ? taken.config.comm : NULL;
    if (comm && rk_comm_size(comm) > 1)
        RK_ON_POOL(taken.config.pool,
                   status = rk_sharded_embeddings_create(&taken.config, taken.dynamic, status, out));
    else if (status == RK_OK)
        RK_ON_POOL(taken.config.pool,
                   status = rk_embeddings_create_with_parts(&taken.config, taken.parts, out));
    if (status == RK_OK) (*out)->pins_rows = true;
    copied_config_release(&taken);
    return status;
}
