#include "train/config/plan_file.h"

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"

static const char *const shardings[] = {"auto",     "replicated",  "table_wise",
                                        "row_wise", "column_wise", "grid"};

typedef struct rk_planned rk_planned;
typedef struct rk_planned_table rk_planned_table;
static const rk_field table_fields[] = {
    RK_FIELD_TEXT(rk_planned_table, name, true, NULL, "the table's name"),
    RK_FIELD_I64(rk_planned_table, rows, RK_REQUIRED_NUMBER, 1, 1e15, "its number of rows"),
    RK_FIELD_I64(rk_planned_table, dim, RK_REQUIRED_NUMBER, 1, 4096, "values a row"),
    RK_FIELD_ENUM(rk_planned_table, sharding, RK_REQUIRED_NUMBER, shardings, "how it is sharded"),
    RK_FIELD_I64(rk_planned_table, slices, 1, 1, 4096, "number of column slices"),
    RK_FIELD_ARRAY(I64S, rk_planned_table, ranks, n_ranks, 0, 1e6, "owners of the parts, slice after slice"),
    RK_FIELD_BOOL(rk_planned_table, owner_pooling, false, "the owner pools a sample's rows"),
};
static const rk_schema table_schema = RK_SECTION_SCHEMA("tables", rk_planned_table, table_fields, NULL);
static const rk_field fields[] = {
    RK_FIELD_I64(rk_planned, trainers, RK_REQUIRED_NUMBER, 1, 1e6, "ranks that train"),
    RK_FIELD_I64(rk_planned, owners, 0, 0, 1e6, "ranks that only hold rows"),
    RK_FIELD_LIST(rk_planned, tables, n_tables, &table_schema, true, "every table of the run"),
};
static const rk_schema schema = RK_SCHEMA("plan", rk_planned, fields);

static rk_status check_planned_table(const rk_plan_file *file, const rk_planned_table *table) {
    bool replicated = table->sharding == RK_SHARD_REPLICATED;
    const char *problem = table->sharding == RK_SHARD_AUTO     ? "'sharding' must not be auto in a plan"
                          : replicated && table->n_ranks       ? "a replicated table cannot have 'ranks'"
                          : !replicated && table->n_ranks == 0 ? "needs the key 'ranks'"
                          : !replicated && table->n_ranks % table->slices
                              ? "the number of ranks must be a multiple of 'slices'"
                              : NULL;
    if (!problem) return RK_OK;
    return rk_error(RK_CONFIG, "%s:%d: key 'tables': table '%s': %s", file->yaml.path, table->line,
                    table->name, problem);
}

static rk_status make_planner_constraints(rk_plan_file *file) {
    RK_TRY(rk_alloc((size_t)file->planned.n_tables, sizeof *file->constraints, &file->constraints));
    for (int64_t i = 0; i < file->planned.n_tables; i++) {
        const rk_planned_table *t = &file->planned.tables[i];
        RK_TRY(check_planned_table(file, t));
        bool sliced = t->sharding == RK_SHARD_COLUMN_WISE || t->sharding == RK_SHARD_GRID;
        file->constraints[i] =
            (rk_planner_constraint){.table = t->name,
                                    .path = file->yaml.path,
                                    .line = t->line,
                                    .sharding = (rk_sharding)t->sharding,
                                    .pooling = t->owner_pooling ? RK_POOLING_ON : RK_POOLING_OFF,
                                    .ranks = t->ranks,
                                    .n_ranks = (int32_t)t->n_ranks,
                                    .n_slices = sliced ? (int32_t)t->slices : 0,
                                    .n_rows = t->rows,
                                    .dim = (int32_t)t->dim};
    }
    return RK_OK;
}

rk_status rk_plan_file_load(const char *path, rk_plan_file *out) {
    RK_AUTO(rk_plan_file_release) rk_plan_file file = {0};
    RK_AUTOFREE char *text = NULL;
    size_t n_bytes;
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    RK_TRY(rk_yaml_parse(path, text, n_bytes, &file.yaml));
    RK_TRY(rk_schema_bind(&schema, &file.yaml, file.yaml.root, &file.planned));
    RK_TRY(make_planner_constraints(&file));
    *out = file;
    file = (rk_plan_file){0};
    return RK_OK;
}

void rk_plan_file_release(rk_plan_file *file) {
    rk_free(file->constraints);
    rk_schema_release(&schema, &file->planned);
    rk_yaml_release(&file->yaml);
}

rk_status rk_plan_file_check_roles(const rk_plan_file *file, const rk_roles *roles) {
    if (file->planned.trainers == roles->n_trainers && file->planned.owners == roles->n_owners) return RK_OK;
    rk_status status = rk_error(
        RK_CONFIG, "the plan '%s' is for %lld trainers and %lld embedding servers, but the run has %d and %d",
        file->yaml.path, (long long)file->planned.trainers, (long long)file->planned.owners,
        roles->n_trainers, roles->n_owners);
    return rk_error_hint(
        status, "start %lld ranks with cluster.embedding_ranks: %lld, or make a new plan with 'reckon plan'",
        (long long)(file->planned.trainers + file->planned.owners), (long long)file->planned.owners);
}

static rk_status fill_planned_table(const rk_table_config *config, const rk_table_placement *p,
                                    rk_planned_table *out) {
    *out = (rk_planned_table){.line = 1,
                              .rows = config->n_rows,
                              .dim = config->dim,
                              .sharding = rk_table_placement_sharding(p),
                              .slices = p->n_slices,
                              .owner_pooling = p->owner_pooling};
    RK_TRY(rk_strdup(config->name, &out->name));
    if (p->replicated) return RK_OK;
    out->n_ranks = (int64_t)p->n_slices * p->n_parts;
    RK_TRY(rk_alloc((size_t)out->n_ranks, sizeof *out->ranks, &out->ranks));
    for (int64_t i = 0; i < out->n_ranks; i++) out->ranks[i] = p->owners[i];
    return RK_OK;
}

rk_status rk_plan_file_write(const char *path, const rk_roles *roles, const rk_table_config *tables,
                             const rk_table_placement *placements, int32_t n_tables) {
    rk_planned planned = {.trainers = roles->n_trainers, .owners = roles->n_owners};
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    rk_status status;
    RK_GOTO(rk_alloc((size_t)n_tables, sizeof *planned.tables, &planned.tables));
    planned.n_tables = n_tables;
    for (int32_t t = 0; t < n_tables; t++)
        RK_GOTO(fill_planned_table(&tables[t], &placements[t], &planned.tables[t]));
    rk_buffer_append_text(&text, "# Made by `reckon plan`; a run file names it as cluster.plan.\n");
    rk_schema_emit(&schema, &planned, 0, &text);
    RK_GOTO(text.status);
    RK_GOTO(rk_file_write(path, text.data, text.n_bytes));
done:
    rk_schema_release(&schema, &planned);
    return status;
}
