#include "data/transform/transforms.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/text/name_index.h"
#include "data/transform/transforms_internal.h"

rk_status rk_transforms_new(const rk_data_section *section, rk_transforms **out) {
    RK_AUTO(rk_transforms_auto_free) rk_transforms *t = NULL;
    RK_TRY(rk_alloc(1, sizeof *t, &t));
    t->section = section;
    t->directory = "";
    size_t n = (size_t)section->n_features;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n, t->fitted), RK_ARRAY(n, t->features)));
    size_t n_crossed = 0;
    for (size_t i = 0; i < n; i++) n_crossed += (size_t)section->features[i].n_cross;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(n_crossed, t->crossed),
                        RK_ARRAY(2 * n + (size_t)section->n_labels + 3, t->names)));
    for (size_t i = 0; i < n; i++) rk_fitted_reset(&t->fitted[i]);
    *out = t;
    t = NULL;
    return RK_OK;
}

void rk_fitted_reset(rk_fitted *fitted) {
    rk_vocabulary_release(&fitted->vocabulary);
    rk_free(fitted->boundaries);
    fitted->boundaries = NULL;
    fitted->n_boundaries = 0;
    fitted->mean = 0;
    fitted->deviation = 1;
}

void rk_transforms_free(rk_transforms *t) {
    if (!t) return;
    for (int64_t i = 0; t->fitted && i < t->section->n_features; i++) rk_fitted_reset(&t->fitted[i]);
    RK_FREE_ALL(t->fitted, t->features, t->crossed, t->names);
    if (t->release_owner) t->release_owner(t->owner);
    rk_free(t);
}

void rk_transforms_set_owner(rk_transforms *t, void *owner, void (*release)(void *owner)) {
    t->owner = owner;
    t->release_owner = release;
}

void rk_transforms_set_directory(rk_transforms *t, const char *directory) {
    t->directory = directory;
}

static int32_t add_column_name(rk_transforms *t, const char *name) {
    t->names[t->n_names] = name;
    return (int32_t)t->n_names++;
}

int64_t rk_fitted_n_ids(const rk_data_feature *f, const rk_fitted *fitted) {
    if (f->hash) return f->hash;
    if (f->identity) return f->identity;
    if (f->key) return 0;
    if (f->n_bucketize) return f->n_bucketize + 1;
    if (f->quantiles) return fitted->n_boundaries + 1;
    int64_t n = f->vocabulary.oov + (int64_t)fitted->vocabulary.n;
    return n > 0 ? n : 1;
}

/* Ids that a batch may have. */
static int64_t compute_cardinality(const rk_data_feature *f, const rk_fitted *fitted) {
    int64_t n = rk_fitted_n_ids(f, fitted);
    return rk_feature_n_parts(f) ? rk_count_composed_rows(f, n) : n;
}

static rk_status find_crossed_features(rk_transforms *t) {
    const rk_data_section *s = t->section;
    RK_AUTO(rk_name_index_release) rk_name_index names = {0};
    int32_t *at = t->crossed;
    RK_TRY(rk_name_index_init(&names, t->features, sizeof *t->features, offsetof(rk_data_feature_info, name),
                              t->schema.n_features));
    for (int64_t i = 0; i < s->n_features; i++) {
        t->fitted[i].crossed = at;
        for (int64_t c = 0; c < s->features[i].n_cross; c++)
            *at++ = rk_name_index_find(&names, s->features[i].cross[c]);
    }
    return RK_OK;
}

rk_status rk_transforms_derive_schema(rk_transforms *t) {
    const rk_data_section *s = t->section;
    rk_data_schema *schema = &t->schema;
    *schema = (rk_data_schema){.features = t->features, .tasks = s->labels, .n_tasks = (int32_t)s->n_labels};
    t->n_names = 0;
    for (int64_t i = 0; i < s->n_labels; i++) add_column_name(t, rk_label_column(&s->labels[i]));
    t->weight_name = s->sample_weight ? add_column_name(t, s->sample_weight) : -1;
    t->group_name = s->group ? add_column_name(t, s->group) : -1;
    t->n_labels_names = t->n_names;
    for (int64_t i = 0; i < s->n_features; i++) {
        const rk_data_feature *f = &s->features[i];
        rk_fitted *fitted = &t->fitted[i];
        fitted->name = f->n_cross ? -1 : add_column_name(t, rk_feature_column(f));
        fitted->weight_name = f->weights ? add_column_name(t, f->weights) : -1;
        fitted->output = f->dense ? schema->n_dense : schema->n_features;
        if (f->dense)
            schema->n_dense += (int32_t)f->width;
        else
            t->features[schema->n_features++] =
                (rk_data_feature_info){f->name, compute_cardinality(f, fitted), f->weights != NULL,
                                       rk_feature_n_parts(f), f->compose};
    }
    t->timestamp_name = s->timestamp ? (int32_t)t->n_names : -1;
    if (s->timestamp) t->names[t->n_names] = s->timestamp;
    return find_crossed_features(t);
}

const rk_data_schema *rk_transforms_schema(const rk_transforms *t) {
    return &t->schema;
}

const rk_data_section *rk_transforms_section(const rk_transforms *t) {
    return t->section;
}

double rk_log1p_signed(double x) {
    return x < 0 ? -log1p(-x) : log1p(x);
}

int rk_split_of_row(const rk_data_section *s, uint64_t seed, int64_t row) {
    if (s->valid.fraction == 0 && s->test.fraction == 0) return 0;
    double u = rk_uniform_from_bits(rk_hash_i64(row, seed));
    return u < s->valid.fraction ? 1 : u < s->valid.fraction + s->test.fraction ? 2 : 0;
}
