/* The `embedding:` section of a run file. */
#ifndef RK_EMBEDDING_CONFIG_EMBEDDING_CONFIG_H
#define RK_EMBEDDING_CONFIG_EMBEDDING_CONFIG_H

#include <reckon/embeddings.h>

#include "base/yaml/schema.h"
#include "embedding/dynamic_config.h"
#include "embedding/row_source.h"
#include "optim/optimizer_config.h"

typedef struct rk_initializer_config {
    int line;
    int kind; /* rk_initializer_kind */
    double mean, stddev, min, max, value;
} rk_initializer_config;
extern const rk_schema rk_initializer_schema; /* of a matrix; rows have a smaller default stddev */

typedef struct rk_embedding_section {
    int line;
    int64_t dim;        /* of tables that the file does not list; 16 */
    int dtype;          /* likewise; rk_dtype */
    int combiner;       /* of features that the file does not list; mean */
    double l2, l2_full; /* likewise */
    rk_initializer_config initializer;
    rk_optimizer_config optimizer; /* line 0: not given, then the dense optimizer's kind where it has rows, by
                                      default adagrad */
    struct rk_table_section {
        int line;
        char *name;                        /* or */
        char *match;                       /* a pattern of names */
        int64_t rows;                      /* 0: from the data feature's cardinality */
        int64_t dim;                       /* 0: the section's */
        int dtype;                         /* -1: the section's */
        rk_initializer_config initializer; /* line 0: the section's */
        rk_optimizer_config optimizer;     /* line 0: the section's */
        bool trainable;                    /* true */
        double l2, l2_full;                /* NaN: the section's */
        int64_t max_capacity;              /* 0: a static table; else the rows that a dynamic one has */
        int64_t buckets;                   /* 0: max_capacity / RK_BUCKET_ROWS */
        struct rk_eviction_section {
            int line;
            int policy;                   /* rk_eviction_policy; lru */
            double evict_to;              /* 0.95 */
            int64_t ttl_steps, ttl, keep; /* 0 */
        } eviction;
        struct rk_admission_section {
            int line;
            int64_t min_count;  /* 1 */
            double probability; /* 1 */
            int counter;        /* rk_key_counter; exact */
        } admission;
        struct rk_missing_section {
            int line;
            int row;      /* 0 = zeros, 1 = oov */
            int64_t hash; /* cold rows; 0 */
        } missing;
        struct rk_storage_section {
            int line;
            int tier; /* 0 = memory, 1 = ssd */
            char *memory, *path, *max_bytes;
        } storage;
    } * tables;
    int64_t n_tables;
    struct rk_feature_section {
        int line;
        char *name;   /* a data feature, or */
        char *match;  /* a pattern of them */
        char *table;  /* NULL: the table of the feature's own name */
        int combiner; /* -1: the section's */
        int64_t max_sequence_length;
        bool validate_weights_and_indices; /* true */
    } * features;
    int64_t n_features;
} rk_embedding_section;

extern const rk_schema rk_embedding_schema;

/* One categorical feature that the data section yields, as the embedding side sees it. */
typedef struct rk_embedding_source {
    const char *name;
    int64_t cardinality; /* ids are 0 .. cardinality-1; 0: they are keys, any 64 bits */
    bool weighted;
    int32_t n_parts;  /* ids that each value was made into (docs/embeddings.md); 0: it has its own */
    bool parts_apart; /* a sample has one value, whose ids' vectors stand side by side */
} rk_embedding_source;

/* The collection's config, resolved: explicit tables and features, and by default one table of the feature's
 * own name for each source that `features` does not list. Feature order = source order. Beside them,
 * `linear`: n extra features named "<name>/linear" in dim-1 tables of the same names (combiner sum, zeros) if
 * wanted, appended after the others in the same order; `vectors` says whether the dim-d features are wanted
 * at all (lr wants none). Owns its arrays and strings. */
typedef struct rk_collection_config {
    rk_table_config *tables;
    double *l2, *l2_full; /* [n_tables] */
    rk_feature_config *features;
    int32_t *sources;           /* [n_features]: which source's ids the feature reads */
    int32_t *table_of;          /* [n_features]: the number of its table */
    rk_optimizer *optimizers;   /* [n_tables], what tables[i].optimizer points to */
    rk_dynamic_config *dynamic; /* [n_tables]; tables[i].n_rows is then the capacity */
    int32_t n_tables, n_features;
    int32_t n_vectors; /* the first n_vectors features are the dim-d ones, the rest linear */
} rk_collection_config;

typedef struct rk_embedding_wants {
    bool vectors, linear;
    double linear_l2, linear_l2_full; /* NaN: the section's */
    const bool *chosen;               /* [n_sources]: those whose dim-d features are wanted; NULL: all */
} rk_embedding_wants;

/* Errors name file, line, key and the nearest name: unknown table or source, a table that no feature uses,
 * duplicate names, rows too few for the cardinality, weights on a sequence feature. `fallback` is used where
 * the section names no optimizer. */
rk_status rk_collection_config_resolve(const rk_embedding_section *section, const rk_yaml *yaml,
                                       const rk_embedding_source *sources, int32_t n_sources,
                                       rk_embedding_wants wants, const rk_optimizer *fallback,
                                       rk_collection_config *out);
void rk_collection_config_release(rk_collection_config *collection);
/* Numbers a sample of a feature; a sequence of length L counts L times its dim. */
int32_t rk_collection_config_feature_width(const rk_collection_config *collection, int32_t feature);

rk_embeddings_config rk_collection_config_to_embeddings_config(const rk_collection_config *collection,
                                                               uint64_t seed); /* views */
/* Create the collection. is_outline: without memory for rows and slots, only to be described.
 * source: NULL, or as for rk_embeddings_create_over_source. */
rk_status rk_collection_config_create_embeddings(const rk_collection_config *collection, uint64_t seed,
                                                 bool is_outline, rk_row_source *source, rk_embeddings **out);

#endif
