#include "data/data_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/text/name_index.h"
#include "base/text/text.h"

static const char *const formats[] = {"auto",     "csv", "tsv",       "libsvm",
                                      "tfrecord", "rkb", "adjacency", "parquet"};
static const char *const headers[] = {"auto", "true", "false"};
static const char *const bad_rows[] = {"fail", "skip"};
static const char *const compositions[] = {"pool", "multiply", "concat"};
static const char *const losses[] = {"sigmoid_cross_entropy", "mse"};

static const rk_field split_fields[] = {
    RK_FIELD_PATHS(rk_split_section, path, n_path,
                   "files, in order; `*` and `?` match names, a directory is all files in it"),
    RK_FIELD_F64(rk_split_section, fraction, 0, 0, 0.9,
                 "this share of train's rows, set aside by a hash of the row's number"),
    RK_FIELD_ENUM(rk_split_section, format, -1, formats, "of these files, where it is not data.format"),
    RK_FIELD_TEXT(rk_split_section, separator, false, NULL, "of these files, where it is not data.separator"),
    RK_FIELD_ENUM(rk_split_section, header, -1, headers,
                  "of these files, where it is not data.header; with true and no `columns` beside it, theirs "
                  "are the first line's"),
    RK_FIELD_ARRAY(TEXTS, rk_split_section, columns, n_columns, 0, 0,
                   "of these files, where they are not data.columns"),
};
static const rk_schema split_schema = RK_SECTION_SCHEMA("split", rk_split_section, split_fields, "path");

typedef struct rk_vocabulary_section rk_vocabulary_section;
static const rk_field vocabulary_fields[] = {
    RK_FIELD_PATH(rk_vocabulary_section, path, false,
                  "a file of one value a line; else built by a pass over the training data"),
    RK_FIELD_I64(rk_vocabulary_section, min_count, 1, 1, 1e15,
                 "values that occur less often are out of vocabulary"),
    RK_FIELD_I64(rk_vocabulary_section, max_size, 0, 0, 1e12, "keep the most frequent so many; 0 = all"),
    RK_FIELD_I64(
        rk_vocabulary_section, oov, 1, 0, 1e9,
        "number of out-of-vocabulary ids, 0 .. oov-1, for other values by hash; 0: those are dropped"),
};
static const rk_schema vocabulary_schema =
    RK_SECTION_SCHEMA("vocabulary", rk_vocabulary_section, vocabulary_fields, "path");

static const rk_field feature_fields[] = {
    RK_FIELD_TEXT(rk_data_feature, name, false, NULL, "the feature's name"),
    RK_FIELD_TEXT(rk_data_feature, match, false, NULL,
                  "in place of a name: a pattern (`*`, `?`, `[a-z]`); makes a feature of each matching "
                  "column that has no other use"),
    RK_FIELD_TEXT(rk_data_feature, column, false, NULL, "the column it is made from; by default its name"),
    RK_FIELD_TEXT(rk_data_feature, weights, false, NULL, "column with the weights of its ids"),
    RK_FIELD_TEXT(rk_data_feature, separator, false, NULL, "splits a text into several values"),
    RK_FIELD_I64(rk_data_feature, max_length, 0, 0, 1e9,
                 "keep at most so many values a sample, without those that are missing; 0 = all"),
    RK_FIELD_TEXT(rk_data_feature, default_value, false, NULL,
                  "used for a missing value (dense: for each of its numbers)"),
    RK_FIELD_I64(rk_data_feature, hash, 0, 0, 1e15,
                 "kind: XXH64 of the value's text, reduced to so many buckets"),
    RK_FIELD_I64(rk_data_feature, hash_seed, 0, 0, 1e15, "seed of the hash"),
    RK_FIELD_I64(rk_data_feature, identity, 0, 0, 1e15, "kind: the value is the id, 0 .. identity-1"),
    RK_FIELD_I64(rk_data_feature, identity_offset, 0, -1e15, 1e15, "subtracted from the value first"),
    RK_FIELD_STRUCT(rk_data_feature, vocabulary, &vocabulary_schema, "kind: ids by a list of known values"),
    RK_FIELD_BOOL(
        rk_data_feature, key, false,
        "kind: the value is a 64-bit key, a whole number itself or XXH64 of other text, for a dynamic table"),
    RK_FIELD_ARRAY(F64S, rk_data_feature, bucketize, n_bucketize, -INFINITY, INFINITY,
                   "kind: ascending boundaries; id = how many are <= the value"),
    RK_FIELD_I64(rk_data_feature, quantiles, 0, 0, 1e6,
                 "kind: so many buckets of about equal counts, fitted on the training data"),
    RK_FIELD_ARRAY(TEXTS, rk_data_feature, cross, n_cross, 0, 0,
                   "kind (with hash): categorical features whose ids are hashed together"),
    RK_FIELD_I64(rk_data_feature, hash_functions, 0, 0, RK_MAX_HASH_FUNCTIONS,
                 "with hash: so many rows a value, by hash functions of the feature's own, so that features "
                 "can share a table; 0 = one, by hash_seed alone"),
    RK_FIELD_I64(rk_data_feature, quotient_remainder, 0, 0, 1e15,
                 "two rows a value, by its id divided by this number and by what is left over: about "
                 "ids / this + this rows; 0 = a row an id"),
    RK_FIELD_ENUM(rk_data_feature, compose, RK_COMPOSE_POOL, compositions,
                  "how a value's rows of hash_functions or quotient_remainder become its vector: by the "
                  "combiner, multiplied element by element, or side by side"),
    RK_FIELD_BOOL(rk_data_feature, dense, false, "kind: a number for the dense input"),
    RK_FIELD_I64(rk_data_feature, width, 1, 1, 1e6, "dense: numbers a row; a row has all of them or none"),
    RK_FIELD_BOOL(rk_data_feature, log1p, false, "dense: sign(x) log(1 + |x|)"),
    RK_FIELD_BOOL(rk_data_feature, normalize, false,
                  "dense: (x - mean) / deviation of the training data, after log1p"),
};
const rk_schema rk_data_feature_schema = RK_SECTION_SCHEMA("features", rk_data_feature, feature_fields, NULL);

static const rk_field label_fields[] = {
    RK_FIELD_TEXT(rk_label_section, name, true, NULL, "the task's name"),
    RK_FIELD_TEXT(rk_label_section, column, false, NULL, "by default the name"),
    RK_FIELD_ARRAY(TEXTS, rk_label_section, positive, n_positive, 0, 0,
                   "texts that mean 1, all others 0; none: the column is a number"),
    RK_FIELD_F64(rk_label_section, threshold, RK_UNSET, -INFINITY, INFINITY,
                 "1 where the number is >= it, else 0"),
    RK_FIELD_BOOL(rk_label_section, optional, false,
                  "rows without this label are left out of the task; otherwise such a row is a bad row"),
    RK_FIELD_F64(rk_label_section, weight, 1, 0, INFINITY, "of the task in the loss"),
    RK_FIELD_F64(rk_label_section, weight_decay_rate, 0, 0, 1,
                 "the weight is multiplied by 1 - rate after each step"),
    RK_FIELD_F64(
        rk_label_section, smoothing, 0, 0, 1,
        "label smoothing of a binary task: y is learned as y (1 - smoothing) + smoothing / 2; metrics see y"),
    RK_FIELD_ARRAY(TEXTS, rk_label_section, product_of, n_product_of, 0, 0,
                   "two other labels: the task's probability is the product of theirs (ESMM)"),
    RK_FIELD_ENUM(rk_label_section, loss, 0, losses, "of the task"),
};
static const rk_schema label_schema = RK_SECTION_SCHEMA("labels", rk_label_section, label_fields, "name");

typedef struct rk_field_section rk_field_section;
static const rk_field field_fields[] = {
    RK_FIELD_TEXT(rk_field_section, name, true, NULL, "the column's name"),
    RK_FIELD_I64(rk_field_section, first, RK_REQUIRED_NUMBER, 0, 1e18, "first id of the field"),
    RK_FIELD_I64(rk_field_section, last, RK_REQUIRED_NUMBER, 0, 1e18, "last id of the field"),
};
static const rk_schema field_schema = RK_SECTION_SCHEMA("fields", rk_field_section, field_fields, NULL);

static const rk_field join_fields[] = {
    RK_FIELD_PATH(rk_join_section, path, true, "a small csv file, kept in memory"),
    RK_FIELD_TEXT(rk_join_section, key, true, NULL, "the data's column to join by"),
    RK_FIELD_TEXT(rk_join_section, file_key, false, NULL,
                  "the key column of the joined file; by default the same name"),
    RK_FIELD_TEXT(rk_join_section, separator, false, NULL, "by default as the data's"),
    RK_FIELD_ARRAY(TEXTS, rk_join_section, columns, n_columns, 0, 0,
                   "its columns' names, if it has no header line"),
};
static const rk_schema join_schema = RK_SECTION_SCHEMA("joins", rk_join_section, join_fields, NULL);

typedef struct rk_cache_section rk_cache_section;
static const rk_field cache_fields[] = {
    RK_FIELD_PATH(rk_cache_section, path, false,
                  "a folder; by default RK_CACHE (`off`: none), else reckon/data in $XDG_CACHE_HOME or "
                  "~/.cache"),
    RK_FIELD_I64(rk_cache_section, max_bytes, (int64_t)4 << 30, 0, 1e15,
                 "the folder takes no more than so many bytes; 0 = nothing is kept or taken from there"),
};
static const rk_schema cache_schema = RK_SECTION_SCHEMA("cache", rk_cache_section, cache_fields, "path");

static const rk_field data_fields[] = {
    RK_FIELD_ENUM(rk_data_section, format, RK_DATA_AUTO, formats,
                  "format of the files; auto: by their names"),
    RK_FIELD_STRUCT(rk_data_section, train, &split_schema, "training data"),
    RK_FIELD_STRUCT(rk_data_section, valid, &split_schema, "validation data"),
    RK_FIELD_STRUCT(rk_data_section, test, &split_schema, "test data"),
    RK_FIELD_TEXT(rk_data_section, separator, false, NULL,
                  "csv: one byte between fields; by default a comma (tsv: a tab)"),
    RK_FIELD_TEXT(rk_data_section, quote, false, "\"",
                  "csv: one byte around fields that hold separators; \"\" = none"),
    RK_FIELD_BOOL(rk_data_section, trim, true, "csv: drop spaces around fields"),
    RK_FIELD_ENUM(rk_data_section, header, 0, headers,
                  "csv: whether the first line names the columns; auto: unless `columns` is given"),
    RK_FIELD_TEXT(rk_data_section, comment, false, NULL, "csv: lines that begin with this are left out"),
    RK_FIELD_ARRAY(TEXTS, rk_data_section, columns, n_columns, 0, 0,
                   "csv, adjacency: the columns' names, in order"),
    RK_FIELD_ARRAY(TEXTS, rk_data_section, missing, n_missing, 0, 0,
                   "csv, parquet: texts that mean a missing value; the empty text always does. Other formats "
                   "store missing values themselves: convert with --config"),
    RK_FIELD_LIST(rk_data_section, fields, n_fields, &field_schema, false,
                  "libsvm: columns by ranges of ids; without any, one column `ids`"),
    RK_FIELD_LIST(rk_data_section, joins, n_joins, &join_schema, false,
                  "small files whose columns are joined to the rows by a key"),
    RK_FIELD_LIST(rk_data_section, features, n_features, &rk_data_feature_schema, true, "the model's inputs"),
    RK_FIELD_LIST(rk_data_section, labels, n_labels, &label_schema, false,
                  "what the model learns to predict; none for a two_tower"),
    RK_FIELD_TEXT(rk_data_section, sample_weight, false, NULL, "column with the sample weights"),
    RK_FIELD_F64(rk_data_section, default_sample_weight, RK_UNSET, 0, 3e38,
                 "weight of a row without one; unset: such a row is a bad row"),
    RK_FIELD_TEXT(rk_data_section, group, false, NULL, "column that GAUC groups by"),
    RK_FIELD_TEXT(
        rk_data_section, timestamp, false, NULL,
        "column with the time of each training row, in seconds since the epoch: what `eviction.ttl` "
        "counts by"),
    RK_FIELD_ENUM(rk_data_section, on_bad_row, 0, bad_rows, "what happens at a row that cannot be read"),
    RK_FIELD_BOOL(rk_data_section, shuffle, true, "shuffle the training data, differently in each epoch"),
    RK_FIELD_I64(rk_data_section, shuffle_window, 1 << 20, 1, 1e9,
                 "number of rows that are shuffled together"),
    RK_FIELD_I64(rk_data_section, cache_bytes, (int64_t)2 << 30, 0, 1e15,
                 "keep transformed rows in memory between epochs, up to so many bytes"),
    RK_FIELD_STRUCT(rk_data_section, cache, &cache_schema,
                    "transformed rows that stay in memory are kept on the disk for the next run too"),
    RK_FIELD_I64(rk_data_section, reader_threads, 0, 0, RK_MAX_READER_THREADS,
                 "threads that read and parse ahead of training; 0 = a quarter of the CPU cores, at least 1"),
    RK_FIELD_I64(rk_data_section, seed, -1, -1, 1e15, "seed of shuffling and splitting; -1 = train.seed"),
};
const rk_schema rk_data_schema_table = RK_SECTION_SCHEMA("data", rk_data_section, data_fields, NULL);

static rk_status config_error_at_line(const rk_yaml *yaml, int line, const char *name, const char *message) {
    return rk_error(RK_CONFIG, "%s: '%s': %s", rk_yaml_location_of(yaml, line).text, name, message);
}

static const char *feature_name_or_pattern(const rk_data_feature *f) {
    return f->name ? f->name : f->match;
}

/* A feature has a name; a pattern has nothing that is one column's own. */
static rk_status check_feature_name(const rk_data_feature *f, const rk_yaml *yaml) {
    if (!f->name && !f->match)
        return config_error_at_line(yaml, f->line, "features",
                                    "a feature needs a 'name', or 'match' for a pattern of columns");
    if (!f->match) return RK_OK;
    if (f->name)
        return rk_error_hint(
            config_error_at_line(yaml, f->line, f->name, "a feature has a 'name' or a 'match', not both"),
            "a feature of a pattern has its column's name");
    if (f->column || f->n_cross)
        return config_error_at_line(yaml, f->line, f->match,
                                    "column and cross belong to features with a name");
    return RK_OK;
}

static rk_status check_feature_kind(const rk_data_feature *f, const rk_yaml *yaml) {
    RK_TRY(check_feature_name(f, yaml));
    int kinds = (f->hash > 0 && f->n_cross == 0) + (f->identity > 0) + f->key + (f->vocabulary.line != 0) +
                (f->n_bucketize > 0) + (f->quantiles > 0) + (f->n_cross > 0) + f->dense;
    if (kinds != 1) {
        rk_status status =
            config_error_at_line(yaml, f->line, feature_name_or_pattern(f),
                                 kinds ? "a feature has one kind, not several" : "a feature needs a kind");
        return rk_error_hint(
            status,
            "give one of hash, identity, vocabulary, key, bucketize, quantiles, cross (with hash), dense");
    }
    if (f->n_cross && f->hash == 0)
        return rk_error_hint(config_error_at_line(yaml, f->line, feature_name_or_pattern(f),
                                                  "a cross needs its number of buckets"),
                             "add hash: N");
    if (f->n_cross == 1)
        return config_error_at_line(yaml, f->line, feature_name_or_pattern(f),
                                    "a cross needs two features or more");
    if (!f->dense && (f->log1p || f->normalize || f->width != 1))
        return config_error_at_line(yaml, f->line, feature_name_or_pattern(f),
                                    "log1p, normalize and width belong to dense features");
    if (f->dense && (f->weights || f->max_length))
        return config_error_at_line(yaml, f->line, feature_name_or_pattern(f),
                                    "weights and max_length belong to categorical features");
    if (f->separator && strlen(f->separator) != 1)
        return config_error_at_line(yaml, f->line, feature_name_or_pattern(f), "a separator is one byte");
    for (int64_t i = 1; i < f->n_bucketize; i++)
        if (f->bucketize[i] <= f->bucketize[i - 1])
            return config_error_at_line(yaml, f->line, feature_name_or_pattern(f),
                                        "bucketize's boundaries must ascend");
    return RK_OK;
}

/* Several ids a value: of which features, and what goes with them. */
static rk_status check_feature_parts(const rk_data_feature *f, const rk_yaml *yaml) {
    const char *name = feature_name_or_pattern(f);
    int32_t n = rk_feature_n_parts(f);
    if (f->hash_functions && !f->hash)
        return rk_error_hint(
            config_error_at_line(yaml, f->line, name, "hash_functions belong to features with a hash"),
            "add hash: N, the number of rows that they share");
    if (f->quotient_remainder == 1)
        return config_error_at_line(yaml, f->line, name,
                                    "quotient_remainder must be 2 or more: what ids are divided by");
    if (f->quotient_remainder && (f->dense || f->key))
        return rk_error_hint(
            config_error_at_line(yaml, f->line, name,
                                 "quotient_remainder needs a categorical feature with a last id"),
            "use hash, identity or vocabulary");
    if (f->quotient_remainder && f->hash_functions)
        return config_error_at_line(yaml, f->line, name,
                                    "a feature has hash_functions or quotient_remainder, not both");
    if (f->compose == RK_COMPOSE_POOL) return RK_OK;
    if (n < 2)
        return rk_error_hint(
            config_error_at_line(yaml, f->line, name, "compose is for features of several rows a value"),
            "add quotient_remainder, or hash_functions of 2 or more");
    if (f->weights || f->separator || f->max_length || f->n_cross)
        return rk_error_hint(
            config_error_at_line(yaml, f->line, name,
                                 "multiply and concat need a feature of one value a sample, without "
                                 "weights, separator, max_length and cross"),
            "use compose: pool");
    return RK_OK;
}

static rk_status unknown_crossed_feature_error(const rk_data_section *s, const rk_data_feature *f,
                                               const rk_yaml *yaml, const char *part) {
    char message[256];
    snprintf(message, sizeof message, "there is no feature '%.180s' to cross", part);
    return rk_hint_nearest_name(config_error_at_line(yaml, f->line, f->name, message), part, s->features,
                                sizeof *s->features, offsetof(rk_data_feature, name), (size_t)s->n_features);
}

bool rk_data_section_has_patterns(const rk_data_section *s) {
    for (int64_t i = 0; i < s->n_features; i++)
        if (s->features[i].match) return true;
    return false;
}

static rk_status check_crossed_features(const rk_data_section *s, const rk_data_feature *f,
                                        const rk_yaml *yaml, const rk_name_index *names) {
    for (int64_t k = 0; k < f->n_cross; k++) {
        int32_t i = rk_name_index_find(names, f->cross[k]);
        if (i < 0 && rk_data_section_has_patterns(s)) continue; /* looked at again when they are features */
        if (i < 0) return unknown_crossed_feature_error(s, f, yaml, f->cross[k]);
        if (s->features[i].dense || s->features[i].n_cross)
            return rk_error_hint(
                config_error_at_line(
                    yaml, f->line, f->name,
                    "only categorical features that are no crosses themselves can be crossed"),
                "bucketize the number first");
    }
    return RK_OK;
}

static rk_status check_features(const rk_data_section *s, const rk_yaml *yaml) {
    RK_AUTO(rk_name_index_release) rk_name_index names = {0};
    RK_TRY(rk_name_index_init(&names, s->features, sizeof *s->features, offsetof(rk_data_feature, name),
                              (int32_t)s->n_features));
    int32_t twin = rk_name_index_find_duplicate(&names);
    if (twin >= 0)
        return config_error_at_line(yaml, s->features[twin].line, s->features[twin].name,
                                    "a second feature of this name");
    for (int64_t i = 0; i < s->n_features; i++) {
        RK_TRY(check_feature_kind(&s->features[i], yaml));
        RK_TRY(check_feature_parts(&s->features[i], yaml));
        RK_TRY(check_crossed_features(s, &s->features[i], yaml, &names));
    }
    return RK_OK;
}

static bool is_column(const char *name, const char *column) {
    return name && strcmp(name, column) == 0;
}

/* As what is no key: a number, an id, a text. */
static bool reads_values(const rk_data_section *s, const char *column) {
    bool reads =
        is_column(s->sample_weight, column) || is_column(s->group, column) || is_column(s->timestamp, column);
    for (int64_t i = 0; i < s->n_labels; i++) reads |= is_column(rk_label_column(&s->labels[i]), column);
    for (int64_t i = 0; i < s->n_joins; i++) reads |= is_column(s->joins[i].key, column);
    for (int64_t i = 0; i < s->n_features; i++)
        reads |= is_column(s->features[i].weights, column) ||
                 (!s->features[i].key && is_column(rk_feature_column(&s->features[i]), column));
    return reads;
}

bool rk_data_section_reads_keys_alone(const rk_data_section *s, const char *column) {
    bool reads_keys = false;
    for (int64_t i = 0; i < s->n_features; i++)
        reads_keys |= s->features[i].key && is_column(rk_feature_column(&s->features[i]), column);
    return reads_keys && !reads_values(s, column);
}

rk_data_section rk_data_section_of_split(const rk_data_section *section, const rk_split_section *split) {
    rk_data_section s = *section;
    s.whole = section;
    if (!split) return s;
    if (split->format >= 0) s.format = split->format;
    if (split->separator || split->format >= 0) s.separator = split->separator;
    if (split->header >= 0) s.header = split->header;
    if (split->header == 1 || split->n_columns) {
        s.columns = split->columns;
        s.n_columns = split->n_columns;
    }
    return s;
}

/* One byte, or none is given. */
static rk_status check_separator(const char *separator, int line, const rk_yaml *yaml) {
    if (!separator || strlen(separator) == 1) return RK_OK;
    return rk_error_hint(config_error_at_line(yaml, line, "separator", "must be one byte"),
                         "where fields are separated by '::', ':' leaves an empty column between two: "
                         "columns: [user, _, item, _, rating]");
}

static rk_status check_split(const rk_split_section *split, const char *name, const rk_yaml *yaml) {
    if (!split->line) return RK_OK;
    RK_TRY(check_separator(split->separator, split->line, yaml));
    if (split->fraction > 0 &&
        (split->format >= 0 || split->separator || split->header >= 0 || split->n_columns))
        return config_error_at_line(
            yaml, split->line, name,
            "format, separator, header and columns belong to files of its own; a fraction is of train's");
    if ((split->n_path > 0) == (split->fraction > 0))
        return config_error_at_line(yaml, split->line, name, "give either a path or a fraction");
    return RK_OK;
}

/* A product's factors are two binary tasks, with logits of their own. */
static rk_status check_product_label(const rk_data_section *s, const rk_label_section *label,
                                     const rk_yaml *yaml) {
    if (label->n_product_of == 0) return RK_OK;
    if (label->n_product_of != 2 || strcmp(label->product_of[0], label->product_of[1]) == 0)
        return rk_error_hint(
            config_error_at_line(yaml, label->line, label->name, "product_of names two labels"),
            "as in product_of: [click, bought_if_clicked]");
    if (label->loss != 0)
        return config_error_at_line(
            yaml, label->line, label->name,
            "a product of probabilities is a probability: its loss is sigmoid_cross_entropy");
    for (int64_t k = 0; k < 2; k++) {
        const rk_label_section *factor = RK_FIND_BY(name, label->product_of[k], s->labels, s->n_labels);
        char message[256];
        if (factor && factor->loss == 0 && factor->n_product_of == 0) continue;
        snprintf(message, sizeof message,
                 factor ? "'%.180s' is no label with a probability of its own" : "there is no label '%.180s'",
                 label->product_of[k]);
        return config_error_at_line(yaml, label->line, label->name, message);
    }
    return RK_OK;
}

static rk_status check_labels(const rk_data_section *s, const rk_yaml *yaml) {
    for (int64_t i = 0; i < s->n_labels; i++) {
        for (int64_t j = 0; j < i; j++)
            if (strcmp(s->labels[i].name, s->labels[j].name) == 0)
                return config_error_at_line(yaml, s->labels[i].line, s->labels[i].name,
                                            "a second label of this name");
        RK_TRY(check_product_label(s, &s->labels[i], yaml));
        if (s->labels[i].smoothing > 0 && s->labels[i].loss != 0)
            return config_error_at_line(yaml, s->labels[i].line, s->labels[i].name,
                                        "smoothing is for labels of 0 and 1, not for mse");
    }
    return RK_OK;
}

rk_status rk_data_section_check(const rk_data_section *s, const rk_yaml *yaml) {
    if (!s->train.line)
        return rk_error(RK_CONFIG, "%s: key 'data': needs 'train'", rk_yaml_location_of(yaml, s->line).text);
    RK_TRY(check_split(&s->train, "train", yaml));
    RK_TRY(check_split(&s->valid, "valid", yaml));
    RK_TRY(check_split(&s->test, "test", yaml));
    if (s->train.fraction > 0)
        return config_error_at_line(yaml, s->train.line, "train",
                                    "needs a path; a fraction belongs to valid or test");
    if (s->valid.fraction + s->test.fraction >= 1)
        return config_error_at_line(yaml, s->train.line, "train", "the fractions leave nothing to train on");
    RK_TRY(check_separator(s->separator, s->line, yaml));
    if (!s->sample_weight && !isnan(s->default_sample_weight))
        return config_error_at_line(yaml, s->line, "default_sample_weight",
                                    "needs sample_weight, the weights' column");
    if (s->quote && strlen(s->quote) > 1)
        return config_error_at_line(yaml, s->line, "quote", "must be one byte or none");
    if (s->n_features == 0)
        return config_error_at_line(yaml, s->line, "features", "a model needs one feature or more");
    RK_TRY(check_features(s, yaml));
    RK_TRY(check_labels(s, yaml));
    for (int64_t i = 0; i < s->n_fields; i++)
        if (s->fields[i].last < s->fields[i].first)
            return config_error_at_line(yaml, s->fields[i].line, s->fields[i].name,
                                        "its last id is below its first");
    return RK_OK;
}
