#include "base/yaml/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/memory.h"
#include "base/text/name_index.h"
#include "base/text/text.h"

enum { MAX_DEPTH = 64, MAX_NODES = 1 << 20, MAX_BYTES = 16 << 20 };

/* A parse in progress. */
typedef struct reader {
    const rk_yaml *yaml;
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event;
    size_t n_nodes;
    int line_override; /* > 0: the line of every node (overrides have none of their own) */
} reader;

static void node_free(rk_yaml_node *node) {
    if (!node) return;
    for (size_t i = 0; i < node->n_children; i++) node_free(node->children[i]);
    node_free(node->short_form);
    RK_FREE_ALL(node->children, node->key, node->scalar, node);
}

static void node_auto_free(rk_yaml_node **node) {
    node_free(*node);
}

void rk_yaml_release(rk_yaml *yaml) {
    node_free(yaml->root);
    rk_free(yaml->path);
    *yaml = (rk_yaml){0};
}

const rk_yaml_node *rk_yaml_find_key(const rk_yaml_node *mapping, const char *key) {
    if (!mapping || mapping->kind != RK_YAML_MAPPING) return NULL;
    for (size_t i = 0; i < mapping->n_children; i++)
        if (strcmp(mapping->children[i]->key, key) == 0) return mapping->children[i];
    return NULL;
}

static const char *file_name_of(const rk_yaml *yaml) {
    return yaml && yaml->path ? yaml->path : "configuration";
}

rk_yaml_location rk_yaml_location_of(const rk_yaml *yaml, int line) {
    rk_yaml_location location;
    if (line < 0) /* from rk_yaml_set */
        snprintf(location.text, sizeof location.text, "--set");
    else
        snprintf(location.text, sizeof location.text, "%s:%d", file_name_of(yaml), line);
    return location;
}

rk_status rk_yaml_error(const rk_yaml *yaml, const rk_yaml_node *node, const char *format, ...) {
    char message[2048];
    va_list list;
    va_start(list, format);
    rk_vsnprintf(message, sizeof message, format, list);
    va_end(list);
    if (!node) return rk_error(RK_CONFIG, "%s: %s", file_name_of(yaml), message);
    rk_yaml_location at = rk_yaml_location_of(yaml, node->key_line ? node->key_line : node->line);
    return node->key ? rk_error(RK_CONFIG, "%s: key '%s': %s", at.text, node->key, message)
                     : rk_error(RK_CONFIG, "%s: %s", at.text, message);
}

static rk_status node_new(reader *in, rk_yaml_kind kind, rk_yaml_node **out) {
    RK_FAIL_IF(++in->n_nodes > MAX_NODES, RK_CONFIG, "%s: more than %d values", in->yaml->path, MAX_NODES);
    rk_yaml_node *node;
    RK_TRY(rk_alloc(1, sizeof *node, &node));
    node->kind = kind;
    node->line = in->line_override ? in->line_override : (int)in->event.start_mark.line + 1;
    *out = node;
    return RK_OK;
}

static rk_status next_event(reader *in) {
    if (in->has_event) yaml_event_delete(&in->event);
    in->has_event = false;
    if (!yaml_parser_parse(&in->parser, &in->event)) {
        const yaml_parser_t *p = &in->parser;
        if (p->error == YAML_MEMORY_ERROR) return RK_NO_MEMORY_ERROR(0);
        if (p->error == YAML_READER_ERROR)
            return rk_error(RK_CONFIG, "%s: byte %zu: %s", in->yaml->path, p->problem_offset, p->problem);
        rk_status status = rk_error(RK_CONFIG, "%s:%zu:%zu: %s%s%s", in->yaml->path, p->problem_mark.line + 1,
                                    p->problem_mark.column + 1, p->problem ? p->problem : "not YAML",
                                    p->context ? ", " : "", p->context ? p->context : "");
        if (p->problem && strstr(p->problem, "cannot start any token"))
            rk_error_hint(
                status,
                "YAML is indented by spaces, not by tabs; quote text that begins with a special character");
        return status;
    }
    in->has_event = true;
    return RK_OK;
}

static rk_status read_node(reader *in, int depth, rk_yaml_node **out);

/* The key stands in the current event. */
static rk_status read_pair(reader *in, int depth, rk_yaml_node **out) {
    int line = (int)in->event.start_mark.line + 1;
    RK_FAIL_IF(in->event.type != YAML_SCALAR_EVENT, RK_CONFIG, "%s:%d: a key must be plain text",
               in->yaml->path, line);
    RK_AUTOFREE char *key = NULL;
    RK_TRY(rk_strndup((const char *)in->event.data.scalar.value, in->event.data.scalar.length, &key));
    RK_FAIL_IF(strcmp(key, "<<") == 0, RK_CONFIG, "%s:%d: merge keys ('<<') are not supported",
               in->yaml->path, line);
    RK_TRY(next_event(in));
    RK_TRY(read_node(in, depth + 1, out));
    (*out)->key = key;
    (*out)->key_line = in->line_override ? in->line_override : line;
    key = NULL;
    return RK_OK;
}

/* No key may stand twice. All are looked at together: each one against those before it would take forever in
 * a large mapping. */
static rk_status check_duplicate_keys(const reader *in, const rk_yaml_node *mapping) {
    RK_AUTOFREE const char **keys = NULL;
    RK_AUTO(rk_name_index_release) rk_name_index index = {0};
    RK_TRY(rk_alloc(mapping->n_children, sizeof *keys, &keys));
    for (size_t i = 0; i < mapping->n_children; i++) keys[i] = mapping->children[i]->key;
    RK_TRY(rk_name_index_init(&index, keys, sizeof *keys, 0, (int32_t)mapping->n_children));
    int32_t number = rk_name_index_find_duplicate(&index);
    if (number < 0) return RK_OK;
    const rk_yaml_node *twin = mapping->children[number],
                       *first = mapping->children[rk_name_index_find(&index, twin->key)];
    char place[40] = "";
    if (first->key_line > 0) snprintf(place, sizeof place, "; the first is in line %d", first->key_line);
    return rk_error(RK_CONFIG, "%s: duplicate key '%s'%s", rk_yaml_location_of(in->yaml, twin->key_line).text,
                    twin->key, place);
}

static rk_status read_children(reader *in, rk_yaml_node *node, yaml_event_type_t end, int depth) {
    size_t capacity = 0;
    for (;;) {
        RK_TRY(next_event(in));
        if (in->event.type == end)
            return node->kind == RK_YAML_MAPPING ? check_duplicate_keys(in, node) : RK_OK;
        RK_TRY(rk_reserve_one_more(&node->children, node->n_children, &capacity, sizeof *node->children));
        rk_yaml_node **child = &node->children[node->n_children];
        RK_TRY(node->kind == RK_YAML_MAPPING ? read_pair(in, depth, child) : read_node(in, depth + 1, child));
        node->n_children++;
    }
}

/* The node begins in the current event. */
static rk_status read_node(reader *in, int depth, rk_yaml_node **out) {
    int line = (int)in->event.start_mark.line + 1;
    RK_FAIL_IF(depth > MAX_DEPTH, RK_CONFIG, "%s:%d: nested deeper than %d levels", in->yaml->path, line,
               MAX_DEPTH);
    RK_AUTO(node_auto_free) rk_yaml_node *node = NULL;
    switch (in->event.type) {
        case YAML_SCALAR_EVENT:
            RK_TRY(node_new(in, RK_YAML_SCALAR, &node));
            node->quoted = in->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
            RK_TRY(rk_strndup((const char *)in->event.data.scalar.value, in->event.data.scalar.length,
                              &node->scalar));
            break;
        case YAML_SEQUENCE_START_EVENT:
            RK_TRY(node_new(in, RK_YAML_SEQUENCE, &node));
            RK_TRY(read_children(in, node, YAML_SEQUENCE_END_EVENT, depth));
            break;
        case YAML_MAPPING_START_EVENT:
            RK_TRY(node_new(in, RK_YAML_MAPPING, &node));
            RK_TRY(read_children(in, node, YAML_MAPPING_END_EVENT, depth));
            break;
        case YAML_ALIAS_EVENT:
            return rk_error_hint(
                rk_error(RK_CONFIG, "%s:%d: anchors and aliases are not supported", in->yaml->path, line),
                "write the value in full");
        default:
            return rk_error(RK_CONFIG, "%s:%d: not a value", in->yaml->path, line);
    }
    *out = node;
    node = NULL;
    return RK_OK;
}

static rk_status read_document(reader *in, rk_yaml_node **out) {
    RK_TRY(next_event(in)); /* stream start */
    RK_TRY(next_event(in));
    if (in->event.type == YAML_STREAM_END_EVENT)
        return node_new(in, RK_YAML_MAPPING, out); /* an empty file */
    RK_TRY(next_event(in));
    RK_AUTO(node_auto_free) rk_yaml_node *root = NULL;
    RK_TRY(read_node(in, 0, &root));
    RK_TRY(next_event(in)); /* document end */
    RK_TRY(next_event(in));
    RK_FAIL_IF(in->event.type != YAML_STREAM_END_EVENT, RK_CONFIG,
               "%s:%zu: a second YAML document; a file may hold only one", in->yaml->path,
               in->event.start_mark.line + 1);
    *out = root;
    root = NULL;
    return RK_OK;
}

static rk_status parse_text(const rk_yaml *yaml, const char *text, size_t n_bytes, int line_override,
                            rk_yaml_node **out) {
    reader in = {.yaml = yaml, .line_override = line_override};
    if (!yaml_parser_initialize(&in.parser)) return RK_NO_MEMORY_ERROR(0);
    yaml_parser_set_input_string(&in.parser, (const unsigned char *)text, n_bytes);
    rk_status status = read_document(&in, out);
    if (in.has_event) yaml_event_delete(&in.event);
    yaml_parser_delete(&in.parser);
    return status;
}

rk_status rk_yaml_parse(const char *path, const char *text, size_t n_bytes, rk_yaml *out) {
    RK_FAIL_IF(n_bytes > MAX_BYTES, RK_CONFIG, "'%s': larger than %d bytes", path, MAX_BYTES);
    RK_AUTO(rk_yaml_release) rk_yaml yaml = {0};
    RK_TRY(rk_strdup(path, &yaml.path));
    RK_TRY(parse_text(&yaml, text, n_bytes, 0, &yaml.root));
    *out = yaml;
    yaml = (rk_yaml){0};
    return RK_OK;
}

/* The child of a mapping that a path's segment names, made if it is not there. */
static rk_status find_or_add_child(rk_yaml_node *mapping, const char *key, size_t n_bytes,
                                   rk_yaml_node ***out) {
    for (size_t i = 0; i < mapping->n_children; i++)
        if (strlen(mapping->children[i]->key) == n_bytes &&
            memcmp(mapping->children[i]->key, key, n_bytes) == 0) {
            *out = &mapping->children[i];
            return RK_OK;
        }
    RK_AUTO(node_auto_free) rk_yaml_node *child = NULL;
    RK_TRY(rk_alloc(1, sizeof *child, &child));
    child->kind = RK_YAML_MAPPING;
    child->line = child->key_line = -1;
    RK_TRY(rk_strndup(key, n_bytes, &child->key));
    size_t capacity = mapping->n_children; /* exact, so that this place is new */
    RK_TRY(
        rk_reserve_one_more(&mapping->children, mapping->n_children, &capacity, sizeof *mapping->children));
    mapping->children[mapping->n_children] = child;
    *out = &mapping->children[mapping->n_children++];
    child = NULL;
    return RK_OK;
}

/* A value that a path goes on below becomes a mapping; what the value alone said stays said. */
static rk_status convert_scalar_to_mapping(rk_yaml_node *node) {
    RK_AUTO(node_auto_free) rk_yaml_node *value = NULL;
    RK_TRY(rk_alloc(1, sizeof *value, &value));
    if (node->key) RK_TRY(rk_strdup(node->key, &value->key));
    value->line = node->line;
    value->key_line = node->key_line;
    value->quoted = node->quoted;
    value->scalar = node->scalar;
    node->scalar = NULL;
    node->kind = RK_YAML_MAPPING;
    node->short_form = value;
    value = NULL;
    return RK_OK;
}

/* Where "a.b[2].c" stands. */
static rk_status find_or_add_path(rk_yaml_node **place, const char *path, size_t n_bytes,
                                  rk_yaml_node ***out) {
    const char *at = path, *end = path + n_bytes;
    while (at < end) {
        size_t n = 0;
        while (at + n < end && at[n] != '.' && at[n] != '[') n++;
        if (n) {
            if ((*place)->kind == RK_YAML_SCALAR) RK_TRY(convert_scalar_to_mapping(*place));
            RK_FAIL_IF((*place)->kind != RK_YAML_MAPPING, RK_CONFIG, "--set: '%.*s' is a list",
                       (int)(at - path), path);
            RK_TRY(find_or_add_child(*place, at, n, &place));
        } else if (*at == '[') {
            char *close;
            unsigned long index = strtoul(at + 1, &close, 10);
            RK_FAIL_IF(close == at + 1 || close >= end || *close != ']', RK_CONFIG,
                       "--set: '%.*s' is not a key path", (int)n_bytes, path);
            RK_FAIL_IF((*place)->kind != RK_YAML_SEQUENCE || index >= (*place)->n_children, RK_CONFIG,
                       "--set: there is no '%.*s'", (int)(close + 1 - path), path);
            place = &(*place)->children[index];
            n = (size_t)(close + 1 - at);
        } else {
            return rk_error(RK_CONFIG, "--set: '%.*s' is not a key path", (int)n_bytes, path);
        }
        at += n;
        if (at < end && *at == '.') at++;
    }
    *out = place;
    return RK_OK;
}

rk_status rk_yaml_set(rk_yaml *yaml, const char *assignment) {
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return rk_error_hint(rk_error(RK_CONFIG, "--set: '%s' is not KEY=VALUE", assignment),
                             "for example train.optimizer.learning_rate=0.1");
    RK_FAIL_IF(!yaml->root || yaml->root->kind != RK_YAML_MAPPING, RK_CONFIG, "%s: not a mapping",
               yaml->path);
    rk_yaml named = {.path = (char *)(size_t) "--set"};
    RK_AUTO(node_auto_free) rk_yaml_node *value = NULL;
    RK_TRY(parse_text(&named, equals + 1, strlen(equals + 1), -1, &value));
    if (value->kind == RK_YAML_MAPPING && value->n_children == 0 && equals[1] == 0) { /* "key=": no value */
        value->kind = RK_YAML_SCALAR;
        RK_TRY(rk_strdup("", &value->scalar));
    }
    rk_yaml_node **place;
    RK_TRY(find_or_add_path(&yaml->root, assignment, (size_t)(equals - assignment), &place));
    value->key = (*place)->key;
    value->key_line = -1;
    (*place)->key = NULL;
    node_free(*place);
    *place = value;
    value = NULL;
    return RK_OK;
}
