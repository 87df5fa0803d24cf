/* From the embedding section and the data's features to a collection's config. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "embedding/local/collection.h"
#include "embedding/config/embedding_config.h"
#include "embedding/local/initializer.h"
#include "base/text/name_index.h"

typedef struct rk_table_section rk_table_section;
typedef struct rk_feature_section rk_feature_section;

typedef struct resolver {
    const rk_embedding_section *section;
    const rk_yaml *yaml;
    const rk_embedding_source *sources;
    int32_t n_sources;
    rk_name_index source_names, table_names,
        feature_names;                          /* of `sources`, and of the section's tables and features */
    int32_t *table_patterns, *feature_patterns; /* numbers of the section's entries that are patterns */
    int32_t n_table_patterns, n_feature_patterns;
    int32_t *of_listed, *of_source; /* the collection's table for each of the section's tables, and for each
                                       source's own name; -1 = not made */
    rk_optimizer fallback;
    rk_collection_config *collection;
} resolver;

/* Where in the file, as rk_yaml_error says it. */
typedef struct place {
    char text[1280];
} place;

static place location_of_key(const resolver *r, int line, const char *key) {
    place at;
    snprintf(at.text, sizeof at.text, "%s: key '%s'", rk_yaml_location_of(r->yaml, line).text, key);
    return at;
}

static rk_status config_error_at(const resolver *r, int line, const char *key, const char *message) {
    return rk_error(RK_CONFIG, "%s: %s", location_of_key(r, line, key).text, message);
}

/* Hint at the nearest of the sources' names and, if with_tables, the listed tables'. */
static rk_status hint_nearest_name(const resolver *r, rk_status status, const char *name, bool with_tables) {
    size_t n_sources = (size_t)r->n_sources, n = n_sources + (with_tables ? (size_t)r->section->n_tables : 0);
    RK_AUTOFREE const char **names = NULL;
    RK_TRY(rk_alloc(n, sizeof *names, &names));
    for (size_t i = 0; i < n; i++)
        names[i] = i < n_sources ? r->sources[i].name : r->section->tables[i - n_sources].name;
    return rk_hint_nearest_name(status, name, names, sizeof *names, 0, n);
}

static rk_status unknown_name_error(const resolver *r, int line, const char *key, const char *what,
                                    const char *name) {
    rk_status status =
        rk_error(RK_CONFIG, "%s: there is no %s '%s'", location_of_key(r, line, key).text, what, name);
    return hint_nearest_name(r, status, name, strcmp(key, "table") == 0);
}

/* The entry that is for a name: its own, or the first pattern that is like it. */
static const rk_feature_section *find_listed_feature(const resolver *r, const char *name) {
    int32_t i = rk_name_index_find(&r->feature_names, name);
    if (i >= 0) return &r->section->features[i];
    for (int32_t k = 0; k < r->n_feature_patterns; k++) {
        const rk_feature_section *pattern = &r->section->features[r->feature_patterns[k]];
        if (fnmatch(pattern->match, name, 0) == 0) return pattern;
    }
    return NULL;
}

static const rk_table_section *find_listed_table(const resolver *r, const char *name) {
    int32_t i = rk_name_index_find(&r->table_names, name);
    if (i >= 0) return &r->section->tables[i];
    for (int32_t k = 0; k < r->n_table_patterns; k++) {
        const rk_table_section *pattern = &r->section->tables[r->table_patterns[k]];
        if (fnmatch(pattern->match, name, 0) == 0) return pattern;
    }
    return NULL;
}

/* A feature may name a listed table, or the one that a feature without a table of another name makes by
 * itself. */
static bool table_exists(const resolver *r, const char *name) {
    if (rk_name_index_find(&r->table_names, name) >= 0) return true;
    if (rk_name_index_find(&r->source_names, name) < 0) return false;
    const rk_feature_section *owner = find_listed_feature(r, name);
    return !owner || !owner->table || strcmp(owner->table, name) == 0;
}

static rk_status check_entry_name(const resolver *r, int line, const char *name, const char *match) {
    if (!name && !match)
        return config_error_at(r, line, "name", "an entry needs a 'name', or 'match' for a pattern of names");
    return name && match ? config_error_at(r, line, "match", "an entry has a 'name' or a 'match', not both")
                         : RK_OK;
}

static rk_status dynamic_table_error(const resolver *r, const rk_table_section *listed, const char *key,
                                     const char *message, const char *hint) {
    return rk_error_hint(config_error_at(r, listed->line, key, message), "%s", hint);
}

/* listed may be NULL, and max_capacity 0: the table is static. */
static rk_dynamic_config dynamic_config_of(const rk_table_section *listed) {
    if (!listed || !listed->max_capacity) return (rk_dynamic_config){0};
    rk_dynamic_config config = {.max_capacity = listed->max_capacity,
                                .n_buckets = rk_dynamic_choose_buckets(listed->max_capacity, listed->buckets),
                                .policy = listed->eviction.policy,
                                .evict_to = listed->eviction.evict_to,
                                .ttl_steps = listed->eviction.ttl_steps,
                                .ttl = listed->eviction.ttl,
                                .keep = listed->eviction.keep,
                                .min_count = listed->admission.min_count,
                                .probability = listed->admission.probability,
                                .counter = listed->admission.counter,
                                .oov = listed->missing.row == 1};
    config.n_cold = (int64_t)rk_round_up((size_t)listed->missing.hash, (size_t)config.n_buckets);
    const struct rk_storage_section *storage = &listed->storage;
    if (!storage->tier) return config;
    config.storage = storage->path ? storage->path : ""; /* by default the model's */
    (void)rk_parse_bytes(storage->memory, &config.memory_bytes);
    if (storage->max_bytes) (void)rk_parse_bytes(storage->max_bytes, &config.storage_bytes);
    return config;
}

static rk_status check_key_counter(const resolver *r, const rk_table_section *listed) {
    const struct rk_admission_section *a = &listed->admission;
    char message[120];
    if (a->counter == RK_COUNTER_EXACT) return RK_OK;
    if (a->min_count <= 1)
        return dynamic_table_error(r, listed, "admission.counter", "with 'min_count: 1' nothing is counted",
                                   "give a 'min_count' above 1, or leave 'counter' out");
    rk_dynamic_config config = dynamic_config_of(listed);
    int64_t n_rows = rk_dynamic_capacity_of_buckets(&config, 1);
    if (n_rows > rk_counter_max_rows(a->counter)) {
        snprintf(message, sizeof message, "a bucket of %lld rows is too large for 'counter: %s'",
                 (long long)n_rows, rk_counter_name(a->counter));
        return dynamic_table_error(r, listed, "buckets", message, "give the table more 'buckets'");
    }
    if (a->min_count <= rk_counter_max_min_count(a->counter)) return RK_OK;
    snprintf(message, sizeof message, "'counter: %s' counts up to %lld", rk_counter_name(a->counter),
             (long long)rk_counter_max_min_count(a->counter));
    return dynamic_table_error(r, listed, "admission.min_count", message,
                               "give a smaller 'min_count', or 'counter: exact'");
}

static rk_status check_byte_size(const resolver *r, int line, const char *key, const char *text) {
    uint64_t n;
    if (!text || rk_parse_bytes(text, &n)) return RK_OK;
    rk_status status = rk_error(RK_CONFIG, "%s: must be a number of bytes, not '%s'",
                                location_of_key(r, line, key).text, text);
    return rk_error_hint(status, "such as 40GB, 512MB or 1.5TB");
}

static rk_status check_disk_storage(const resolver *r, const rk_table_section *listed) {
    const struct rk_storage_section *s = &listed->storage;
    if (!s->tier && (s->memory || s->path || s->max_bytes))
        return dynamic_table_error(r, listed, "tier", "memory, path and max_bytes belong to 'tier: ssd'",
                                   "write 'tier: ssd', or leave them out");
    if (s->tier && !s->memory)
        return dynamic_table_error(r, listed, "memory", "'tier: ssd' needs the memory that rows may take",
                                   "as in storage: {tier: ssd, memory: 8GB}");
    RK_TRY(check_byte_size(r, s->line, "memory", s->memory));
    return check_byte_size(r, s->line, "max_bytes", s->max_bytes);
}

static rk_status check_rows_of_missing_keys(const resolver *r, const rk_table_section *listed) {
    if (!listed->missing.hash) return RK_OK;
    if (listed->missing.row)
        return dynamic_table_error(r, listed, "missing",
                                   "keys without a row share one row, or several by 'hash'",
                                   "leave out 'row' or 'hash'");
    return RK_OK;
}

static rk_status check_dynamic_section(const resolver *r, const rk_table_section *listed) {
    bool is_static = listed->max_capacity == 0;
    if (is_static && (listed->buckets || listed->eviction.line || listed->admission.line ||
                      listed->missing.row || listed->missing.hash || listed->storage.line))
        return dynamic_table_error(
            r, listed, "max_capacity",
            "buckets, eviction, admission, missing and storage belong to dynamic tables",
            "give 'max_capacity', the rows that the table has at most");
    if (is_static) return RK_OK;
    if (listed->rows)
        return dynamic_table_error(r, listed, "rows", "a dynamic table has no fixed rows",
                                   "remove 'rows': max_capacity says how many there are at most");
    if (!listed->trainable)
        return dynamic_table_error(r, listed, "trainable", "a dynamic table gets its rows in training",
                                   "remove 'trainable: false' or 'max_capacity'");
    if (listed->buckets > listed->max_capacity)
        return dynamic_table_error(r, listed, "buckets", "more buckets than the table has rows",
                                   "leave 'buckets' out");
    if (rk_dynamic_choose_buckets(listed->max_capacity, listed->buckets) > RK_MOST_BUCKETS)
        return dynamic_table_error(
            r, listed, "max_capacity",
            "max_capacity / 4096, as there are no 'buckets', are more of them than a table may have",
            "give 'buckets', at most 2147483647");
    if (listed->eviction.keep > listed->max_capacity)
        return dynamic_table_error(r, listed, "eviction.keep", "more rows than the table may have",
                                   "'keep' is at most 'max_capacity'");
    RK_TRY(check_key_counter(r, listed));
    RK_TRY(check_rows_of_missing_keys(r, listed));
    return check_disk_storage(r, listed);
}

static rk_status check_names_of_entries(const resolver *r) {
    const rk_embedding_section *s = r->section;
    for (int64_t i = 0; i < s->n_tables; i++) {
        RK_TRY(check_entry_name(r, s->tables[i].line, s->tables[i].name, s->tables[i].match));
        RK_TRY(check_dynamic_section(r, &s->tables[i]));
    }
    for (int64_t i = 0; i < s->n_features; i++)
        RK_TRY(check_entry_name(r, s->features[i].line, s->features[i].name, s->features[i].match));
    return RK_OK;
}

/* A pattern must be like some feature. */
static rk_status check_pattern(const resolver *r, const rk_feature_section *f) {
    for (int32_t i = 0; i < r->n_sources; i++)
        if (fnmatch(f->match, r->sources[i].name, 0) == 0) return RK_OK;
    return hint_nearest_name(r,
                             rk_error(RK_CONFIG, "%s: no categorical feature matches '%s'",
                                      location_of_key(r, f->line, "match").text, f->match),
                             f->match, false);
}

static rk_status check_section_names(const resolver *r) {
    const rk_embedding_section *s = r->section;
    RK_TRY(check_names_of_entries(r));
    int32_t twin = rk_name_index_find_duplicate(&r->table_names);
    if (twin >= 0) return config_error_at(r, s->tables[twin].line, "name", "duplicate table name");
    twin = rk_name_index_find_duplicate(&r->feature_names);
    if (twin >= 0)
        return config_error_at(r, s->features[twin].line, "name", "duplicate entry for this feature");
    for (int64_t i = 0; i < s->n_features; i++) {
        const rk_feature_section *f = &s->features[i];
        if (f->match) RK_TRY(check_pattern(r, f));
        if (f->name && rk_name_index_find(&r->source_names, f->name) < 0)
            return unknown_name_error(r, f->line, "name", "categorical feature", f->name);
        if (!f->table || table_exists(r, f->table)) continue;
        const rk_feature_section *namesake = find_listed_feature(r, f->table);
        if (!namesake) return unknown_name_error(r, f->line, "table", "table", f->table);
        rk_status status = rk_error(RK_CONFIG, "%s: there is no table '%s'",
                                    location_of_key(r, f->line, "table").text, f->table);
        return rk_error_hint(status, "the feature '%s' is looked up in the table '%s'", f->table,
                             namesake->table);
    }
    return RK_OK;
}

static rk_status resolve_initializer(const resolver *r, const rk_initializer_config *c, rk_initializer *out) {
    rk_initializer initializer = {(rk_initializer_kind)c->kind, c->mean, c->stddev, c->min, c->max, c->value};
    if (rk_initializer_validate(&initializer) != RK_OK)
        return rk_error_context(RK_CONFIG, "%s", location_of_key(r, c->line, "initializer").text);
    *out = initializer;
    return RK_OK;
}

/* The optimizer of a table: its own, the section's, or the one that the caller falls back on. `own` may be
 * NULL. */
static rk_status resolve_optimizer(const resolver *r, const rk_optimizer_config *own, rk_optimizer *out) {
    *out = r->fallback;
    if (r->section->optimizer.line)
        RK_TRY(rk_optimizer_from_config(&r->section->optimizer, r->yaml, out->kind, out));
    return own && own->line ? rk_optimizer_from_config(own, r->yaml, out->kind, out) : RK_OK;
}

/* A table's last checks, once it is in the collection. */
static rk_status check_full_l2(const resolver *r, int32_t t, const rk_table_section *listed) {
    if (!r->collection->dynamic[t].max_capacity || r->collection->l2_full[t] == 0) return RK_OK;
    return dynamic_table_error(
        r, listed, "l2_full", "not supported by dynamic tables, whose rows come and go",
        "use 'l2', which is of the rows that a batch uses; set 'l2_full: 0' for this table");
}

static rk_status check_table_of_keys_is_dynamic(const resolver *r, const rk_embedding_source *from,
                                                const rk_table_section *listed, const char *table) {
    if (from->cardinality || (listed && listed->max_capacity)) return RK_OK;
    rk_status status =
        listed ? rk_error(RK_CONFIG, "%s: the feature '%s' has keys, for which the table must be dynamic",
                          location_of_key(r, listed->line, "max_capacity").text, from->name)
               : rk_error(RK_CONFIG, "%s: the feature '%s' has keys, for which its table must be dynamic",
                          location_of_key(r, r->section->line, "tables").text, from->name);
    return rk_error_hint(status, "as in tables: [{name: %s, max_capacity: 1000000}]", table);
}

static rk_status add_table(resolver *r, const char *name, const rk_table_section *listed, int64_t n_rows) {
    rk_collection_config *collection = r->collection;
    const rk_embedding_section *s = r->section;
    int32_t t = collection->n_tables;
    rk_table_config config = {
        .struct_size = sizeof config,
        .n_rows = n_rows,
        .dim = (int32_t)(listed && listed->dim ? listed->dim : s->dim),
        .dtype = (rk_dtype)(listed && listed->dtype >= 0 ? listed->dtype : s->dtype),
        .optimizer = &collection->optimizers[t],
        .frozen = listed && !listed->trainable,
    };
    RK_TRY(resolve_initializer(r, listed && listed->initializer.line ? &listed->initializer : &s->initializer,
                               &config.initializer));
    RK_TRY(resolve_optimizer(r, listed ? &listed->optimizer : NULL, &collection->optimizers[t]));
    char *copy;
    RK_TRY(rk_strdup(name, &copy));
    config.name = copy;
    collection->tables[t] = config;
    collection->l2[t] = listed && !isnan(listed->l2) ? listed->l2 : s->l2;
    collection->l2_full[t] = listed && !isnan(listed->l2_full) ? listed->l2_full : s->l2_full;
    collection->dynamic[t] = dynamic_config_of(listed);
    collection->n_tables++;
    return check_full_l2(r, t, listed);
}

/* The table of this name in the collection, made if it is not there; `cardinality` widens one whose rows the
 * file leaves open. */
static rk_status find_or_add_table(resolver *r, const char *name, const rk_embedding_source *from,
                                   int32_t *out) {
    int64_t cardinality = from->cardinality;
    int32_t number = rk_name_index_find(&r->table_names, name);
    const rk_table_section *listed = find_listed_table(r, name);
    int32_t *made =
        number >= 0 ? &r->of_listed[number] : &r->of_source[rk_name_index_find(&r->source_names, name)];
    if (listed && number < 0) r->of_listed[listed - r->section->tables] = 0; /* the pattern is of use */
    bool is_dynamic = listed && listed->max_capacity, open = !is_dynamic && (!listed || listed->rows == 0);
    RK_TRY(check_table_of_keys_is_dynamic(r, from, listed, name));
    if (!open && !is_dynamic && cardinality > listed->rows) {
        rk_status status = rk_error(RK_CONFIG, "%s: %lld rows, but the feature '%s' has %lld ids",
                                    location_of_key(r, listed->line, "rows").text, (long long)listed->rows,
                                    from->name, (long long)cardinality);
        return rk_error_hint(status, "leave 'rows' out: the table then gets as many rows as there are ids");
    }
    if (*made < 0) {
        RK_TRY(add_table(r, name, listed,
                         is_dynamic ? listed->max_capacity
                         : open     ? cardinality
                                    : listed->rows));
        *made = r->collection->n_tables - 1;
    }
    rk_table_config *table = &r->collection->tables[*made];
    if (open && cardinality > table->n_rows) table->n_rows = cardinality;
    *out = *made;
    return RK_OK;
}

static rk_status add_feature(rk_collection_config *collection, const char *name, int32_t source,
                             int32_t table, const rk_feature_config *config) {
    char *copy;
    RK_TRY(rk_strdup(name, &copy));
    collection->features[collection->n_features] = *config;
    collection->features[collection->n_features].name = copy;
    collection->features[collection->n_features].table = collection->tables[table].name;
    collection->table_of[collection->n_features] = table;
    collection->sources[collection->n_features++] = source;
    return RK_OK;
}

static rk_status add_vector_feature(resolver *r, int32_t source) {
    const rk_embedding_source *from = &r->sources[source];
    const rk_feature_section *listed = find_listed_feature(r, from->name);
    if (listed && listed->max_sequence_length && from->weighted)
        return rk_error_hint(
            config_error_at(r, listed->line, "max_sequence_length", "a sequence cannot have weights"),
            "remove the feature's 'weights' or its 'max_sequence_length'");
    if (listed && listed->max_sequence_length && from->n_parts)
        return rk_error_hint(config_error_at(r, listed->line, "max_sequence_length",
                                             "a sequence cannot have hash_functions or quotient_remainder"),
                             "remove the feature's 'max_sequence_length', or these keys of data.features");
    int32_t table;
    RK_TRY(find_or_add_table(r, listed && listed->table ? listed->table : from->name, from, &table));
    rk_feature_config config = {
        .struct_size = sizeof config,
        .combiner = (rk_combiner)(listed && listed->combiner >= 0 ? listed->combiner : r->section->combiner),
        .max_sequence_length = from->parts_apart ? from->n_parts
                               : listed          ? (int32_t)listed->max_sequence_length
                                                 : 0,
        .skip_validation = listed && !listed->validate_weights_and_indices,
        .weighted = from->weighted,
    };
    return add_feature(r->collection, from->name, source, table, &config);
}

/* One weight an id, in the table "<feature>/linear": the wide part. Dynamic, as the feature's table is. */
static rk_status add_linear_feature(resolver *r, int32_t source, rk_embedding_wants wants) {
    const rk_embedding_source *from = &r->sources[source];
    const rk_feature_section *listed = find_listed_feature(r, from->name);
    const char *table = listed && listed->table ? listed->table : from->name;
    const rk_table_section *listed_as = find_listed_table(r, table);
    rk_collection_config *collection = r->collection;
    int32_t t = collection->n_tables;
    RK_TRY(resolve_optimizer(r, NULL, &collection->optimizers[t]));
    RK_TRY(check_table_of_keys_is_dynamic(r, from, listed_as, table));
    collection->dynamic[t] = dynamic_config_of(listed_as);
    size_t name_bytes = strlen(from->name) + sizeof "/linear";
    char *name;
    RK_TRY(rk_alloc(name_bytes, 1, &name));
    snprintf(name, name_bytes, "%s/linear", from->name);
    collection->tables[t] =
        (rk_table_config){.struct_size = sizeof(rk_table_config),
                          .name = name,
                          .n_rows = collection->dynamic[t].max_capacity ? collection->dynamic[t].max_capacity
                                                                        : from->cardinality,
                          .dim = 1,
                          .initializer = {.kind = RK_INIT_ZEROS},
                          .optimizer = &collection->optimizers[t]};
    collection->l2[t] = isnan(wants.linear_l2) ? r->section->l2 : wants.linear_l2;
    collection->l2_full[t] = isnan(wants.linear_l2_full) ? r->section->l2_full : wants.linear_l2_full;
    collection->n_tables++;
    RK_TRY(check_full_l2(r, t, listed_as));
    rk_feature_config config = {.struct_size = sizeof config,
                                .combiner = RK_COMBINER_SUM,
                                .skip_validation = listed && !listed->validate_weights_and_indices,
                                .weighted = from->weighted};
    return add_feature(collection, name, source, t, &config);
}

/* A table that no feature uses would hold memory for nothing: most likely a name is misspelt. */
static rk_status check_tables_used(const resolver *r) {
    for (int64_t i = 0; i < r->section->n_tables; i++) {
        if (r->of_listed[i] >= 0) continue;
        const rk_table_section *table = &r->section->tables[i];
        const char *key = table->name ? "name" : "match", *text = table->name ? table->name : table->match;
        rk_status status =
            rk_error(RK_CONFIG, "%s: no feature uses %s '%s'", location_of_key(r, table->line, key).text,
                     table->name ? "the table" : "a table like", text);
        return hint_nearest_name(r, status, text, false);
    }
    return RK_OK;
}

static rk_status allocate_config(rk_collection_config *collection, size_t n_tables, size_t n_features) {
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_tables, collection->tables), RK_ARRAY(n_tables, collection->l2),
                        RK_ARRAY(n_tables, collection->l2_full), RK_ARRAY(n_tables, collection->optimizers),
                        RK_ARRAY(n_tables, collection->dynamic), RK_ARRAY(n_features, collection->features),
                        RK_ARRAY(n_features, collection->table_of)));
    return rk_alloc(n_features, sizeof *collection->sources, &collection->sources);
}

static rk_status resolver_init(resolver *r) {
    const rk_embedding_section *s = r->section;
    RK_TRY(rk_name_index_init(&r->source_names, r->sources, sizeof *r->sources,
                              offsetof(rk_embedding_source, name), r->n_sources));
    RK_TRY(rk_name_index_init(&r->table_names, s->tables, sizeof *s->tables, offsetof(rk_table_section, name),
                              (int32_t)s->n_tables));
    RK_TRY(rk_name_index_init(&r->feature_names, s->features, sizeof *s->features,
                              offsetof(rk_feature_section, name), (int32_t)s->n_features));
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)s->n_tables, r->of_listed),
                        RK_ARRAY((size_t)s->n_tables, r->table_patterns),
                        RK_ARRAY((size_t)s->n_features, r->feature_patterns)));
    for (int32_t i = 0; i < s->n_tables; i++)
        if (s->tables[i].match) r->table_patterns[r->n_table_patterns++] = i;
    for (int32_t i = 0; i < s->n_features; i++)
        if (s->features[i].match) r->feature_patterns[r->n_feature_patterns++] = i;
    RK_TRY(rk_alloc((size_t)r->n_sources, sizeof *r->of_source, &r->of_source));
    for (int64_t i = 0; i < s->n_tables; i++) r->of_listed[i] = -1;
    for (int32_t i = 0; i < r->n_sources; i++) r->of_source[i] = -1;
    return RK_OK;
}

static void resolver_release(resolver *r) {
    rk_name_index_release(&r->source_names);
    rk_name_index_release(&r->table_names);
    rk_name_index_release(&r->feature_names);
    RK_FREE_ALL(r->of_listed, r->table_patterns, r->feature_patterns, r->of_source);
}

static rk_status resolve_section(resolver *r, rk_embedding_wants wants) {
    rk_collection_config *collection = r->collection;
    RK_TRY(resolver_init(r));
    RK_TRY(check_section_names(r));
    size_t most = (size_t)r->n_sources * ((wants.vectors ? 1u : 0u) +
                                          (wants.linear ? 1u : 0u)); /* a feature makes at most one table */
    RK_TRY(allocate_config(collection, most, most));
    for (int32_t i = 0; wants.vectors && i < r->n_sources; i++)
        if (!wants.chosen || wants.chosen[i]) RK_TRY(add_vector_feature(r, i));
    collection->n_vectors = collection->n_features;
    for (int32_t i = 0; wants.linear && i < r->n_sources; i++) RK_TRY(add_linear_feature(r, i, wants));
    return wants.vectors ? check_tables_used(r) : RK_OK;
}

rk_status rk_collection_config_resolve(const rk_embedding_section *section, const rk_yaml *yaml,
                                       const rk_embedding_source *sources, int32_t n_sources,
                                       rk_embedding_wants wants, const rk_optimizer *fallback,
                                       rk_collection_config *out) {
    rk_collection_config collection = {0};
    resolver r = {.section = section,
                  .yaml = yaml,
                  .sources = sources,
                  .n_sources = n_sources,
                  .collection = &collection};
    RK_TRY(rk_optimizer_init(&r.fallback, RK_OPTIMIZER_ADAGRAD));
    if (fallback) r.fallback = *fallback;
    rk_status status = resolve_section(&r, wants);
    resolver_release(&r);
    if (status == RK_OK)
        *out = collection;
    else
        rk_collection_config_release(&collection);
    return status;
}

void rk_collection_config_release(rk_collection_config *collection) {
    for (int32_t t = 0; t < collection->n_tables; t++) rk_free((char *)(size_t)collection->tables[t].name);
    for (int32_t f = 0; f < collection->n_features; f++)
        rk_free((char *)(size_t)collection->features[f].name);
    RK_FREE_ALL(collection->tables, collection->l2, collection->l2_full, collection->optimizers,
                collection->dynamic, collection->features, collection->sources, collection->table_of);
    *collection = (rk_collection_config){0};
}

rk_embeddings_config rk_collection_config_to_embeddings_config(const rk_collection_config *collection,
                                                               uint64_t seed) {
    return (rk_embeddings_config){.struct_size = sizeof(rk_embeddings_config),
                                  .seed = seed,
                                  .tables = collection->tables,
                                  .n_tables = collection->n_tables,
                                  .features = collection->features,
                                  .n_features = collection->n_features};
}

/* Every table whole. */
static rk_status create_collection(const rk_collection_config *collection, const rk_embeddings_config *config,
                                   bool is_outline, rk_embeddings **out) {
    RK_AUTOFREE rk_table_part *parts = NULL;
    RK_TRY(rk_alloc((size_t)config->n_tables, sizeof *parts, &parts));
    for (int32_t t = 0; t < config->n_tables; t++)
        parts[t] =
            (rk_table_part){.n_rows = config->tables[t].n_rows,
                            .dim = config->tables[t].dim,
                            .is_outline = is_outline,
                            .dynamic = collection->dynamic[t].max_capacity ? &collection->dynamic[t] : NULL};
    return rk_embeddings_create_with_parts(config, parts, out);
}

rk_status rk_collection_config_create_embeddings(const rk_collection_config *collection, uint64_t seed,
                                                 bool is_outline, rk_row_source *source,
                                                 rk_embeddings **out) {
    rk_embeddings_config config = rk_collection_config_to_embeddings_config(collection, seed);
    rk_embeddings *e;
    if (source) return rk_embeddings_create_over_source(&config, collection->dynamic, source, out);
    RK_TRY(create_collection(collection, &config, is_outline, &e));
    rk_status status = RK_OK;
    for (int32_t t = 0; status == RK_OK && t < collection->n_tables; t++)
        status =
            rk_embeddings_set_l2(e, collection->tables[t].name, collection->l2[t], collection->l2_full[t]);
    if (status == RK_OK)
        *out = e;
    else
        rk_embeddings_free(e);
    return status;
}

int32_t rk_collection_config_feature_width(const rk_collection_config *collection, int32_t feature) {
    int32_t length = collection->features[feature].max_sequence_length,
            dim = collection->tables[collection->table_of[feature]].dim;
    return length ? length * dim : dim;
}
