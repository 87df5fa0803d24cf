#include "report/settings.h"

#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/yaml.h"

void rk_settings_release(rk_settings *settings) {
    for (size_t i = 0; i < settings->n; i++) {
        rk_free(settings->list[i].key);
        rk_free(settings->list[i].value);
    }
    rk_free(settings->list);
    *settings = (rk_settings){0};
}

const char *rk_settings_find(const rk_settings *settings, const char *key) {
    for (size_t i = 0; i < settings->n; i++)
        if (strcmp(settings->list[i].key, key) == 0) return settings->list[i].value;
    return NULL;
}

static rk_status add(rk_settings *settings, const char *key, const char *value) {
    RK_TRY(rk_grow(&settings->list, settings->n, &settings->capacity, sizeof *settings->list));
    rk_setting setting = {0};
    rk_status status = rk_strdup(key, &setting.key);
    if (status == RK_OK) status = rk_strdup(value, &setting.value);
    if (status != RK_OK) {
        rk_free(setting.key);
        return status;
    }
    settings->list[settings->n++] = setting;
    return RK_OK;
}

static bool is_plain_list(const rk_yaml_node *node) {
    for (size_t i = 0; i < node->n_children; i++)
        if (node->children[i]->kind != RK_YAML_SCALAR) return false;
    return true;
}

static rk_status add_plain_list(rk_settings *settings, const char *key, const rk_yaml_node *node) {
    rk_buffer value = {0};
    rk_buffer_text(&value, "[");
    for (size_t i = 0; i < node->n_children; i++) rk_buffer_printf(&value, "%s%s", i ? ", " : "", node->children[i]->scalar);
    rk_buffer_text(&value, "]");
    rk_status status = value.status;
    if (status == RK_OK) status = add(settings, key, value.data);
    rk_buffer_release(&value);
    return status;
}

static const char *name_of(const rk_yaml_node *node) {
    static const char *const keys[] = {"name", "table", "kind"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const rk_yaml_node *name = rk_yaml_get(node, keys[i]);
        if (name && name->kind == RK_YAML_SCALAR) return name->scalar;
    }
    return NULL;
}

static rk_status walk(rk_settings *settings, rk_buffer *key, const rk_yaml_node *node);

/* What is in a mapping or in a list of mappings. `key` is the node's own, and comes back as it was. */
static rk_status walk_mapping(rk_settings *settings, rk_buffer *key, const rk_yaml_node *node) {
    size_t n_bytes = key->n_bytes;
    for (size_t i = 0; i < node->n_children; i++) {
        const rk_yaml_node *child = node->children[i];
        const char *name = name_of(child);
        if (node->kind == RK_YAML_MAPPING)
            rk_buffer_printf(key, "%s%s", n_bytes ? "." : "", child->key);
        else if (name)
            rk_buffer_printf(key, "[%s]", name);
        else
            rk_buffer_printf(key, "[%zu]", i);
        RK_TRY(key->status);
        RK_TRY(walk(settings, key, child));
        key->n_bytes = n_bytes;
        key->data[n_bytes] = 0;
    }
    return RK_OK;
}

static rk_status walk(rk_settings *settings, rk_buffer *key, const rk_yaml_node *node) {
    if (node->kind == RK_YAML_SCALAR) return add(settings, key->data, node->scalar);
    if (node->kind == RK_YAML_SEQUENCE && is_plain_list(node)) return add_plain_list(settings, key->data, node);
    return walk_mapping(settings, key, node);
}

rk_status rk_settings_read(const char *text, rk_settings *out) {
    rk_yaml yaml;
    RK_TRY(rk_yaml_parse("settings", text, strlen(text), &yaml));
    rk_settings settings = {0};
    rk_buffer key = {0};
    bool is_mapping = yaml.root && yaml.root->kind == RK_YAML_MAPPING;
    rk_status status = is_mapping ? walk_mapping(&settings, &key, yaml.root) : rk_error(RK_BAD_DATA, "settings are a mapping");
    rk_buffer_release(&key);
    rk_yaml_release(&yaml);
    if (status == RK_OK)
        *out = settings;
    else
        rk_settings_release(&settings);
    return status;
}

static bool differs(const rk_settings *settings, size_t n, const char *key) {
    const char *first = rk_settings_find(&settings[0], key);
    for (size_t i = 1; i < n; i++) {
        const char *value = rk_settings_find(&settings[i], key);
        if (!first != !value || (first && strcmp(first, value) != 0)) return true;
    }
    return false;
}

rk_status rk_settings_differing(const rk_settings *settings, size_t n_settings, const char ***keys, size_t *n) {
    const char **list = NULL;
    size_t n_list = 0, capacity = 0;
    for (size_t i = 0; i < n_settings; i++)
        for (size_t k = 0; k < settings[i].n; k++) {
            const char *key = settings[i].list[k].key;
            bool was_seen = false;
            for (size_t before = 0; before < i && !was_seen; before++) was_seen = rk_settings_find(&settings[before], key) != NULL;
            if (was_seen || strcmp(key, "train.output") == 0 || !differs(settings, n_settings, key)) continue;
            rk_status status = rk_grow(&list, n_list, &capacity, sizeof *list);
            if (status != RK_OK) {
                rk_free(list);
                return status;
            }
            list[n_list++] = key;
        }
    *keys = list;
    *n = n_list;
    return RK_OK;
}
