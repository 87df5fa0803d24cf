#include "embedding/config/embedding_config.h"

#include <math.h>

static const char *const initializers[] = {"truncated_normal", "normal", "uniform", "zeros", "ones",
                                           "constant"};
static const char *const dtypes[] = {"f32", "bf16", "f16"};
static const char *const combiners[] = {"mean", "sum", "sqrtn"};

#define INITIALIZER_FIELDS(stddev_)                                                                        \
    {                                                                                                      \
        RK_FIELD_ENUM(rk_initializer_config, kind, RK_INIT_TRUNCATED_NORMAL, initializers,                 \
                      "the distribution of a row's initial values"),                                       \
            RK_FIELD_F64(rk_initializer_config, mean, 0, -INFINITY, INFINITY, "normal, truncated_normal"), \
            RK_FIELD_F64(rk_initializer_config, stddev, stddev_, 0, INFINITY,                              \
                         "normal, truncated_normal; 0 = 1/sqrt(dim)"),                                     \
            RK_FIELD_F64(rk_initializer_config, min, -0.05, -INFINITY, INFINITY, "uniform"),               \
            RK_FIELD_F64(rk_initializer_config, max, 0.05, -INFINITY, INFINITY, "uniform"),                \
            RK_FIELD_F64(rk_initializer_config, value, 0, -INFINITY, INFINITY, "constant"),                \
    }
/* Rows begin small: sums of their products, as of fm's pairs, are then next to nothing, and no model has
 * first values to unlearn (docs/models.md). */
static const rk_field row_initializer_fields[] = INITIALIZER_FIELDS(0.01);
static const rk_schema row_initializer_schema =
    RK_SECTION_SCHEMA("initializer", rk_initializer_config, row_initializer_fields, "kind");
static const rk_field initializer_fields[] = INITIALIZER_FIELDS(0);
const rk_schema rk_initializer_schema =
    RK_SECTION_SCHEMA("initializer", rk_initializer_config, initializer_fields, "kind");

static const char *const policies[] = {"lru", "lfu", "none"};
static const char *const counters[] = {"exact", "count_min", "bloom"};
static const char *const missing[] = {"zeros", "oov"};

typedef struct rk_missing_section rk_missing_section;
static const rk_field missing_fields[] = {
    RK_FIELD_ENUM(rk_missing_section, row, 0, missing,
                  "what a key without a row is, without `hash`: zeros, or a row that all such keys share"),
    RK_FIELD_I64(
        rk_missing_section, hash, 0, 0, RK_MOST_COLD_ROWS,
        "above 0: such keys share so many cold rows, each the one that its hash gives; made a multiple "
        "of `buckets`"),
};
static const rk_schema missing_schema =
    RK_SECTION_SCHEMA("missing", rk_missing_section, missing_fields, "row");

typedef struct rk_eviction_section rk_eviction_section;
static const rk_field eviction_fields[] = {
    RK_FIELD_ENUM(
        rk_eviction_section, policy, RK_EVICTION_LRU, policies,
        "which rows a full bucket gives up: those that were used longest ago, least often, or none: "
        "new keys are then refused"),
    RK_FIELD_F64(rk_eviction_section, evict_to, 0.95, 0, 1,
                 "share of a bucket's capacity that it has left, new keys among it"),
    RK_FIELD_I64(rk_eviction_section, ttl_steps, 0, 0, RK_MOST_TTL_STEPS,
                 "training batches without a use after which a row is given up, at most an eighth later; 0: "
                 "none is"),
    RK_FIELD_I64(
        rk_eviction_section, ttl, 0, 0, RK_MOST_TTL,
        "seconds of the stream (`data.timestamp`) without a use after which a row is given up, at most "
        "a sixth later; 0: none is"),
    RK_FIELD_I64(rk_eviction_section, keep, 0, 0, 1e14,
                 "rows below which eviction takes the table never, each bucket its share"),
};
static const rk_schema eviction_schema =
    RK_SECTION_SCHEMA("eviction", rk_eviction_section, eviction_fields, "policy");

typedef struct rk_admission_section rk_admission_section;
static const rk_field admission_fields[] = {
    RK_FIELD_I64(rk_admission_section, min_count, 1, 1, INT32_MAX,
                 "uses in training after which a key gets a row"),
    RK_FIELD_F64(rk_admission_section, probability, 1, 0, 1,
                 "with which it then does, drawn anew in each batch that uses it"),
    RK_FIELD_ENUM(rk_admission_section, counter, RK_COUNTER_EXACT, counters,
                  "how uses of keys without a row are counted: each key, or in a sketch of fixed size"),
};
static const rk_schema admission_schema =
    RK_SECTION_SCHEMA("admission", rk_admission_section, admission_fields, "min_count");

static const char *const tiers[] = {"memory", "ssd"};

typedef struct rk_storage_section rk_storage_section;
static const rk_field storage_fields[] = {
    RK_FIELD_ENUM(rk_storage_section, tier, 0, tiers, "ssd: rows that are not used for long are on a disk"),
    RK_FIELD_TEXT(rk_storage_section, memory, false, NULL,
                  "ssd: memory of a rank for rows and their slots: bytes, or 8GB, 512MB"),
    RK_FIELD_TEXT(
        rk_storage_section, path, false, NULL,
        "ssd: a folder on that disk, on the file system of train.output; by default train.output/rows"),
    RK_FIELD_TEXT(rk_storage_section, max_bytes, false, NULL,
                  "ssd: what the rows' files may take there, without those of checkpoints; by default any"),
};
static const rk_schema storage_schema =
    RK_SECTION_SCHEMA("storage", rk_storage_section, storage_fields, "tier");

typedef struct rk_table_section rk_table_section;
static const rk_field table_fields[] = {
    RK_FIELD_TEXT(rk_table_section, name, false, NULL, "the table's name"),
    RK_FIELD_TEXT(rk_table_section, match, false, NULL,
                  "in place of a name: a pattern (`*`, `?`, `[a-z]`); the entry is for each matching table "
                  "without an entry of its own"),
    RK_FIELD_I64(rk_table_section, rows, 0, 0, 1e15, "rows; 0 = as many as its features have ids"),
    RK_FIELD_I64(rk_table_section, dim, 0, 0, 4096, "values a row; 0 = embedding.dim"),
    RK_FIELD_ENUM(rk_table_section, dtype, -1, dtypes, "dtype of the rows; by default embedding.dtype"),
    RK_FIELD_STRUCT(rk_table_section, initializer, &row_initializer_schema,
                    "by default embedding.initializer"),
    RK_FIELD_STRUCT(rk_table_section, optimizer, &rk_optimizer_schema, "by default embedding.optimizer"),
    RK_FIELD_BOOL(rk_table_section, trainable, true, "false: frozen"),
    RK_FIELD_F64(rk_table_section, l2, RK_UNSET, 0, INFINITY, "by default embedding.l2"),
    RK_FIELD_F64(rk_table_section, l2_full, RK_UNSET, 0, INFINITY, "by default embedding.l2_full"),
    RK_FIELD_I64(rk_table_section, max_capacity, 0, 0, 1e14,
                 "above 0: a dynamic table, of at most so many rows, for the keys that it meets"),
    RK_FIELD_I64(rk_table_section, buckets, 0, 0, INT32_MAX,
                 "dynamic: parts that decide on their keys for themselves; 0 = max_capacity / 4096"),
    RK_FIELD_STRUCT(rk_table_section, eviction, &eviction_schema, "dynamic: what a full bucket does"),
    RK_FIELD_STRUCT(rk_table_section, admission, &admission_schema, "dynamic: when a key gets a row"),
    RK_FIELD_STRUCT(rk_table_section, missing, &missing_schema, "dynamic: what a key without a row is"),
    RK_FIELD_STRUCT(rk_table_section, storage, &storage_schema, "dynamic: where its rows are"),
};
static const rk_schema table_schema = RK_SECTION_SCHEMA("tables", rk_table_section, table_fields, NULL);

typedef struct rk_feature_section rk_feature_section;
static const rk_field feature_fields[] = {
    RK_FIELD_TEXT(rk_feature_section, name, false, NULL, "a categorical feature of the data section"),
    RK_FIELD_TEXT(rk_feature_section, match, false, NULL,
                  "in place of a name: a pattern; the entry is for each matching categorical feature without "
                  "an entry of its own"),
    RK_FIELD_TEXT(rk_feature_section, table, false, NULL,
                  "the table that it reads; by default one of the feature's name"),
    RK_FIELD_ENUM(rk_feature_section, combiner, -1, combiners, "by default embedding.combiner"),
    RK_FIELD_I64(rk_feature_section, max_sequence_length, 0, 0, 100000,
                 "above 0: a sequence, truncated or zero-padded to this length, not pooled"),
    RK_FIELD_BOOL(rk_feature_section, validate_weights_and_indices, true,
                  "drop negative ids (and weights <= 0 for mean and sqrtn); false: they are errors"),
};
static const rk_schema feature_schema =
    RK_SECTION_SCHEMA("features", rk_feature_section, feature_fields, NULL);

static const rk_field section_fields[] = {
    RK_FIELD_I64(rk_embedding_section, dim, 16, 1, 4096,
                 "values a row, of tables without a dim of their own"),
    RK_FIELD_ENUM(rk_embedding_section, dtype, RK_F32, dtypes,
                  "dtype of the rows; bf16 and f16 are rounded stochastically"),
    RK_FIELD_ENUM(rk_embedding_section, combiner, RK_COMBINER_MEAN, combiners,
                  "how the rows of a sample's ids are pooled"),
    RK_FIELD_F64(rk_embedding_section, l2, 0, 0, INFINITY,
                 "adds l2 * w to the gradient of each row that a batch touches"),
    RK_FIELD_F64(rk_embedding_section, l2_full, 0, 0, INFINITY,
                 "adds (l2_full / 2) * |table|^2 to the loss, exactly: every row at every step"),
    RK_FIELD_STRUCT(rk_embedding_section, initializer, &row_initializer_schema, "initial values of rows"),
    RK_FIELD_STRUCT(rk_embedding_section, optimizer, &rk_optimizer_schema,
                    "optimizer of the rows; by default train.optimizer"),
    RK_FIELD_LIST(rk_embedding_section, tables, n_tables, &table_schema, false,
                  "tables that differ from the defaults, or that features share"),
    RK_FIELD_LIST(rk_embedding_section, features, n_features, &feature_schema, false,
                  "features that differ from the defaults"),
};
const rk_schema rk_embedding_schema =
    RK_SECTION_SCHEMA("embedding", rk_embedding_section, section_fields, NULL);

const char *rk_combiner_name(rk_combiner combiner) {
    return (unsigned)combiner < RK_COMBINER_COUNT ? combiners[combiner] : "unknown";
}
