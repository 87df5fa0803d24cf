#include "train/config/cluster_config.h"

#include <math.h>

#include "base/memory.h"

static const char *const dtypes[] = {"f32", "bf16", "f16"};
static const char *const dense_wires[] = {"auto", "f32", "bf16", "int8", "powersgd"};
static const char *const shardings[] = {"auto",     "replicated",  "table_wise",
                                        "row_wise", "column_wise", "grid"};
static const char *const owner_pooling[] = {"auto", "true", "false"};

typedef struct rk_table_shard_section rk_table_shard_section;
static const rk_field shard_fields[] = {
    RK_FIELD_TEXT(rk_table_shard_section, name, true, NULL, "a table; as `reckon inspect` lists them"),
    RK_FIELD_ENUM(rk_table_shard_section, sharding, RK_SHARD_AUTO, shardings,
                  "how the table is sharded over the ranks that hold rows; auto: the planner decides "
                  "(docs/planning.md)"),
    RK_FIELD_ARRAY(I64S, rk_table_shard_section, ranks, n_ranks, 0, 1e6,
                   "the ranks that own the table, slice after slice; by default all that hold rows, for "
                   "table_wise the one with the least load"),
    RK_FIELD_I64(rk_table_shard_section, slices, 0, 0, 4096,
                 "column_wise, grid: slices of columns; column_wise by default as many as ranks"),
    RK_FIELD_ENUM(rk_table_shard_section, owner_pooling, RK_POOLING_AUTO, owner_pooling,
                  "table_wise, column_wise: the owner pools a sample's rows and sends one vector; auto: "
                  "where that sends fewer bytes, by counted loads (docs/planning.md)"),
};
static const rk_schema shard_schema = RK_SECTION_SCHEMA("tables", rk_table_shard_section, shard_fields, NULL);

static const rk_field fields[] = {
    RK_FIELD_I64(rk_cluster_section, embedding_ranks, 0, 0, 1e6,
                 "embedding servers: so many ranks (the last ones before reader_ranks) only hold rows, the "
                 "others only train; 0: every rank does both"),
    RK_FIELD_I64(rk_cluster_section, reader_ranks, 0, 0, 1e6,
                 "data loaders: the last so many ranks only read, and send each trainer its part of a batch; "
                 "0: every trainer reads all data"),
    RK_FIELD_I64(rk_cluster_section, virtual_shards, 0, 0, 1024,
                 "micro-batches of a batch, whose gradients are summed in a binary tree, so the bits do not "
                 "depend on the number of ranks; 0 = one a trainer"),
    RK_FIELD_F64(rk_cluster_section, timeout_s, 300, 0.001, 1e9,
                 "seconds to wait for another rank before it counts as lost"),
    RK_FIELD_ENUM(rk_cluster_section, wire, RK_F32, dtypes,
                  "dtype of rows and their gradients between ranks"),
    RK_FIELD_ENUM(rk_cluster_section, wire_dense, RK_WIRE_DENSE_AUTO, dense_wires,
                  "what dense gradients travel as between trainers; int8 and powersgd, by products with few "
                  "vectors: with error feedback (docs/distributed.md); auto: bf16 if 'wire' is, else f32"),
    RK_FIELD_I64(rk_cluster_section, powersgd_rank, 4, 1, 256,
                 "rank of the matrices that approximate those of gradients, 1 to 256"),
    RK_FIELD_I64(rk_cluster_section, replicate_below, 10000, 0, 1e15,
                 "tables of fewer rows are replicated on every trainer"),
    RK_FIELD_BOOL(rk_cluster_section, asynchronous, false,
                  "the dense part may be stale too: a step waits for the other ranks' gradients of "
                  "train.staleness batches before"),
    RK_FIELD_PATH(rk_cluster_section, plan, false, "a sharding plan that `reckon plan --write` made"),
    RK_FIELD_LIST(rk_cluster_section, tables, n_tables, &shard_schema, false,
                  "sharding constraints: tables that are sharded by hand"),
};
const rk_schema rk_cluster_schema = RK_SECTION_SCHEMA("cluster", rk_cluster_section, fields, NULL);

static rk_status cluster_key_error(const rk_yaml *yaml, int line, const char *key, const char *message) {
    return rk_error(RK_CONFIG, "%s: key '%s': %s", rk_yaml_location_of(yaml, line).text, key, message);
}

rk_status rk_cluster_section_check(const rk_cluster_section *section, const rk_yaml *yaml) {
    if (section->plan && section->n_tables)
        return rk_error_hint(
            cluster_key_error(yaml, section->line, "plan",
                              "'plan' already shards every table, so 'tables' cannot be given too"),
            "remove one of them, or give 'tables' to 'reckon plan' and use its plan");
    for (int64_t i = 0; i < section->n_tables; i++) {
        const rk_table_shard_section *table = &section->tables[i];
        for (int64_t k = 0; k < table->n_ranks; k++)
            for (int64_t j = 0; j < k; j++)
                if (table->ranks[k] == table->ranks[j])
                    return cluster_key_error(yaml, table->line, "ranks", "duplicate rank");
    }
    return RK_OK;
}

rk_dense_wire rk_cluster_dense_wire(const rk_cluster_section *section) {
    switch ((rk_wire_dense)section->wire_dense) {
        case RK_WIRE_DENSE_AUTO:
            return (rk_dense_wire){.rounding = section->wire == RK_BF16 ? RK_SUM_BF16 : RK_SUM_F32};
        case RK_WIRE_DENSE_BF16:
            return (rk_dense_wire){.rounding = RK_SUM_BF16};
        case RK_WIRE_DENSE_INT8:
            return (rk_dense_wire){.rounding = RK_SUM_INT8};
        case RK_WIRE_DENSE_POWERSGD:
            return (rk_dense_wire){.n_vectors = (int32_t)section->powersgd_rank};
        default:
            return (rk_dense_wire){.rounding = RK_SUM_F32};
    }
}

rk_status rk_cluster_section_roles(const rk_cluster_section *section, const rk_yaml *yaml, int32_t n_ranks,
                                   rk_roles *out) {
    int64_t readers = section->reader_ranks, owners = section->embedding_ranks, n = n_ranks;
    if (readers >= n) {
        rk_status status =
            cluster_key_error(yaml, section->line, "reader_ranks", "too large: no rank is left to train");
        return rk_error_hint(status, "there are %d ranks: start more, or set reader_ranks below %d", n_ranks,
                             n_ranks);
    }
    if (owners >= n - readers) {
        rk_status status =
            cluster_key_error(yaml, section->line, "embedding_ranks", "too large: no rank is left to train");
        if (readers)
            return rk_error_hint(status,
                                 "there are %d ranks, and reader_ranks is %d: start more ranks, or set "
                                 "embedding_ranks below %d",
                                 n_ranks, (int)readers, (int)(n - readers));
        return rk_error_hint(status, "there are %d ranks: start more, or set embedding_ranks below %d",
                             n_ranks, n_ranks);
    }
    *out = (rk_roles){(int32_t)(n - readers - owners), (int32_t)owners};
    return RK_OK;
}

rk_status rk_cluster_section_constraints(const rk_cluster_section *section, const rk_yaml *yaml,
                                         rk_planner_constraint **out) {
    rk_planner_constraint *constraints;
    RK_TRY(rk_alloc((size_t)section->n_tables, sizeof *constraints, &constraints));
    for (int64_t i = 0; i < section->n_tables; i++) {
        const rk_table_shard_section *table = &section->tables[i];
        constraints[i] = (rk_planner_constraint){.table = table->name,
                                                 .path = yaml->path,
                                                 .line = table->line,
                                                 .sharding = (rk_sharding)table->sharding,
                                                 .pooling = (rk_pooling)table->owner_pooling,
                                                 .ranks = table->ranks,
                                                 .n_ranks = (int32_t)table->n_ranks,
                                                 .n_slices = (int32_t)table->slices};
    }
    *out = constraints;
    return RK_OK;
}
