/* What was fitted, on disk: docs/formats/checkpoint.md. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "data/transform/transforms_internal.h"

/* A vocabulary's file: "vocabulary/<feature>.txt", with bytes that a file name cannot hold written as %xx. */
static rk_status vocabulary_file_name(const char *feature, char out[512]) {
    int n = snprintf(out, 512, "vocabulary/");
    for (const char *at = feature; *at; at++) {
        RK_FAIL_IF(n > 480, RK_UNSUPPORTED, "feature '%s': its name is too long for a file's", feature);
        bool plain = strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *at) != NULL;
        n += snprintf(out + n, (size_t)(512 - n), plain ? "%c" : "%%%02x", plain ? *at : (unsigned char)*at);
    }
    snprintf(out + n, (size_t)(512 - n), ".txt");
    return RK_OK;
}

static rk_status save_vocabularies(const rk_transforms *t, const char *directory, rk_text_list *names) {
    for (int64_t i = 0; i < t->section->n_features; i++) {
        if (!t->section->features[i].vocabulary.line) continue;
        char name[512];
        RK_AUTOFREE char *path = NULL, *parent = NULL;
        RK_TRY(vocabulary_file_name(t->section->features[i].name, name));
        RK_TRY(rk_path_join(directory, "vocabulary", &parent));
        RK_TRY(rk_make_directories(parent));
        RK_TRY(rk_path_join(directory, name, &path));
        RK_TRY(rk_vocabulary_save(&t->fitted[i].vocabulary, path));
        RK_TRY(rk_text_list_add(names, name));
    }
    return RK_OK;
}

/* What was fitted of feature i, into its entry. */
static void add_fitted_json(const rk_transforms *t, int64_t i, json_t *entry) {
    const rk_data_feature *f = &t->section->features[i];
    if (f->normalize) {
        json_object_set_new(entry, "mean", json_real(t->fitted[i].mean));
        json_object_set_new(entry, "deviation", json_real(t->fitted[i].deviation));
    }
    if (f->quantiles) {
        json_t *boundaries = json_array();
        for (int64_t k = 0; k < t->fitted[i].n_boundaries; k++)
            json_array_append_new(boundaries, json_real(t->fitted[i].boundaries[k]));
        json_object_set_new(entry, "boundaries", boundaries);
    }
}

static json_t *fitted_json(const rk_transforms *t) {
    json_t *features = json_object();
    for (int64_t i = 0; i < t->section->n_features; i++) {
        json_t *entry = json_object();
        add_fitted_json(t, i, entry);
        json_object_set_new(features, t->section->features[i].name, entry);
    }
    return json_pack("{s:i, s:o}", "version", 1, "features", features);
}

/* What ids of composed features are made with. */
static void add_parts_json(const rk_transforms *t, int64_t i, json_t *entry) {
    const rk_data_feature *f = &t->section->features[i];
    uint64_t seeds[RK_MAX_HASH_FUNCTIONS];
    if (f->quotient_remainder)
        json_object_set_new(entry, "first_remainder",
                            json_integer(rk_first_remainder_id(f, rk_fitted_n_ids(f, &t->fitted[i]))));
    if (!f->hash_functions) return;
    json_t *list = json_array();
    rk_hash_function_seeds(f, seeds);
    for (int64_t j = 0; j < f->hash_functions; j++)
        json_array_append_new(list, json_integer((json_int_t)seeds[j]));
    json_object_set_new(entry, "hash_function_seeds", list);
}

/* The feature's keys, with all defaults, and what was fitted. */
static rk_status add_feature_json(const rk_transforms *t, int64_t i, json_t *features) {
    const rk_data_feature *f = &t->section->features[i];
    char name[512];
    json_t *entry = rk_schema_to_json(&rk_data_feature_schema, f);
    if (!entry || json_array_append_new(features, entry) != 0) return RK_NO_MEMORY_ERROR(0);
    json_object_set_new(entry, "column", json_string(rk_feature_column(f)));
    add_fitted_json(t, i, entry);
    add_parts_json(t, i, entry);
    if (!f->vocabulary.line) return RK_OK;
    RK_TRY(vocabulary_file_name(f->name, name));
    json_object_set_new(json_object_get(entry, "vocabulary"), "file", json_string(name));
    return RK_OK;
}

rk_status rk_transforms_to_json(const rk_transforms *t, char **out) {
    json_auto_t *features = json_array(), *missing = json_array();
    for (int64_t i = 0; i < t->section->n_features; i++) RK_TRY(add_feature_json(t, i, features));
    for (int64_t i = 0; i < t->section->n_missing; i++)
        json_array_append_new(missing, json_string(t->section->missing[i]));
    json_auto_t *root = json_pack("{s:i, s:O, s:O}", "version", 1, "missing", missing, "features", features);
    char *text = root ? json_dumps(root, JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) : NULL;
    if (!text) return RK_NO_MEMORY_ERROR(0);
    rk_status status = rk_strdup(text, out);
    free(text);
    return status;
}

rk_status rk_transforms_save(const rk_transforms *t, const char *directory, rk_text_list *names) {
    RK_TRY(save_vocabularies(t, directory, names));
    json_auto_t *root = fitted_json(t);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) : NULL;
    if (!text) return RK_NO_MEMORY_ERROR(0);
    RK_AUTOFREE char *path = NULL;
    rk_status status = rk_path_join(directory, "transforms.json", &path);
    if (status == RK_OK) status = rk_file_write(path, text, strlen(text));
    free(text);
    RK_TRY(status);
    return rk_text_list_add(names, "transforms.json");
}

static rk_status damaged_error(const char *feature, const char *what) {
    return rk_error(RK_BAD_DATA, "transforms.json: the feature '%s' %s", feature, what);
}

static rk_status load_moments(const json_t *entry, const char *feature, rk_fitted *out) {
    const json_t *mean = json_object_get(entry, "mean"), *deviation = json_object_get(entry, "deviation");
    if (!json_is_number(mean) || !isfinite(json_number_value(mean)))
        return damaged_error(feature, "has no mean");
    if (!json_is_number(deviation) || !isfinite(json_number_value(deviation)) ||
        !(json_number_value(deviation) > 0))
        return damaged_error(feature, "has no deviation");
    out->mean = json_number_value(mean);
    out->deviation = json_number_value(deviation);
    return RK_OK;
}

static rk_status load_boundaries(const json_t *entry, const rk_data_feature *f, rk_fitted *out) {
    const json_t *boundaries = json_object_get(entry, "boundaries");
    size_t n = json_array_size(boundaries);
    if (!json_is_array(boundaries)) return damaged_error(f->name, "has no boundaries");
    if (n >= (size_t)f->quantiles)
        return damaged_error(f->name, "has more boundaries than its quantiles have");
    RK_TRY(rk_alloc(n, sizeof *out->boundaries, &out->boundaries));
    for (size_t k = 0; k < n; k++) {
        const json_t *at = json_array_get(boundaries, k);
        double bound = json_number_value(at);
        if (!json_is_number(at) || !isfinite(bound) || (k && bound <= out->boundaries[k - 1]))
            return damaged_error(f->name, "has boundaries that are no ascending numbers");
        out->boundaries[k] = bound;
        out->n_boundaries++;
    }
    return RK_OK;
}

static rk_status load_fitted(rk_transforms *t, json_t *root) {
    json_t *features = json_object_get(root, "features");
    RK_FAIL_IF(json_integer_value(json_object_get(root, "version")) != 1, RK_BAD_DATA,
               "transforms.json: its version is not 1");
    for (int64_t i = 0; i < t->section->n_features; i++) {
        const rk_data_feature *f = &t->section->features[i];
        json_t *entry = json_object_get(features, f->name);
        RK_FAIL_IF(!entry, RK_BAD_DATA, "transforms.json has no entry for the feature '%s'", f->name);
        if (f->normalize) RK_TRY(load_moments(entry, f->name, &t->fitted[i]));
        if (f->quantiles) RK_TRY(load_boundaries(entry, f, &t->fitted[i]));
    }
    return RK_OK;
}

static rk_status load_vocabularies(rk_transforms *t, const char *directory) {
    for (int64_t i = 0; i < t->section->n_features; i++) {
        if (!t->section->features[i].vocabulary.line) continue;
        char name[512];
        RK_AUTOFREE char *path = NULL;
        RK_TRY(vocabulary_file_name(t->section->features[i].name, name));
        RK_TRY(rk_path_join(directory, name, &path));
        RK_TRY(rk_vocabulary_load(path, &t->fitted[i].vocabulary));
    }
    return RK_OK;
}

rk_status rk_transforms_load_files(const rk_data_section *section, const char *directory,
                                   rk_transforms **out) {
    RK_AUTO(rk_transforms_auto_free) rk_transforms *t = NULL;
    RK_AUTOFREE char *path = NULL;
    RK_TRY(rk_transforms_new(section, &t));
    RK_TRY(rk_path_join(directory, "transforms.json", &path));
    json_error_t error;
    json_auto_t *root = json_load_file(path, 0, &error);
    RK_FAIL_IF(!root, RK_BAD_DATA, "'%s': %s", path, error.text);
    RK_TRY(load_fitted(t, root));
    RK_TRY(load_vocabularies(t, directory));
    RK_TRY(rk_transforms_derive_schema(t));
    *out = t;
    t = NULL;
    return RK_OK;
}
