#include "train/config/resume_check.h"

#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/yaml/yaml.h"

/* Keys that a resumed run may change, with all that is in them. A section without keys here may change
 * wholly. */
static const char *const free_of_data[] = {"cache_bytes", "cache", "reader_threads"};
static const char *const free_of_train[] = {
    "epochs",   "steps",          "threads", "output",     "log_every", "metrics",      "tensorboard",
    "evaluate", "early_stopping", "plateau", "checkpoint", "keep_best", "on_not_finite"};
static const char *const free_of_cluster[] = {"embedding_ranks", "reader_ranks", "timeout_s",
                                              "replicate_below", "plan",         "tables"};

static const struct section {
    const char *name;
    const char *const *free_keys;
    size_t n_free;
} sections[] = {{"data", free_of_data, sizeof free_of_data / sizeof free_of_data[0]},
                {"train", free_of_train, sizeof free_of_train / sizeof free_of_train[0]},
                {"cluster", free_of_cluster, sizeof free_of_cluster / sizeof free_of_cluster[0]},
                {"device", NULL, 0},
                {"cuda", NULL, 0}};

/* Where a node is, as --set names it. */
typedef struct place {
    const struct place *outer; /* NULL: the whole file */
    const char *key;           /* NULL: an entry of a list, */
    size_t number;             /* this one */
    bool converts;             /* of the whole file: what conversions change may differ */
} place;

static bool is_setting_of_section(const place *at, const char *name) {
    return at->outer && !at->outer->outer && strcmp(at->key, name) == 0;
}

/* embedding.tables, data.timestamp, by which rows of theirs may expire, and data.features[i].key and
 * .identity.
 */
static bool is_convertible_setting(const place *at) {
    if (!at->outer) return false;
    if (is_setting_of_section(at->outer, "embedding")) return strcmp(at->key, "tables") == 0;
    if (is_setting_of_section(at->outer, "data")) return strcmp(at->key, "timestamp") == 0;
    const place *list = at->outer->outer;
    return list && list->outer && is_setting_of_section(list->outer, "data") &&
           strcmp(list->key, "features") == 0 && at->key &&
           (strcmp(at->key, "key") == 0 || strcmp(at->key, "identity") == 0);
}

/* embedding.tables[i].storage: how much of the rows is in memory, and where the others are. */
static bool is_storage_setting(const place *at) {
    static const char *const keys[] = {"memory", "path", "max_bytes"};
    if (!at->key || !at->outer || !at->outer->key || strcmp(at->outer->key, "storage") != 0) return false;
    return rk_text_is_one_of(at->key, keys, sizeof keys / sizeof keys[0]);
}

static bool is_conversion_allowed(const place *at) {
    while (at->outer) at = at->outer;
    return at->converts;
}

static bool may_setting_differ(const place *at) {
    if ((is_convertible_setting(at) && is_conversion_allowed(at)) || is_storage_setting(at)) return true;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        const struct section *s = &sections[i];
        if (s->n_free == 0 && is_setting_of_section(at, s->name)) return true;
        if (at->outer && is_setting_of_section(at->outer, s->name) &&
            rk_text_is_one_of(at->key, s->free_keys, s->n_free))
            return true;
    }
    return false;
}

static void write_setting_path(const place *at, rk_buffer *out) {
    if (!at->outer) return;
    write_setting_path(at->outer, out);
    if (at->key)
        rk_buffer_printf(out, "%s%s", out->n_bytes ? "." : "", at->key);
    else
        rk_buffer_printf(out, "[%zu]", at->number);
}

/* In one line; NULL: a key that was not given. */
static void write_yaml_value(const rk_yaml_node *node, rk_buffer *out) {
    if (!node || node->kind == RK_YAML_SCALAR) {
        rk_buffer_append_text(out, node ? node->scalar : "not given");
        return;
    }
    bool maps = node->kind == RK_YAML_MAPPING;
    rk_buffer_append_text(out, maps ? "{" : "[");
    for (size_t i = 0; i < node->n_children; i++) {
        if (i) rk_buffer_append_text(out, ", ");
        if (maps) rk_buffer_printf(out, "%s: ", node->children[i]->key);
        write_yaml_value(node->children[i], out);
    }
    rk_buffer_append_text(out, maps ? "}" : "]");
}

static bool could_convert_setting(const place *at) {
    for (; at->outer; at = at->outer)
        if (is_convertible_setting(at)) return !is_conversion_allowed(at);
    return false;
}

static rk_status changed_setting_error(const place *at, const rk_yaml_node *then, const rk_yaml_node *now) {
    enum { SHOWN = 160 }; /* of each value */
    rk_buffer texts[3] = {0};
    write_setting_path(at, &texts[0]);
    write_yaml_value(then, &texts[1]);
    write_yaml_value(now, &texts[2]);
    rk_status status = RK_OK;
    for (int i = 0; i < 3 && status == RK_OK; i++) status = texts[i].status;
    if (status == RK_OK) {
        status = rk_error(RK_CONFIG,
                          "the configuration changed since the run began: '%s' was %.*s and is now %.*s",
                          texts[0].data, SHOWN, texts[1].data, SHOWN, texts[2].data);
        status = rk_error_hint(
            status,
            could_convert_setting(at)
                ? "resume with the run file as it was, or convert the run's checkpoint for the new one: "
                  "reckon convert RUN NEW.yaml, with another train.output"
                : "resume with the run file as it was, or start a new run with another train.output");
    }
    for (int i = 0; i < 3; i++) rk_buffer_release(&texts[i]);
    return status;
}

static rk_status compare_settings(const place *at, const rk_yaml_node *then, const rk_yaml_node *now);

/* Keys that were given, in their order, then those that are given now only. */
static rk_status compare_mappings(const place *at, const rk_yaml_node *then, const rk_yaml_node *now) {
    for (size_t i = 0; i < then->n_children; i++) {
        const char *key = then->children[i]->key;
        RK_TRY(compare_settings(&(place){.outer = at, .key = key}, then->children[i],
                                rk_yaml_find_key(now, key)));
    }
    for (size_t i = 0; i < now->n_children; i++) {
        const char *key = now->children[i]->key;
        if (!rk_yaml_find_key(then, key))
            RK_TRY(compare_settings(&(place){.outer = at, .key = key}, NULL, now->children[i]));
    }
    return RK_OK;
}

static bool is_list_of_sections(const rk_yaml_node *node) {
    return node->kind == RK_YAML_SEQUENCE && node->n_children > 0 &&
           node->children[0]->kind == RK_YAML_MAPPING;
}

static rk_status compare_lists(const place *at, const rk_yaml_node *then, const rk_yaml_node *now) {
    size_t n = then->n_children > now->n_children ? then->n_children : now->n_children;
    for (size_t i = 0; i < n; i++)
        RK_TRY(compare_settings(&(place){.outer = at, .number = i},
                                i < then->n_children ? then->children[i] : NULL,
                                i < now->n_children ? now->children[i] : NULL));
    return RK_OK;
}

static bool are_nodes_equal(const rk_yaml_node *a, const rk_yaml_node *b) {
    if (a->kind != b->kind || a->n_children != b->n_children) return false;
    if (a->kind == RK_YAML_SCALAR) return strcmp(a->scalar, b->scalar) == 0;
    bool same = true;
    for (size_t i = 0; same && i < a->n_children; i++) same = are_nodes_equal(a->children[i], b->children[i]);
    return same;
}

/* Sections and lists of them key by key; a list of values is one value. NULL: not given. */
static rk_status compare_settings(const place *at, const rk_yaml_node *then, const rk_yaml_node *now) {
    if (may_setting_differ(at)) return RK_OK;
    if (!then || !now || then->kind != now->kind) return changed_setting_error(at, then, now);
    if (then->kind == RK_YAML_MAPPING) return compare_mappings(at, then, now);
    if (is_list_of_sections(then) && is_list_of_sections(now)) return compare_lists(at, then, now);
    return are_nodes_equal(then, now) ? RK_OK : changed_setting_error(at, then, now);
}

rk_status rk_resume_check(const char *stored, const char *now, bool converts) {
    RK_AUTO(rk_yaml_release) rk_yaml a = {0}, b = {0};
    RK_TRY(rk_yaml_parse("config.yaml", stored, strlen(stored), &a));
    RK_TRY(rk_yaml_parse("config.yaml", now, strlen(now), &b));
    return compare_settings(&(place){.converts = converts}, a.root, b.root);
}
