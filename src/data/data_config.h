/* The `data:` section of a run file. */
#ifndef RK_DATA_DATA_CONFIG_H
#define RK_DATA_DATA_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/yaml/schema.h"

typedef enum rk_data_format {
    RK_DATA_AUTO,
    RK_DATA_CSV,
    RK_DATA_TSV,
    RK_DATA_LIBSVM,
    RK_DATA_TFRECORD,
    RK_DATA_RKB,
    RK_DATA_ADJACENCY,
    RK_DATA_PARQUET
} rk_data_format;

enum { RK_MAX_READER_THREADS = 64, RK_MAX_HASH_FUNCTIONS = 16 };

/* The rows of the ids that one value was made into: pooled as the ids of several values are, multiplied
 * element by element, or side by side. */
typedef enum rk_compose { RK_COMPOSE_POOL, RK_COMPOSE_MULTIPLY, RK_COMPOSE_CONCAT } rk_compose;

/* One split: `train: a.csv`, `train: {path: [a.csv, b.csv]}` or `valid: {fraction: 0.1}` (rows of train set
 * aside by a hash of the row number and the seed: the same rows in every epoch). Paths may be glob
 * patterns. */
typedef struct rk_split_section {
    int line; /* 0: not given */
    char **path;
    int64_t n_path;
    double fraction; /* 0: the split has files of its own */
    /* how they are written, where that is not the data's way */
    int format;      /* rk_data_format, or -1 */
    char *separator; /* or NULL */
    int header;      /* as the data's, or -1 */
    char **columns;
    int64_t n_columns;
} rk_split_section;

/* One feature. Exactly one of the kinds below is given; `column` defaults to the feature's name. */
typedef struct rk_data_feature {
    int line;
    char *name;  /* or */
    char *match; /* a pattern of columns, until rk_data_section_expand has put features in its place */
    char *column;
    char *weights;       /* column of the weights of this feature's ids, or NULL */
    char *separator;     /* splits one text value into several ("a|b|c"); NULL: one value */
    int64_t max_length;  /* ids beyond this many are dropped; 0 = no bound */
    char *default_value; /* stands for a missing value; NULL: a dense 0 / no id at all */
    /* categorical: ids */
    int64_t hash; /* buckets: id = XXH64(value bytes, hash_seed) reduced to hash buckets */
    int64_t hash_seed;
    int64_t identity;        /* the value is the id itself, 0 .. identity-1 */
    int64_t identity_offset; /* subtracted first */
    struct rk_vocabulary_section {
        int line;          /* 0: not given. `vocabulary: {}` or `vocabulary: path` */
        char *path;        /* one value a line; NULL: built by a pass over the training data */
        int64_t min_count; /* rarer values are out of vocabulary; 1 */
        int64_t max_size;  /* the most frequent so many; 0 = all */
        int64_t oov;       /* buckets for other values, by hash; 1 (id 0). 0: they are dropped */
    } vocabulary;
    bool key; /* the value's 64 bits: a whole number, or XXH64 of other text (docs/dynamic_tables.md) */
    double *bucketize; /* boundaries, ascending: id = number of boundaries <= value */
    int64_t n_bucketize;
    int64_t quantiles; /* boundaries found by a pass over the training data: so many buckets */
    char **cross;      /* other features' names: the hash of their values together, in `hash` buckets */
    int64_t n_cross;
    /* fewer rows: what a value's one id becomes (docs/embeddings.md) */
    int64_t
        hash_functions; /* of hash: so many ids, by functions of the feature's own; 0: one, by hash_seed */
    int64_t quotient_remainder; /* the divisor m: two ids, id / m and id mod m; 0: the id itself */
    int compose;                /* rk_compose: how the rows of a value's ids become its vector */
    /* dense: one number (or `width` numbers) */
    bool dense;
    int64_t width;  /* 1 */
    bool log1p;     /* sign(x) log(1 + |x|) */
    bool normalize; /* (x - mean) / stddev of the training data (after log1p) */
} rk_data_feature;
/* The ids that each value is made into; 0: it has its own. */
static inline int32_t rk_feature_n_parts(const rk_data_feature *feature) {
    return feature->hash_functions ? (int32_t)feature->hash_functions : feature->quotient_remainder ? 2 : 0;
}
/* The column of the data that a feature is read from. */
static inline const char *rk_feature_column(const rk_data_feature *feature) {
    return feature->column ? feature->column : feature->name;
}

typedef struct rk_label_section {
    int line;
    char *name;
    char *column; /* NULL: the name */
    char **
        positive; /* texts that mean 1, all other text 0 (`positive: ">50K"`); none: the column is a number */
    int64_t n_positive;
    double threshold;         /* not NaN: 1 where the number is >= it, else 0 */
    bool optional;            /* a row may have no label: it is then no sample of the task; false */
    double weight;            /* of the task in the loss; 1 */
    double smoothing;         /* binary: y is learned as y (1 - smoothing) + smoothing / 2; 0 */
    double weight_decay_rate; /* the weight is multiplied by 1 - rate after each step; 0 */
    char **product_of;        /* two other labels: its probability is the product of theirs */
    int64_t n_product_of;
    int loss; /* 0 = sigmoid_cross_entropy, 1 = mse */
} rk_label_section;
static inline const char *rk_label_column(const rk_label_section *label) {
    return label->column ? label->column : label->name;
}

typedef struct rk_join_section {
    int line;
    char *path;     /* a small csv file, kept in memory */
    char *key;      /* column of the data rows */
    char *file_key; /* column of the joined file; NULL: the same name */
    char *separator;
    char **columns; /* names of the joined file's columns, if it has no header line */
    int64_t n_columns;
} rk_join_section;

typedef struct rk_data_section {
    int line;
    int format; /* rk_data_format */
    rk_split_section train, valid, test;
    char *separator; /* csv: one byte or "\\t"; NULL: ',' (csv), tab (tsv) */
    char *quote;     /* csv: one byte, or "" for none; '"' */
    bool trim;       /* csv: spaces around fields are dropped; true */
    int header; /* csv: whether the first line names the columns: 0 auto (unless `columns` is given), 1 true,
                   2 false */
    char *comment;  /* csv: lines that begin with this are left out; NULL: none */
    char **columns; /* csv without header: the columns' names, in order. adjacency: of user and item. libsvm:
                       unused */
    int64_t n_columns;
    char **missing; /* texts that mean no value; "" always does */
    int64_t n_missing;
    struct rk_field_section {
        int line;
        char *name;
        int64_t first, last; /* ids of this range belong to the field; id - first is its value */
    } * fields;              /* libsvm: columns by id range; without any there is one column, "ids" */
    int64_t n_fields;
    rk_join_section *joins;
    int64_t n_joins;
    rk_data_feature *features;
    int64_t n_features;
    rk_label_section *labels;
    int64_t n_labels;
    char *sample_weight;          /* column, or NULL */
    double default_sample_weight; /* of a row without one; NaN: such a row is bad */
    char *group;                  /* column that GAUC groups by, or NULL */
    char *timestamp;              /* column with a training row's time, or NULL */
    int on_bad_row;               /* 0 = fail, 1 = skip */
    bool shuffle;                 /* true */
    int64_t shuffle_window;       /* rows; 1,048,576 */
    int64_t cache_bytes; /* transformed rows are kept in memory between epochs up to this many bytes; 2 GiB */
    struct rk_cache_section {
        int line;
        char *path;         /* of a folder; NULL: the user's */
        int64_t max_bytes;  /* that it takes on the disk; 0: rows are not kept there. 4 GiB */
    } cache;                /* of transformed rows, from one run to the next */
    int64_t reader_threads; /* that parse and transform; 0: one for every four processors, at least 1 */
    int64_t seed;           /* -1: train.seed */
    /* of a section made by rk_data_section_of_split or rk_data_section_of_file, else NULL and false: what it
     * was made from; the paths to be read are the caller's, not the run file's */
    const struct rk_data_section *whole;
    const struct rk_arrow_streams *streams; /* in place of files of paths "arrow:NAME", or NULL */
    bool paths_are_callers;
} rk_data_section;

/* Whether all that reads the column are features with `key`, to which a whole number is its 64 bits. */
bool rk_data_section_reads_keys_alone(const rk_data_section *section, const char *column);

extern const rk_schema rk_data_schema_table, rk_data_feature_schema;

/* What the keys mean together: exactly one kind a feature, columns and names that exist, splits that make
 * sense. */
rk_status rk_data_section_check(const rk_data_section *section, const rk_yaml *yaml);
/* The section with the split's own way of writing files in place of the data's (split NULL: none). It has
 * both sections' memory, and is not to be released. */
rk_data_section rk_data_section_of_split(const rk_data_section *section, const rk_split_section *split);
/* Features in the place of patterns, one for each column of the training data that matches and is no other
 * feature, label, weight or group; in the columns' order. directory: what paths are relative to. */
bool rk_data_section_has_patterns(const rk_data_section *section);
rk_status rk_data_section_expand(rk_data_section *section, const rk_yaml *yaml, const char *directory);

#endif
