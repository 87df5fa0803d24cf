/* A YAML document as a tree of nodes that remember their line. Parsed by libyaml; anchors and merges are
 * resolved or refused, duplicate keys are an error. */
#ifndef RK_BASE_YAML_YAML_H
#define RK_BASE_YAML_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef enum rk_yaml_kind { RK_YAML_SCALAR, RK_YAML_SEQUENCE, RK_YAML_MAPPING } rk_yaml_kind;

typedef struct rk_yaml_node rk_yaml_node;
struct rk_yaml_node {
    rk_yaml_kind kind;
    int line;  /* 1-based */
    char *key; /* the key under which a mapping holds this node; NULL elsewhere */
    int key_line;
    char *scalar; /* text of a scalar */
    bool quoted;  /* a quoted scalar is a string, never a number or a bool */
    rk_yaml_node **children;
    size_t n_children;
    rk_yaml_node *short_form; /* of a mapping that rk_yaml_set made of a value: that value, which stands for
                                 one of the mapping's keys */
};

typedef struct rk_yaml {
    char *path; /* for messages */
    rk_yaml_node *root;
} rk_yaml;

rk_status rk_yaml_parse(const char *path, const char *text, size_t n_bytes, rk_yaml *out);
void rk_yaml_release(rk_yaml *yaml);

/* NULL if absent or not a mapping. */
const rk_yaml_node *rk_yaml_find_key(const rk_yaml_node *mapping, const char *key);

/* Apply "train.learning_rate=0.1" or "data.features[2].dim=8" (an override's value is itself YAML); lines
 * read "--set". */
rk_status rk_yaml_set(rk_yaml *yaml, const char *assignment);

/* Where a line that a section remembers is, for messages: "run.yaml:12", or "--set" where it stands in no
 * file. yaml may be NULL. */
typedef struct rk_yaml_location {
    char text[1024];
} rk_yaml_location;
rk_yaml_location rk_yaml_location_of(const rk_yaml *yaml, int line);

/* "run.yaml:12: key 'a.b': message" + optional hint; returns RK_CONFIG. node may be NULL (the whole file). */
rk_status rk_yaml_error(const rk_yaml *yaml, const rk_yaml_node *node, const char *format, ...)
    RK_PRINTF(3, 4);

#endif
