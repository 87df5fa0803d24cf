/* The pass over the training data. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "data/transform/transforms_internal.h"

enum { MAX_SAMPLE = 1 << 22 };

static bool builds_vocabulary(const rk_data_feature *f) {
    return f->vocabulary.line && !f->vocabulary.path;
}

bool rk_feature_is_fitted(const rk_data_feature *f) {
    return builds_vocabulary(f) || f->quantiles || f->normalize;
}

/* What one feature gathers during the pass. */
typedef struct gatherer {
    const rk_data_feature *f;
    rk_vocabulary counts;
    double *sample; /* [n_sample] for quantiles: of the numbers so far, those that is_number_in_sample */
    size_t n_sample, sample_capacity;
    int64_t n_numbers;
    int n_halvings;
    double n, mean, squares; /* Welford's running moments */
} gatherer;

/* Of all numbers, each as likely as another, whatever the order of the files is: all, half, a quarter of
 * them. */
static bool is_number_in_sample(int64_t number, int n_halvings) {
    return (rk_hash_i64(number, 0) & (((uint64_t)1 << n_halvings) - 1)) == 0;
}

static void drop_half_of_sample(gatherer *g) {
    size_t at = 0, kept = 0;
    for (int64_t number = 0; at < g->n_sample; number++) {
        if (!is_number_in_sample(number, g->n_halvings)) continue;
        if (is_number_in_sample(number, g->n_halvings + 1)) g->sample[kept++] = g->sample[at];
        at++;
    }
    g->n_sample = kept;
    g->n_halvings++;
}

static rk_status add_to_sample(gatherer *g, double x) {
    int64_t number = g->n_numbers++;
    if (!is_number_in_sample(number, g->n_halvings)) return RK_OK;
    if (g->n_sample == MAX_SAMPLE) drop_half_of_sample(g);
    if (!is_number_in_sample(number, g->n_halvings)) return RK_OK;
    RK_TRY(rk_reserve_one_more(&g->sample, g->n_sample, &g->sample_capacity, sizeof *g->sample));
    g->sample[g->n_sample++] = x;
    return RK_OK;
}

static void add_to_moments(gatherer *g, double x) {
    g->n += 1;
    double delta = x - g->mean;
    g->mean += delta / g->n;
    g->squares += delta * (x - g->mean);
}

/* A value that is refused when it is read for training, says nothing of the others. */
static rk_status gather_training_value(void *context, const rk_column *column, int64_t value, rk_span text) {
    gatherer *g = context;
    int64_t number;
    char scratch[RK_NUMBER_BYTES];
    if (builds_vocabulary(g->f))
        return rk_vocabulary_add(&g->counts, column ? rk_value_as_text(column, value, scratch) : text, 1,
                                 &number);
    double x;
    if (!(column ? rk_value_as_number(column, value, &x) : rk_parse_f64(text, &x)) || !isfinite(x))
        return RK_OK;
    if (g->f->quantiles) return add_to_sample(g, x);
    if (g->f->log1p) x = rk_log1p_signed(x);
    if (isfinite((float)x)) add_to_moments(g, x);
    return RK_OK;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Boundaries at equal shares, equal ones once. */
static rk_status find_quantiles(gatherer *g, rk_fitted *out) {
    if (g->n_sample) qsort(g->sample, g->n_sample, sizeof *g->sample, compare_doubles);
    RK_TRY(rk_alloc((size_t)g->f->quantiles, sizeof *out->boundaries, &out->boundaries));
    for (int64_t k = 1; k < g->f->quantiles && g->n_sample; k++) {
        double at = g->sample[(size_t)((double)k / (double)g->f->quantiles * (double)g->n_sample)];
        if (out->n_boundaries == 0 || at > out->boundaries[out->n_boundaries - 1])
            out->boundaries[out->n_boundaries++] = at;
    }
    return RK_OK;
}

static rk_status fit_feature(gatherer *g, rk_fitted *out) {
    if (builds_vocabulary(g->f))
        RK_TRY(rk_vocabulary_most_frequent(&g->counts, g->f->vocabulary.min_count, g->f->vocabulary.max_size,
                                           &out->vocabulary));
    if (g->f->quantiles) RK_TRY(find_quantiles(g, out));
    if (g->f->normalize && g->n > 0) {
        out->mean = g->mean;
        out->deviation = g->squares > 0 ? sqrt(g->squares / g->n) : 1;
    }
    return RK_OK;
}

static rk_status read_training_rows(const rk_transforms *t, const char *directory, gatherer *gatherers) {
    const rk_data_section *s = t->section, manner = rk_data_section_of_split(s, &s->train);
    RK_AUTO(rk_joined_rows_release) rk_joined_rows rows = {0};
    RK_TRY(rk_joined_rows_open(&manner, directory, s->train.path, (size_t)s->train.n_path, t->names,
                               t->n_names, t->n_labels_names, &rows));
    rk_source_take_any_bits(rows.source);
    for (int64_t row_number = 0;;) {
        const rk_chunk *chunk;
        RK_TRY(rk_source_read_chunk(rows.source, &chunk));
        if (chunk->columns.n_rows == 0) return RK_OK;
        for (int64_t row = 0; row < chunk->columns.n_rows; row++) {
            if (rk_split_of_row(s, (uint64_t)s->seed, row_number++) != 0)
                continue; /* nothing is learnt from rows set aside */
            for (int64_t i = 0; i < s->n_features; i++)
                if (rk_feature_is_fitted(&s->features[i]))
                    RK_TRY(rk_for_each_value(
                        &s->features[i],
                        rk_joined_rows_get_values(&rows, &chunk->columns, t->fitted[i].name, row),
                        gather_training_value, &gatherers[i]));
        }
    }
}

static rk_status load_given_vocabularies(rk_transforms *t, const char *directory) {
    for (int64_t i = 0; i < t->section->n_features; i++) {
        const rk_data_feature *f = &t->section->features[i];
        if (!f->vocabulary.line || !f->vocabulary.path) continue;
        RK_AUTOFREE char *path = NULL;
        RK_TRY(rk_path_join(directory, f->vocabulary.path, &path));
        rk_status status = rk_vocabulary_load(path, &t->fitted[i].vocabulary);
        if (status != RK_OK) return rk_error_context(status, "feature '%s'", f->name);
    }
    return RK_OK;
}

static rk_status fit_by_reading_training_rows(rk_transforms *t, const char *directory) {
    const rk_data_section *s = t->section;
    RK_AUTOFREE gatherer *gatherers = NULL;
    RK_TRY(rk_alloc((size_t)s->n_features, sizeof *gatherers, &gatherers));
    for (int64_t i = 0; i < s->n_features; i++) gatherers[i].f = &s->features[i];
    rk_status status = read_training_rows(t, directory, gatherers);
    for (int64_t i = 0; i < s->n_features; i++) {
        if (status == RK_OK) status = fit_feature(&gatherers[i], &t->fitted[i]);
        rk_vocabulary_release(&gatherers[i].counts);
        rk_free(gatherers[i].sample);
    }
    return status;
}

static bool has_fitted_features(const rk_data_section *section) {
    bool any = false;
    for (int64_t i = 0; i < section->n_features; i++) any |= rk_feature_is_fitted(&section->features[i]);
    return any;
}

rk_status rk_transforms_fit_by_pass(rk_transforms *t, const rk_fit_options *options) {
    if (options->on_stage)
        options->on_stage(options->user, "reading the training data once for vocabularies and normalization");
    return fit_by_reading_training_rows(t, options->directory);
}

rk_status rk_transforms_fit_section(const rk_data_section *section, const rk_yaml *yaml,
                                    const rk_fit_options *options, rk_transforms **out) {
    RK_TRY(rk_data_section_check(section, yaml));
    RK_AUTO(rk_transforms_auto_free) rk_transforms *t = NULL;
    RK_TRY(rk_transforms_new(section, &t));
    rk_transforms_set_directory(t, options->directory);
    RK_TRY(rk_transforms_derive_schema(t));
    RK_TRY(load_given_vocabularies(t, options->directory));
    if (has_fitted_features(section))
        RK_TRY(options->fit ? options->fit(t, options) : rk_transforms_fit_by_pass(t, options));
    RK_TRY(rk_transforms_derive_schema(t));
    *out = t;
    t = NULL;
    return RK_OK;
}
