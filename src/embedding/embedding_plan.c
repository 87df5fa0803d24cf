/* From the embedding section and the data's features to a collection's config. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "embedding/collection.h"
#include "embedding/embedding_config.h"

typedef struct rk_table_section rk_table_section;
typedef struct rk_feature_section rk_feature_section;

typedef struct planner {
    const rk_embedding_section *section;
    const char *path;
    const rk_yaml *yaml;
    const rk_embedding_source *sources;
    int32_t n_sources;
    rk_optimizer fallback;
    rk_embedding_plan *plan;
} planner;

static rk_status error_at(const planner *p, int line, const char *key, const char *message) {
    return rk_error(RK_CONFIG, "%s:%d: key '%s': %s", p->path, line, key, message);
}

static rk_status unknown_name(const planner *p, int line, const char *key, const char *what, const char *name, const char *const *names, size_t n) {
    char message[512];
    snprintf(message, sizeof message, "there is no %s '%s'", what, name);
    rk_status status = error_at(p, line, key, message);
    const char *nearest = rk_nearest(name, names, n);
    return nearest ? rk_error_hint(status, "did you mean '%s'?", nearest) : status;
}

static rk_status check_names(const planner *p) {
    const rk_embedding_section *s = p->section;
    size_t n_sources = (size_t)p->n_sources, n_tables = (size_t)s->n_tables;
    const char **names = NULL;
    RK_TRY(rk_alloc(n_sources + n_tables, sizeof *names, &names));
    for (size_t i = 0; i < n_sources; i++) names[i] = p->sources[i].name;
    for (size_t i = 0; i < n_tables; i++) names[n_sources + i] = s->tables[i].name;
    rk_status status = RK_OK;
    for (int64_t i = 0; status == RK_OK && i < s->n_tables; i++)
        for (int64_t j = 0; j < i; j++)
            if (strcmp(s->tables[i].name, s->tables[j].name) == 0) RK_GOTO(error_at(p, s->tables[i].line, "name", "a second table of this name"));
    for (int64_t i = 0; i < s->n_features; i++) {
        const rk_feature_section *f = &s->features[i];
        for (int64_t j = 0; j < i; j++)
            if (strcmp(f->name, s->features[j].name) == 0) RK_GOTO(error_at(p, f->line, "name", "a second entry for this feature"));
        size_t k = 0;
        while (k < n_sources && strcmp(names[k], f->name) != 0) k++;
        if (k == n_sources) RK_GOTO(unknown_name(p, f->line, "name", "categorical feature", f->name, names, n_sources));
        /* A feature may name a listed table, or one that another feature of that name makes by itself. */
        if (!f->table) continue;
        k = 0;
        while (k < n_sources + n_tables && strcmp(names[k], f->table) != 0) k++;
        if (k == n_sources + n_tables) RK_GOTO(unknown_name(p, f->line, "table", "table", f->table, names, n_sources + n_tables));
    }
done:
    rk_free(names);
    return status;
}

static const rk_feature_section *listed_feature(const planner *p, const char *name) {
    for (int64_t i = 0; i < p->section->n_features; i++)
        if (strcmp(p->section->features[i].name, name) == 0) return &p->section->features[i];
    return NULL;
}

static const rk_table_section *listed_table(const planner *p, const char *name) {
    for (int64_t i = 0; i < p->section->n_tables; i++)
        if (strcmp(p->section->tables[i].name, name) == 0) return &p->section->tables[i];
    return NULL;
}

static rk_initializer initializer_of(const rk_initializer_config *c) {
    return (rk_initializer){(rk_initializer_kind)c->kind, c->mean, c->stddev, c->min, c->max, c->value};
}

/* The table of this name in the plan, made if it is not there; `cardinality` widens one whose rows the file leaves open. */
static rk_status need_table(planner *p, const char *name, int64_t cardinality, const char *feature, int32_t *out) {
    rk_embedding_plan *plan = p->plan;
    const rk_embedding_section *s = p->section;
    const rk_table_section *listed = listed_table(p, name);
    bool open = !listed || listed->rows == 0;
    if (!open && cardinality > listed->rows) {
        char message[256];
        snprintf(message, sizeof message, "%lld rows, but the feature '%s' has %lld ids", (long long)listed->rows, feature, (long long)cardinality);
        return rk_error_hint(error_at(p, listed->line, "rows", message), "leave rows out, and the table gets as many as it needs");
    }
    for (int32_t t = 0; t < plan->n_tables; t++)
        if (strcmp(plan->tables[t].name, name) == 0) {
            if (open && cardinality > plan->tables[t].n_rows) plan->tables[t].n_rows = cardinality;
            *out = t;
            return RK_OK;
        }
    int32_t t = plan->n_tables;
    rk_optimizer *optimizer = &plan->optimizers[t];
    *optimizer = p->fallback;
    if (listed && listed->optimizer.line)
        RK_TRY(rk_optimizer_resolve(&listed->optimizer, p->yaml, optimizer));
    else if (s->optimizer.line)
        RK_TRY(rk_optimizer_resolve(&s->optimizer, p->yaml, optimizer));
    char *copy;
    RK_TRY(rk_strdup(name, &copy));
    plan->tables[t] = (rk_table_config){
        .struct_size = sizeof(rk_table_config),
        .name = copy,
        .n_rows = open ? cardinality : listed->rows,
        .dim = (int32_t)(listed && listed->dim ? listed->dim : s->dim),
        .dtype = (rk_dtype)(listed && listed->dtype >= 0 ? listed->dtype : s->dtype),
        .initializer = initializer_of(listed && listed->initializer.line ? &listed->initializer : &s->initializer),
        .optimizer = optimizer,
        .frozen = listed && !listed->trainable,
    };
    plan->l2[t] = listed && !isnan(listed->l2) ? listed->l2 : s->l2;
    plan->l2_full[t] = listed && !isnan(listed->l2_full) ? listed->l2_full : s->l2_full;
    plan->n_tables++;
    *out = t;
    return RK_OK;
}

static rk_status add_feature(rk_embedding_plan *plan, const char *name, int32_t source, const rk_feature_config *config) {
    char *copy;
    RK_TRY(rk_strdup(name, &copy));
    plan->features[plan->n_features] = *config;
    plan->features[plan->n_features].name = copy;
    plan->sources[plan->n_features++] = source;
    return RK_OK;
}

static rk_status add_vector(planner *p, int32_t source) {
    const rk_embedding_source *from = &p->sources[source];
    const rk_feature_section *listed = listed_feature(p, from->name);
    if (listed && listed->max_sequence_length && from->weighted)
        return rk_error_hint(error_at(p, listed->line, "max_sequence_length", "a sequence takes no weights"), "drop the feature's weights or its sequence length");
    int32_t table;
    RK_TRY(need_table(p, listed && listed->table ? listed->table : from->name, from->cardinality, from->name, &table));
    rk_feature_config config = {
        .struct_size = sizeof config,
        .table = p->plan->tables[table].name,
        .combiner = (rk_combiner)(listed && listed->combiner >= 0 ? listed->combiner : p->section->combiner),
        .max_sequence_length = listed ? (int32_t)listed->max_sequence_length : 0,
        .skip_validation = listed && !listed->validate_weights_and_indices,
    };
    return add_feature(p->plan, from->name, source, &config);
}

/* One weight an id, in the table "<feature>/linear": the wide part. */
static rk_status add_linear(planner *p, int32_t source, rk_embedding_wants wants) {
    const rk_embedding_source *from = &p->sources[source];
    rk_embedding_plan *plan = p->plan;
    int32_t t = plan->n_tables;
    char *name;
    RK_TRY(rk_alloc(strlen(from->name) + sizeof "/linear", 1, &name));
    sprintf(name, "%s/linear", from->name);
    plan->optimizers[t] = p->fallback;
    plan->tables[t] = (rk_table_config){.struct_size = sizeof(rk_table_config),
                                        .name = name,
                                        .n_rows = from->cardinality,
                                        .dim = 1,
                                        .initializer = {.kind = RK_INIT_ZEROS},
                                        .optimizer = &plan->optimizers[t]};
    plan->l2[t] = isnan(wants.linear_l2) ? p->section->l2 : wants.linear_l2;
    plan->l2_full[t] = isnan(wants.linear_l2_full) ? p->section->l2_full : wants.linear_l2_full;
    plan->n_tables++;
    if (p->section->optimizer.line) RK_TRY(rk_optimizer_resolve(&p->section->optimizer, p->yaml, &plan->optimizers[t]));
    rk_feature_config config = {.struct_size = sizeof config, .table = name, .combiner = RK_COMBINER_SUM};
    return add_feature(plan, name, source, &config);
}

/* A table that no feature uses would hold memory for nothing: most likely a name is misspelt. */
static rk_status check_used(const planner *p, bool vectors) {
    for (int64_t i = 0; vectors && i < p->section->n_tables; i++) {
        int32_t t = 0;
        while (t < p->plan->n_tables && strcmp(p->plan->tables[t].name, p->section->tables[i].name) != 0) t++;
        if (t < p->plan->n_tables) continue;
        const char **names;
        RK_TRY(rk_alloc((size_t)p->n_sources, sizeof *names, &names));
        for (int32_t k = 0; k < p->n_sources; k++) names[k] = p->sources[k].name;
        rk_status status = rk_error(RK_CONFIG, "%s:%d: key 'name': no feature uses the table '%s'", p->path, p->section->tables[i].line, p->section->tables[i].name);
        const char *nearest = rk_nearest(p->section->tables[i].name, names, (size_t)p->n_sources);
        if (nearest) rk_error_hint(status, "did you mean '%s'?", nearest);
        rk_free(names);
        return status;
    }
    return RK_OK;
}

static rk_status allocate(rk_embedding_plan *plan, size_t n_tables, size_t n_features) {
    RK_TRY(rk_alloc(n_tables, sizeof *plan->tables, &plan->tables));
    RK_TRY(rk_alloc(n_tables, sizeof *plan->l2, &plan->l2));
    RK_TRY(rk_alloc(n_tables, sizeof *plan->l2_full, &plan->l2_full));
    RK_TRY(rk_alloc(n_tables, sizeof *plan->optimizers, &plan->optimizers));
    RK_TRY(rk_alloc(n_features, sizeof *plan->features, &plan->features));
    return rk_alloc(n_features, sizeof *plan->sources, &plan->sources);
}

rk_status rk_embedding_plan_make(const rk_embedding_section *section, const rk_yaml *yaml, const rk_embedding_source *sources, int32_t n_sources,
                                 rk_embedding_wants wants, const rk_optimizer *fallback, rk_embedding_plan *out) {
    rk_embedding_plan plan = {0};
    planner p = {.section = section, .path = yaml && yaml->path ? yaml->path : "configuration", .yaml = yaml, .sources = sources, .n_sources = n_sources, .plan = &plan};
    if (fallback)
        p.fallback = *fallback;
    else
        RK_TRY(rk_optimizer_init(&p.fallback, RK_OPTIMIZER_ADAGRAD));
    rk_status status;
    RK_GOTO(check_names(&p));
    RK_GOTO(allocate(&plan, 2 * (size_t)n_sources, 2 * (size_t)n_sources));
    for (int32_t i = 0; wants.vectors && i < n_sources; i++) RK_GOTO(add_vector(&p, i));
    plan.n_vectors = plan.n_features;
    for (int32_t i = 0; wants.linear && i < n_sources; i++) RK_GOTO(add_linear(&p, i, wants));
    RK_GOTO(check_used(&p, wants.vectors));
    *out = plan;
    return RK_OK;
done:
    rk_embedding_plan_release(&plan);
    return status;
}

void rk_embedding_plan_release(rk_embedding_plan *plan) {
    for (int32_t t = 0; t < plan->n_tables; t++) rk_free((char *)(size_t)plan->tables[t].name);
    for (int32_t f = 0; f < plan->n_features; f++) rk_free((char *)(size_t)plan->features[f].name);
    rk_free(plan->tables);
    rk_free(plan->l2);
    rk_free(plan->l2_full);
    rk_free(plan->optimizers);
    rk_free(plan->features);
    rk_free(plan->sources);
    *plan = (rk_embedding_plan){0};
}

rk_status rk_embedding_plan_create(const rk_embedding_plan *plan, uint64_t seed, rk_embeddings **out) {
    rk_embeddings_config config = {.struct_size = sizeof config, .seed = seed, .tables = plan->tables, .n_tables = plan->n_tables,
                                   .features = plan->features, .n_features = plan->n_features};
    rk_embeddings *e;
    RK_TRY(rk_embeddings_create(&config, &e));
    rk_status status = RK_OK;
    for (int32_t t = 0; status == RK_OK && t < plan->n_tables; t++) status = rk_embeddings_set_l2(e, plan->tables[t].name, plan->l2[t], plan->l2_full[t]);
    if (status != RK_OK) {
        rk_embeddings_free(e);
        return status;
    }
    *out = e;
    return RK_OK;
}
