/* Binds YAML to C structs by a table of fields, so that every key is checked the same way: an unknown key, a
 * wrong type or a value out of range is an error that names the file, the line, the key and the nearest valid
 * key.
 *
 *     static const rk_field fields[] = {
 *         RK_FIELD_TEXT(struct rk_x, name, RK_REQUIRED, "the table's name"),
 *         RK_FIELD_F64(struct rk_x, learning_rate, 0.01, 0, INFINITY, "step size"),
 *         RK_FIELD_LIST(struct rk_x, layers, n_layers, &layer_schema, "..."),
 *     };
 *     const rk_schema rk_x_schema = RK_SCHEMA("x", struct rk_x, fields);
 *
 * A bound struct owns its strings and arrays; rk_schema_release frees them all by the same table, and
 * rk_schema_emit writes the struct back as YAML with every default filled in. Each `doc` line feeds
 * docs/config.md. */
#ifndef RK_BASE_YAML_SCHEMA_H
#define RK_BASE_YAML_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/yaml/yaml.h"

typedef enum rk_field_kind {
    RK_FIELD_KIND_BOOL,   /* bool */
    RK_FIELD_KIND_I64,    /* int64_t */
    RK_FIELD_KIND_F64,    /* double */
    RK_FIELD_KIND_TEXT,   /* char *, NULL if absent and no default */
    RK_FIELD_KIND_ENUM,   /* int, index into names */
    RK_FIELD_KIND_STRUCT, /* struct by value, bound by sub */
    RK_FIELD_KIND_LIST,   /* pointer to n structs, bound by sub; n in an int64_t at count_offset */
    RK_FIELD_KIND_I64S,   /* int64_t *, n at count_offset */
    RK_FIELD_KIND_F64S,   /* double *, n at count_offset */
    RK_FIELD_KIND_TEXTS   /* char **, n at count_offset; of every list: NULL where it is not given */
} rk_field_kind;

typedef struct rk_schema rk_schema;

typedef struct rk_field {
    const char *key;
    rk_field_kind kind;
    size_t offset, count_offset;
    bool required, is_path; /* is_path: text that is relative to where the program runs if --set says it, and
                               is then made absolute */
    double default_number, min, max; /* bool, i64, f64, enum (index) */
    const char *default_text;
    const char *const *names; /* enum: names[n_names] */
    size_t n_names;
    const rk_schema *sub;
    const char *doc;
} rk_field;

struct rk_schema {
    const char *name;
    size_t struct_bytes;
    const rk_field *fields;
    size_t n_fields;
    /* Where a plain scalar may stand for the struct (`initializer: zeros` for `{kind: zeros}`): the key that
     * it sets. */
    const char *scalar_key;
    bool has_line; /* the struct has an `int line` at line_offset that receives the node's line; 0 where it
                      was not given */
    size_t line_offset;
    /* Whether a mapping as it stands takes a key of the schema: those that it would not are not proposed.
     * NULL: it takes all. */
    bool (*takes)(const rk_yaml_node *node, const char *key);
    bool flow; /* written in one line, without what is at its default: {name: a, units: 3} */
};

/* Fill *out (struct_bytes, zeroed first) from `node` (NULL: all defaults; a missing required key is then an
 * error). On failure *out is released. */
rk_status rk_schema_bind(const rk_schema *schema, const rk_yaml *yaml, const rk_yaml_node *node, void *out);
void rk_schema_release(const rk_schema *schema, void *object);
/* After an error: which key a word that is none of the schema's may have been meant for, here or elsewhere,
 * or which there are. */
void rk_schema_hint_key(rk_status status, const rk_schema *schema, const rk_yaml_node *node,
                        const char *word);
/* As YAML, indented by `indent` spaces. Fields at their zero value that have no default are left out. */
void rk_schema_emit(const rk_schema *schema, const void *object, int indent, rk_buffer *out);
/* The same as a JSON object, the caller's (jansson). NULL: out of memory, or a text that is not UTF-8. */
struct json_t *rk_schema_to_json(const rk_schema *schema, const void *object);

/* A Markdown table of every key below, with type, default, range and doc; for docs/config.md. */
void rk_schema_write_reference(const rk_schema *schema, const char *prefix, rk_buffer *out);

#define RK_SCHEMA(name_, type, fields_)                                     \
    {                                                                       \
        .name = (name_), .struct_bytes = sizeof(type), .fields = (fields_), \
        .n_fields = sizeof(fields_) / sizeof((fields_)[0])                  \
    }

/* Of a struct with an `int line`; scalar_: the scalar_key or NULL. */
#define RK_SECTION_SCHEMA(name_, type, fields_, scalar_)                                               \
    {                                                                                                  \
        .name = (name_), .struct_bytes = sizeof(type), .fields = (fields_),                            \
        .n_fields = sizeof(fields_) / sizeof((fields_)[0]), .scalar_key = (scalar_), .has_line = true, \
        .line_offset = offsetof(type, line)                                                            \
    }

#define RK_FIELD_BOOL(type, member, default_, doc_)                                   \
    {                                                                                 \
        .key = #member, .kind = RK_FIELD_KIND_BOOL, .offset = offsetof(type, member), \
        .default_number = (default_), .max = 1, .doc = (doc_)                         \
    }
#define RK_FIELD_I64(type, member, default_, min_, max_, doc_)                                            \
    {                                                                                                     \
        .key = #member, .kind = RK_FIELD_KIND_I64, .offset = offsetof(type, member),                      \
        .default_number = (double)(default_), .min = (double)(min_), .max = (double)(max_), .doc = (doc_) \
    }
#define RK_FIELD_F64(type, member, default_, min_, max_, doc_)                       \
    {                                                                                \
        .key = #member, .kind = RK_FIELD_KIND_F64, .offset = offsetof(type, member), \
        .default_number = (default_), .min = (min_), .max = (max_), .doc = (doc_)    \
    }
#define RK_FIELD_TEXT(type, member, required_, default_, doc_)                        \
    {                                                                                 \
        .key = #member, .kind = RK_FIELD_KIND_TEXT, .offset = offsetof(type, member), \
        .required = (required_), .default_text = (default_), .doc = (doc_)            \
    }
#define RK_FIELD_PATH(type, member, required_, doc_)                                  \
    {                                                                                 \
        .key = #member, .kind = RK_FIELD_KIND_TEXT, .offset = offsetof(type, member), \
        .required = (required_), .is_path = true, .doc = (doc_)                       \
    }
#define RK_FIELD_PATHS(type, member, count_, doc_)                                     \
    {                                                                                  \
        .key = #member, .kind = RK_FIELD_KIND_TEXTS, .offset = offsetof(type, member), \
        .count_offset = offsetof(type, count_), .is_path = true, .doc = (doc_)         \
    }
#define RK_FIELD_ENUM(type, member, default_, names_, doc_)                                               \
    {                                                                                                     \
        .key = #member, .kind = RK_FIELD_KIND_ENUM, .offset = offsetof(type, member),                     \
        .default_number = (default_), .names = (names_), .n_names = sizeof(names_) / sizeof((names_)[0]), \
        .doc = (doc_)                                                                                     \
    }
#define RK_FIELD_STRUCT(type, member, sub_, doc_)                                                      \
    {                                                                                                  \
        .key = #member, .kind = RK_FIELD_KIND_STRUCT, .offset = offsetof(type, member), .sub = (sub_), \
        .doc = (doc_)                                                                                  \
    }
#define RK_FIELD_LIST(type, member, count_, sub_, required_, doc_)                                    \
    {                                                                                                 \
        .key = #member, .kind = RK_FIELD_KIND_LIST, .offset = offsetof(type, member),                 \
        .count_offset = offsetof(type, count_), .required = (required_), .sub = (sub_), .doc = (doc_) \
    }
#define RK_FIELD_ARRAY(kind_, type, member, count_, min_, max_, doc_)                       \
    {                                                                                       \
        .key = #member, .kind = RK_FIELD_KIND_##kind_, .offset = offsetof(type, member),    \
        .count_offset = offsetof(type, count_), .min = (min_), .max = (max_), .doc = (doc_) \
    }

/* As default: the field stays NaN where it is not given (RK_FIELD_F64), so that a later step can fill it
 * in. */
#define RK_UNSET __builtin_nan("")
/* As default of RK_FIELD_I64 and RK_FIELD_ENUM: the key must be given. An enum whose default is -1 stays
 * -1. */
#define RK_REQUIRED_NUMBER __builtin_nan("")

#endif
