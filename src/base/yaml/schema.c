#include "base/yaml/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/config_synonyms.h"
#include "base/text/find_text.h"
#include "base/text/text.h"

enum { MAX_KEYS = 64 };

static void *member_at(void *object, size_t offset) {
    return (char *)object + offset;
}

static bool is_null_node(const rk_yaml_node *node) {
    if (!node) return true;
    if (node->kind != RK_YAML_SCALAR || node->quoted) return false;
    return strcmp(node->scalar, "") == 0 || strcmp(node->scalar, "~") == 0 ||
           strcmp(node->scalar, "null") == 0;
}

static const char *describe_node_kind(const rk_yaml_node *node) {
    return node->kind == RK_YAML_SEQUENCE  ? "a list"
           : node->kind == RK_YAML_MAPPING ? "a mapping"
                                           : "a value";
}

/* "must be X, not Y" for any value. */
static rk_status wrong_type_error(const rk_yaml *yaml, const rk_yaml_node *node, const char *wanted) {
    if (node->kind == RK_YAML_SCALAR)
        return rk_yaml_error(yaml, node, "must be %s, not '%s'", wanted, node->scalar);
    return rk_yaml_error(yaml, node, "must be %s, not %s", wanted, describe_node_kind(node));
}

static rk_status bind_bool(const rk_yaml *yaml, const rk_yaml_node *node, bool *out) {
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
    if (node->kind == RK_YAML_SCALAR && !node->quoted)
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
            if (strcmp(node->scalar, words[i]) == 0) {
                *out = i % 2 == 1;
                return RK_OK;
            }
    return wrong_type_error(yaml, node, "true or false");
}

/* Digits may be grouped by '_' (1_000_000). */
static bool parse_number(const rk_yaml_node *node, double *out) {
    if (node->kind != RK_YAML_SCALAR || node->quoted) return false;
    char digits[64];
    size_t n = 0;
    for (const char *at = node->scalar; *at; at++) {
        if (*at == '_') continue;
        if (n + 1 >= sizeof digits) return false;
        digits[n++] = *at;
    }
    return rk_parse_f64((rk_span){digits, n}, out);
}

static rk_status check_range(const rk_yaml *yaml, const rk_yaml_node *node, const rk_field *field,
                             double value) {
    if (value >= field->min && value <= field->max) return RK_OK;
    if (isinf(field->max) || field->max >= 9e18)
        return rk_yaml_error(yaml, node, "must be %g or more, not '%s'", field->min, node->scalar);
    return rk_yaml_error(yaml, node, "must be between %.15g and %.15g, not '%s'", field->min, field->max,
                         node->scalar);
}

static rk_status bind_f64(const rk_yaml *yaml, const rk_yaml_node *node, const rk_field *field, double *out) {
    double value;
    if (!parse_number(node, &value)) return wrong_type_error(yaml, node, "a number");
    RK_TRY(check_range(yaml, node, field, value));
    *out = value;
    return RK_OK;
}

static rk_status bind_i64(const rk_yaml *yaml, const rk_yaml_node *node, const rk_field *field,
                          int64_t *out) {
    double value;
    if (!parse_number(node, &value) || value != floor(value) || fabs(value) > 0x1p53)
        return wrong_type_error(yaml, node, "a whole number");
    RK_TRY(check_range(yaml, node, field, value));
    *out = (int64_t)value;
    return RK_OK;
}

static void hint_known_names(rk_status status, const char *word, const char *const *names, size_t n,
                             const char *what) {
    const char *nearest = word ? rk_nearest_name(word, names, n) : NULL;
    if (nearest) {
        rk_error_hint(status, "did you mean '%s'?", nearest);
        return;
    }
    char list[1024];
    size_t n_bytes = 0;
    list[0] = 0;
    for (size_t i = 0; i < n && n_bytes + strlen(names[i]) + 3 < sizeof list; i++) {
        if (i) n_bytes = (size_t)(stpcpy(list + n_bytes, ", ") - list);
        n_bytes = (size_t)(stpcpy(list + n_bytes, names[i]) - list);
    }
    rk_error_hint(status, "%s %s", what, list);
}

static rk_status bind_enum(const rk_yaml *yaml, const rk_yaml_node *node, const rk_field *field, int *out) {
    if (node->kind != RK_YAML_SCALAR) return wrong_type_error(yaml, node, "one name");
    int64_t i = rk_text_position(node->scalar, field->names, field->n_names);
    if (i >= 0) {
        *out = (int)i;
        return RK_OK;
    }
    rk_status status = rk_yaml_error(yaml, node, "there is no '%s'", node->scalar);
    hint_known_names(status, node->scalar, field->names, field->n_names, "it is one of");
    return status;
}

static rk_status bind_text(const rk_yaml *yaml, const rk_yaml_node *node, const rk_field *field, char **out) {
    if (node->kind != RK_YAML_SCALAR) return wrong_type_error(yaml, node, "text");
    bool is_here = field->is_path && node->line < 0 && node->scalar[0] != '~' &&
                   !strstr(node->scalar, "://"); /* of --set; those two are no files' names */
    return (is_here ? rk_path_absolute : rk_strdup)(node->scalar, out);
}

/* The node stands for the struct's scalar_key alone; a list does so where that key takes one. */
static bool is_scalar_shorthand(const rk_schema *schema, const rk_yaml_node *node) {
    if (!node || !schema->scalar_key || node->kind != RK_YAML_SEQUENCE)
        return node && schema->scalar_key && node->kind == RK_YAML_SCALAR;
    const rk_field *field = RK_FIND_BY(key, schema->scalar_key, schema->fields, schema->n_fields);
    return field && field->kind >= RK_FIELD_KIND_LIST;
}

static rk_status bind_element(const rk_yaml *yaml, const rk_yaml_node *node, const rk_field *field,
                              void *out) {
    rk_yaml_node named = *node; /* what is wrong with it is said under the list's key */
    if (!named.key) named.key = (char *)(size_t)field->key;
    switch (field->kind) {
        case RK_FIELD_KIND_I64S:
            return bind_i64(yaml, &named, field, out);
        case RK_FIELD_KIND_F64S:
            return bind_f64(yaml, &named, field, out);
        case RK_FIELD_KIND_TEXTS:
            return bind_text(yaml, &named, field, out);
        default:
            if (node->kind != RK_YAML_MAPPING && !is_scalar_shorthand(field->sub, node))
                return wrong_type_error(yaml, &named, "a mapping");
            return rk_schema_bind(field->sub, yaml, node, out);
    }
}

static size_t element_bytes(const rk_field *field) {
    if (field->kind == RK_FIELD_KIND_LIST) return field->sub->struct_bytes;
    return field->kind == RK_FIELD_KIND_TEXTS ? sizeof(char *) : 8;
}

/* One value may stand for a list of one where it cannot be taken for anything else. */
static rk_status bind_array(const rk_yaml *yaml, const rk_yaml_node *node, const rk_field *field,
                            void *object) {
    const rk_yaml_node *const alone[1] = {node};
    const rk_yaml_node *const *items = alone;
    size_t n = 1;
    if (node->kind == RK_YAML_SEQUENCE) {
        items = (const rk_yaml_node *const *)node->children;
        n = node->n_children;
    } else if (node->kind == RK_YAML_MAPPING ||
               (field->kind == RK_FIELD_KIND_LIST && !field->sub->scalar_key)) {
        return wrong_type_error(yaml, node, "a list");
    }
    char *array = NULL;
    RK_TRY(rk_alloc(n, element_bytes(field),
                    &array)); /* of no elements, too: a list that is given is not NULL */
    memcpy(member_at(object, field->offset), &array, sizeof array);
    int64_t *count = member_at(object, field->count_offset);
    for (size_t i = 0; i < n; i++) {
        RK_TRY(bind_element(yaml, items[i], field, array + i * element_bytes(field)));
        *count = (int64_t)i + 1;
    }
    return RK_OK;
}

static rk_status bind_given_value(const rk_yaml *yaml, const rk_yaml_node *node, const rk_field *field,
                                  void *object) {
    void *place = member_at(object, field->offset);
    switch (field->kind) {
        case RK_FIELD_KIND_BOOL:
            return bind_bool(yaml, node, place);
        case RK_FIELD_KIND_I64:
            return bind_i64(yaml, node, field, place);
        case RK_FIELD_KIND_F64:
            return bind_f64(yaml, node, field, place);
        case RK_FIELD_KIND_TEXT:
            return bind_text(yaml, node, field, place);
        case RK_FIELD_KIND_ENUM:
            return bind_enum(yaml, node, field, place);
        case RK_FIELD_KIND_STRUCT:
            return rk_schema_bind(field->sub, yaml, node, place);
        default:
            return bind_array(yaml, node, field, object);
    }
}

static bool is_required(const rk_field *field) {
    bool counted = field->kind == RK_FIELD_KIND_I64 || field->kind == RK_FIELD_KIND_ENUM;
    return field->required || (counted && isnan(field->default_number));
}

static rk_status bind_default(const rk_yaml *yaml, const rk_yaml_node *owner, const rk_schema *schema,
                              const rk_field *field, void *object) {
    if (is_required(field))
        return rk_yaml_error(yaml, owner, "'%s' needs the key '%s'", schema->name, field->key);
    void *place = member_at(object, field->offset);
    switch (field->kind) {
        case RK_FIELD_KIND_BOOL:
            *(bool *)place = field->default_number != 0;
            break;
        case RK_FIELD_KIND_I64:
            *(int64_t *)place = (int64_t)field->default_number;
            break;
        case RK_FIELD_KIND_F64:
            *(double *)place = field->default_number;
            break;
        case RK_FIELD_KIND_ENUM:
            *(int *)place = (int)field->default_number;
            break;
        case RK_FIELD_KIND_TEXT:
            return field->default_text ? rk_strdup(field->default_text, place) : RK_OK;
        case RK_FIELD_KIND_STRUCT: {
            /* A part that was not given: its defaults, line 0, and no complaint about its own required
             * keys. */
            for (size_t i = 0; i < field->sub->n_fields; i++)
                if (!is_required(&field->sub->fields[i]))
                    RK_TRY(bind_default(yaml, owner, field->sub, &field->sub->fields[i], place));
            break;
        }
        default:
            break;
    }
    return RK_OK;
}

static bool schema_has_key(const rk_schema *schema, const char *key) {
    return RK_FIND_BY(key, key, schema->fields, schema->n_fields) != NULL;
}

static bool accepts_key(const rk_schema *schema, const rk_yaml_node *node, const char *key) {
    return !schema->takes || schema->takes(node, key);
}

/* Whether a meaning is a key of the section at hand ("train.seed" in train), or of a part of it
 * ("train.optimizer.momentum"). Only sections of the file's first level are named by meanings. */
static bool is_key_of_section(const rk_schema *schema, const char *meaning, bool in_a_part) {
    size_t n = strlen(schema->name);
    return strncmp(meaning, schema->name, n) == 0 && meaning[n] == '.' &&
           (strchr(meaning + n + 1, '.') != NULL) == in_a_part;
}

/* The first meaning of another library's word that is a key of the section, or of a part of it; NULL: none.
 */
static const char *find_synonym(const rk_schema *schema, const char *word, bool in_a_part) {
    const char *meaning;
    for (size_t at = 0; (meaning = rk_find_synonym(word, at)); at++)
        if (is_key_of_section(schema, meaning, in_a_part)) return meaning;
    return NULL;
}

/* Where another library's word is a key of another section, and not that section's own name: that; NULL:
 * nowhere. */
static const char *find_synonym_elsewhere(const rk_schema *schema, const char *word) {
    const char *meaning;
    for (size_t at = 0; (meaning = rk_find_synonym(word, at)); at++)
        if (strchr(meaning, '.') && !schema_has_key(schema, rk_synonym_last_part(meaning)) &&
            strcmp(rk_synonym_last_part(meaning), schema->name) != 0)
            return meaning;
    return NULL;
}

/* A struct in the section that has a key by another library's word ('optimizer' for lr in a table), and the
 * key. */
static const rk_field *find_section_with_key(const rk_schema *schema, const rk_yaml_node *node,
                                             const char *word, const char **key) {
    const char *meaning;
    for (size_t at = 0; (meaning = rk_find_synonym(word, at)); at++)
        for (size_t i = 0; i < schema->n_fields && strchr(meaning, '.'); i++) {
            const rk_field *field = &schema->fields[i];
            *key = rk_synonym_last_part(meaning);
            if (field->kind == RK_FIELD_KIND_STRUCT && accepts_key(schema, node, field->key) &&
                schema_has_key(field->sub, *key))
                return field;
        }
    return NULL;
}

/* The word is that of a key that the mapping does not take as it stands: model.deep of a kind without layers.
 */
static void hint_key_of_other_kind(rk_status status, const char *key, const char *const *names, size_t n) {
    char what[128];
    snprintf(what, sizeof what, "that is '%s', which is not used here; the keys here are", key);
    hint_known_names(status, NULL, names, n, what);
}

void rk_schema_hint_key(rk_status status, const rk_schema *schema, const rk_yaml_node *node,
                        const char *word) {
    const char *names[MAX_KEYS], *own = find_synonym(schema, word, false),
                                 *below = own ? NULL : find_synonym(schema, word, true),
                                 *elsewhere = find_synonym_elsewhere(schema, word), *key;
    size_t n = 0;
    for (size_t i = 0; i < schema->n_fields && n < MAX_KEYS; i++)
        if (accepts_key(schema, node, schema->fields[i].key)) names[n++] = schema->fields[i].key;
    const char *nearest = rk_nearest_name(word, names, n);
    const rk_field *part = find_section_with_key(schema, node, word, &key);
    if (below && (!nearest || strcmp(nearest, rk_synonym_last_part(below)) == 0))
        rk_error_hint(status, "the key is '%s'",
                      below); /* not a namesake: eval_batch_size is no batch_size */
    else if (nearest)
        rk_error_hint(status, "did you mean '%s'?", nearest);
    else if (own && schema_has_key(schema, rk_synonym_last_part(own)))
        hint_key_of_other_kind(status, rk_synonym_last_part(own), names, n);
    else if (part)
        rk_error_hint(status, "the key is '%s' in '%s'", key, part->key);
    else if (elsewhere)
        rk_error_hint(status, "the key is '%s'", elsewhere);
    else
        hint_known_names(status, NULL, names, n, "the keys here are");
}

static rk_status check_keys(const rk_schema *schema, const rk_yaml *yaml, const rk_yaml_node *node) {
    for (size_t i = 0; i < node->n_children; i++) {
        const char *key = node->children[i]->key;
        if (schema_has_key(schema, key)) continue;
        rk_status status = rk_yaml_error(yaml, node->children[i], "unknown key in '%s'", schema->name);
        rk_schema_hint_key(status, schema, node, key);
        return status;
    }
    return RK_OK;
}

/* What a node says of a key; NULL: nothing. */
static const rk_yaml_node *find_key_value(const rk_schema *schema, const rk_yaml_node *node,
                                          const char *key) {
    bool is_scalar_key = schema->scalar_key && strcmp(key, schema->scalar_key) == 0;
    if (is_scalar_shorthand(schema, node)) return is_scalar_key ? node : NULL;
    const rk_yaml_node *value = rk_yaml_find_key(node, key);
    return !value && is_scalar_key && node ? node->short_form : value;
}

static rk_status bind_fields(const rk_schema *schema, const rk_yaml *yaml, const rk_yaml_node *node,
                             void *object) {
    if (node && !is_scalar_shorthand(schema, node)) {
        if (node->kind != RK_YAML_MAPPING) return wrong_type_error(yaml, node, "a mapping");
        if (!schema->scalar_key && !is_null_node(node->short_form))
            return wrong_type_error(yaml, node->short_form, "a mapping");
        RK_TRY(check_keys(schema, yaml, node));
    }
    if (schema->has_line) *(int *)member_at(object, schema->line_offset) = node ? node->line : 0;
    for (size_t i = 0; i < schema->n_fields; i++) {
        const rk_field *field = &schema->fields[i];
        const rk_yaml_node *value = find_key_value(schema, node, field->key);
        rk_status status = is_null_node(value) ? bind_default(yaml, node, schema, field, object)
                                               : bind_given_value(yaml, value, field, object);
        if (status == RK_CONFIG && value && !accepts_key(schema, node, field->key))
            rk_schema_hint_key(status, schema, node, field->key); /* another library's word, and ours */
        RK_TRY(status);
    }
    return RK_OK;
}

rk_status rk_schema_bind(const rk_schema *schema, const rk_yaml *yaml, const rk_yaml_node *node, void *out) {
    memset(out, 0, schema->struct_bytes);
    rk_status status = bind_fields(schema, yaml, node, out);
    if (status != RK_OK) rk_schema_release(schema, out);
    return status;
}

static void release_array(const rk_field *field, void *object) {
    char *array;
    memcpy(&array, member_at(object, field->offset), sizeof array);
    int64_t n = *(int64_t *)member_at(object, field->count_offset);
    for (int64_t i = 0; i < n; i++) {
        if (field->kind == RK_FIELD_KIND_TEXTS) rk_free(((char **)(void *)array)[i]);
        if (field->kind == RK_FIELD_KIND_LIST)
            rk_schema_release(field->sub, array + (size_t)i * element_bytes(field));
    }
    rk_free(array);
}

void rk_schema_release(const rk_schema *schema, void *object) {
    for (size_t i = 0; i < schema->n_fields; i++) {
        const rk_field *field = &schema->fields[i];
        void *place = member_at(object, field->offset);
        if (field->kind == RK_FIELD_KIND_TEXT) rk_free(*(char **)place);
        if (field->kind == RK_FIELD_KIND_STRUCT) rk_schema_release(field->sub, place);
        if (field->kind >= RK_FIELD_KIND_LIST) release_array(field, object);
    }
    memset(object, 0, schema->struct_bytes);
}
