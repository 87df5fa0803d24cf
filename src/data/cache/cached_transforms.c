#include "data/cache/cached_transforms.h"

#include <math.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "data/cache/cache_entry.h"
#include "data/transform/transforms_internal.h"

/* A feature's numbers, then its boundaries and the values of its vocabulary: counts, lengths, bytes. */
static void append_fitted(const rk_fitted *fitted, rk_buffer *out) {
    const rk_vocabulary *v = &fitted->vocabulary;
    rk_buffer_append(out, &fitted->mean, sizeof fitted->mean);
    rk_buffer_append(out, &fitted->deviation, sizeof fitted->deviation);
    rk_buffer_append_u64le(out, (uint64_t)fitted->n_boundaries);
    if (fitted->n_boundaries)
        rk_buffer_append(out, fitted->boundaries, (size_t)fitted->n_boundaries * sizeof(double));
    rk_buffer_append_u64le(out, v->n);
    for (size_t i = 0; i < v->n; i++) {
        rk_span text = rk_vocabulary_text(v, i);
        rk_buffer_append_u64le(out, (uint64_t)v->counts[i]);
        rk_buffer_append_u64le(out, text.n_bytes);
        if (text.n_bytes) rk_buffer_append(out, text.data, text.n_bytes);
    }
}

static void append_transforms(const rk_transforms *t, bool all, rk_buffer *out) {
    for (int64_t i = 0; i < t->section->n_features; i++)
        if (all || rk_feature_is_fitted(&t->section->features[i])) append_fitted(&t->fitted[i], out);
}

rk_status rk_transforms_hash(const rk_transforms *t, uint64_t *out) {
    RK_AUTO(rk_buffer_release) rk_buffer bytes = {0};
    append_transforms(t, true, &bytes);
    RK_TRY(bytes.status);
    *out = rk_hash_bytes(bytes.data, bytes.n_bytes, 0);
    return RK_OK;
}

static rk_status save_fitted(const void *context, rk_cache_writer *w) {
    RK_AUTO(rk_buffer_release) rk_buffer bytes = {0};
    append_transforms(context, false, &bytes);
    RK_TRY(bytes.status);
    return rk_cache_write(w, bytes.data, bytes.n_bytes);
}

static rk_status load_boundaries(const rk_data_feature *f, rk_fitted *fitted, rk_cache_reader *r) {
    uint64_t n;
    RK_TRY(rk_cache_read_count(r, sizeof(double), &n));
    if (n && n >= (uint64_t)f->quantiles)
        return rk_cache_damaged_error(r, "a feature has too many boundaries");
    RK_TRY(rk_alloc(n, sizeof *fitted->boundaries, &fitted->boundaries));
    RK_TRY(rk_cache_read(r, fitted->boundaries, n * sizeof(double)));
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(fitted->boundaries[i]) || (i && !(fitted->boundaries[i] > fitted->boundaries[i - 1])))
            return rk_cache_damaged_error(r, "boundaries do not ascend");
    fitted->n_boundaries = (int64_t)n;
    return RK_OK;
}

static rk_status load_vocabulary(rk_vocabulary *v, rk_cache_reader *r) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    uint64_t n, count, n_bytes;
    int64_t number;
    RK_TRY(rk_cache_read_count(r, 2 * sizeof n, &n));
    for (uint64_t i = 0; i < n; i++) {
        RK_TRY(rk_cache_read_u64(r, &count));
        RK_TRY(rk_cache_read_count(r, 1, &n_bytes));
        rk_buffer_clear(&text);
        char *bytes = n_bytes ? rk_buffer_extend(&text, n_bytes) : NULL;
        RK_TRY(text.status);
        if (bytes) RK_TRY(rk_cache_read(r, bytes, n_bytes));
        RK_TRY(rk_vocabulary_add(v, (rk_span){bytes ? bytes : "", n_bytes}, 0, &number));
        if ((uint64_t)number != i || count > INT64_MAX)
            return rk_cache_damaged_error(r, "a value is there twice");
        v->counts[number] = (int64_t)count;
    }
    return RK_OK;
}

static rk_status load_feature(const rk_data_feature *f, rk_fitted *fitted, rk_cache_reader *r) {
    RK_TRY(rk_cache_read(r, &fitted->mean, sizeof fitted->mean));
    RK_TRY(rk_cache_read(r, &fitted->deviation, sizeof fitted->deviation));
    if (!isfinite(fitted->mean) || !isfinite(fitted->deviation) || !(fitted->deviation > 0))
        return rk_cache_damaged_error(r, "a feature has no mean or deviation");
    RK_TRY(load_boundaries(f, fitted, r));
    return load_vocabulary(&fitted->vocabulary, r);
}

static rk_status load_fitted(void *context, rk_cache_reader *r) {
    rk_transforms *t = context;
    for (int64_t i = 0; i < t->section->n_features; i++)
        if (rk_feature_is_fitted(&t->section->features[i]))
            RK_TRY(load_feature(&t->section->features[i], &t->fitted[i], r));
    return RK_OK;
}

static void reset_all_fitted(rk_transforms *t) {
    for (int64_t i = 0; i < t->section->n_features; i++)
        if (rk_feature_is_fitted(&t->section->features[i])) rk_fitted_reset(&t->fitted[i]);
}

static rk_status load_or_fit_transforms(rk_transforms *t, const rk_fit_options *options) {
    RK_AUTO(rk_cache_key_release) rk_cache_key key = {0};
    bool found;
    RK_TRY(rk_cache_key_init(t->section, options->directory, &key));
    rk_buffer_append_text(&key.settings, "what: transforms\n");
    RK_TRY(key.settings.status);
    RK_TRY(rk_cache_find(&key, load_fitted, t, &found));
    if (found) return RK_OK;
    reset_all_fitted(t);
    RK_TRY(rk_transforms_fit_by_pass(t, options));
    rk_cache_store(&key, save_fitted, t);
    return RK_OK;
}

rk_status rk_cached_transforms_fit(const rk_data_section *section, const rk_yaml *yaml,
                                   const rk_fit_options *options, rk_transforms **out) {
    rk_fit_options cached = *options;
    cached.fit = load_or_fit_transforms;
    return rk_transforms_fit_section(section, yaml, &cached, out);
}
