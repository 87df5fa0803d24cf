#include "report/run_settings.h"

#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/yaml/yaml.h"

void rk_settings_release(rk_settings *settings) {
    for (size_t i = 0; i < settings->n; i++) {
        RK_FREE_ALL(settings->list[i].key, settings->list[i].value);
    }
    rk_free(settings->list);
    *settings = (rk_settings){0};
}

const char *rk_settings_find(const rk_settings *settings, const char *key) {
    const rk_setting *found = RK_FIND_BY(key, key, settings->list, settings->n);
    return found ? found->value : NULL;
}

static rk_status add_setting(rk_settings *settings, const char *key, const char *value) {
    RK_TRY(rk_reserve_one_more(&settings->list, settings->n, &settings->capacity, sizeof *settings->list));
    rk_setting *setting = &settings->list[settings->n++];
    *setting = (rk_setting){0};
    RK_TRY(rk_strdup(key, &setting->key));
    return rk_strdup(value, &setting->value);
}

static bool is_plain_list(const rk_yaml_node *node) {
    for (size_t i = 0; i < node->n_children; i++)
        if (node->children[i]->kind != RK_YAML_SCALAR) return false;
    return true;
}

static rk_status add_plain_list(rk_settings *settings, const char *key, const rk_yaml_node *node) {
    RK_AUTO(rk_buffer_release) rk_buffer value = {0};
    rk_buffer_append_text(&value, "[");
    for (size_t i = 0; i < node->n_children; i++)
        rk_buffer_printf(&value, "%s%s", i ? ", " : "", node->children[i]->scalar);
    rk_buffer_append_text(&value, "]");
    RK_TRY(value.status);
    return add_setting(settings, key, value.data);
}

static const char *name_of_entry(const rk_yaml_node *node) {
    static const char *const keys[] = {"name", "table", "kind"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const rk_yaml_node *name = rk_yaml_find_key(node, keys[i]);
        if (name && name->kind == RK_YAML_SCALAR) return name->scalar;
    }
    return NULL;
}

static rk_status add_settings_of_node(rk_settings *settings, rk_buffer *key, const rk_yaml_node *node);

/* What is in a mapping or in a list of mappings. `key` is the node's own, and comes back as it was. */
static rk_status add_settings_of_mapping(rk_settings *settings, rk_buffer *key, const rk_yaml_node *node) {
    size_t n_bytes = key->n_bytes;
    for (size_t i = 0; i < node->n_children; i++) {
        const rk_yaml_node *child = node->children[i];
        const char *name = name_of_entry(child);
        if (node->kind == RK_YAML_MAPPING)
            rk_buffer_printf(key, "%s%s", n_bytes ? "." : "", child->key);
        else if (name)
            rk_buffer_printf(key, "[%s]", name);
        else
            rk_buffer_printf(key, "[%zu]", i);
        RK_TRY(key->status);
        RK_TRY(add_settings_of_node(settings, key, child));
        key->n_bytes = n_bytes;
        key->data[n_bytes] = 0;
    }
    return RK_OK;
}

static rk_status add_settings_of_node(rk_settings *settings, rk_buffer *key, const rk_yaml_node *node) {
    if (node->kind == RK_YAML_SCALAR) return add_setting(settings, key->data, node->scalar);
    if (node->kind == RK_YAML_SEQUENCE && is_plain_list(node))
        return add_plain_list(settings, key->data, node);
    return add_settings_of_mapping(settings, key, node);
}

rk_status rk_settings_read(const char *text, rk_settings *out) {
    RK_AUTO(rk_yaml_release) rk_yaml yaml = {0};
    RK_AUTO(rk_settings_release) rk_settings settings = {0};
    RK_AUTO(rk_buffer_release) rk_buffer key = {0};
    RK_TRY(rk_yaml_parse("settings", text, strlen(text), &yaml));
    bool is_mapping = yaml.root && yaml.root->kind == RK_YAML_MAPPING;
    RK_FAIL_IF(!is_mapping, RK_BAD_DATA, "settings are a mapping");
    RK_TRY(add_settings_of_mapping(&settings, &key, yaml.root));
    *out = settings;
    settings = (rk_settings){0};
    return RK_OK;
}

static bool setting_differs(const rk_settings *settings, size_t n, const char *key) {
    const char *first = rk_settings_find(&settings[0], key);
    for (size_t i = 1; i < n; i++) {
        const char *value = rk_settings_find(&settings[i], key);
        if (!first != !value || (first && strcmp(first, value) != 0)) return true;
    }
    return false;
}

/* Whether any key begins with these bytes, which end with an entry's ']' or a section's '.'. */
static bool has_section(const rk_settings *settings, const char *part, size_t n_bytes) {
    for (size_t i = 0; i < settings->n; i++)
        if (strncmp(settings->list[i].key, part, n_bytes) == 0) return true;
    return false;
}

/* The bytes of the first section, or entry of a list, on the way to a key that not all settings have; 0:
 * there is none. */
static size_t find_section_not_in_all(const rk_settings *settings, size_t n, const char *key) {
    bool in_list = false;
    for (const char *end = strpbrk(key, "].["); end; end = strpbrk(end + 1, "].[")) {
        in_list = in_list || *end == '[';
        for (size_t i = 0; i < n && (*end == '.' || (*end == ']' && in_list)); i++)
            if (!has_section(&settings[i], key, (size_t)(end + 1 - key))) return (size_t)(end + 1 - key);
    }
    return 0;
}

/* The key itself, its section's, or its list's: up to the last '[' of the entry, and "]". */
static rk_status make_shown_key(const rk_settings *settings, size_t n, const char *key, char **out) {
    size_t n_bytes = find_section_not_in_all(settings, n, key);
    if (!n_bytes) return rk_strdup(key, out);
    if (key[n_bytes - 1] == '.') return rk_strndup(key, n_bytes - 1, out);
    while (key[n_bytes - 1] != '[') n_bytes--;
    RK_TRY(rk_strndup(key, n_bytes + 1, out));
    (*out)[n_bytes] = ']';
    return RK_OK;
}

rk_status rk_settings_list_differing(const rk_settings *settings, size_t n_settings, rk_text_list *out) {
    for (size_t i = 0; i < n_settings; i++)
        for (size_t k = 0; k < settings[i].n; k++) {
            const char *key = settings[i].list[k].key;
            if (strcmp(key, "train.output") == 0 || !setting_differs(settings, n_settings, key)) continue;
            RK_AUTOFREE char *row = NULL;
            RK_TRY(make_shown_key(settings, n_settings, key, &row));
            if (!rk_text_is_one_of(row, out->texts, out->n)) RK_TRY(rk_text_list_add(out, row));
        }
    return RK_OK;
}

enum { MOST_SAID = 4 };

/* The names of a list's entries that others lack. list: up to the '['. */
static size_t write_names_of_list_entries(const rk_settings *settings, size_t n_settings,
                                          const rk_settings *own, const char *list, size_t n_bytes,
                                          rk_buffer *out) {
    const char *before = NULL;
    size_t n = 0, length = 0;
    for (size_t i = 0; i < own->n; i++) { /* an entry's keys stand together */
        const char *key = own->list[i].key,
                   *end = strncmp(key, list, n_bytes) == 0 ? strchr(key + n_bytes, ']') : NULL;
        if (!end || (before && strncmp(key, before, length) == 0)) continue;
        before = key;
        length = (size_t)(end + 1 - key);
        if (find_section_not_in_all(settings, n_settings, key) && n++ < MOST_SAID)
            rk_buffer_printf(out, "%s%.*s", n > 1 ? ", " : "", (int)(end - key) - (int)n_bytes,
                             key + n_bytes);
    }
    return n;
}

static size_t write_settings_of_section(const rk_settings *own, const char *section, size_t n_bytes,
                                        rk_buffer *out) {
    size_t n = 0;
    for (size_t i = 0; i < own->n; i++) {
        const char *key = own->list[i].key;
        if (strncmp(key, section, n_bytes) == 0 && key[n_bytes] == '.' && n++ < MOST_SAID)
            rk_buffer_printf(out, "%s%s: %s", n > 1 ? ", " : "", key + n_bytes + 1, own->list[i].value);
    }
    return n;
}

void rk_settings_write_value(const rk_settings *settings, size_t n_settings, size_t which, const char *key,
                             rk_buffer *out) {
    const char *value = rk_settings_find(&settings[which], key);
    size_t n_bytes = strlen(key), n = 0;
    if (value)
        rk_buffer_append_text(out, value);
    else if (n_bytes > 2 && strcmp(key + n_bytes - 2, "[]") == 0)
        n = write_names_of_list_entries(settings, n_settings, &settings[which], key, n_bytes - 1, out);
    else
        n = write_settings_of_section(&settings[which], key, n_bytes, out);
    if (n > MOST_SAID) rk_buffer_printf(out, " and %zu more", n - MOST_SAID);
}
