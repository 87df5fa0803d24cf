/* `model.retrieval:` of a run file (docs/retrieval.md). */
#ifndef RK_MODEL_RETRIEVAL_RETRIEVAL_CONFIG_H
#define RK_MODEL_RETRIEVAL_RETRIEVAL_CONFIG_H

#include "base/yaml/schema.h"

enum { RK_SIMILARITY_DOT, RK_SIMILARITY_COSINE };
enum { RK_SAMPLING_UNIFORM, RK_SAMPLING_POPULARITY };

typedef struct rk_retrieval_section {
    int line;          /* 0: not given */
    char *user, *item; /* features that say whose pair it is */
    char **user_tower; /* features; none: all but item, and the history where there is one */
    int64_t n_user_tower;
    bool history;
    int64_t max_history; /* 0: all */
    bool history_linear;
    int similarity;
    int loss; /* rk_candidate_loss_kind */
    double temperature;
    double margin, negative_weight; /* cosine_contrastive */
    int64_t negatives;
    int sampling;
    double popularity_exponent;
    int64_t hard;
    bool in_batch, log_q;
} rk_retrieval_section;

extern const rk_schema rk_retrieval_schema;
const char *rk_retrieval_loss_name(const rk_retrieval_section *section);

/* What the keys mean together; `node` is the section's, for messages. */
rk_status rk_retrieval_section_check(const rk_retrieval_section *section, const rk_yaml *yaml,
                                     const rk_yaml_node *node);

#endif
