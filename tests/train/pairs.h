/* A small set of pairs, and a run file of a two_tower that learns them. */
#include <stdio.h>

#include "base/rng.h"

#define PAIRS_RUN                                                                                        \
    "data:\n"                                                                                            \
    "  format: adjacency\n"                                                                              \
    "  train: pairs.txt\n"                                                                               \
    "  valid: {fraction: 0.25}\n"                                                                        \
    "  features: [{name: user, identity: 40}, {name: item, identity: 90}]\n"                             \
    "embedding: {dim: 8, features: [{name: history, table: item}]}\n"                                    \
    "model: {kind: two_tower, retrieval: {user: user, item: item, history: true, similarity: cosine, "   \
    "temperature: 0.2, negatives: 32}}\n"                                                                \
    "train: {batch_size: 50, metrics: [recall@5, ndcg@5, hit@5], optimizer: {kind: sgd, learning_rate: " \
    "0.5}, checkpoint: {every_steps: 7}, keep_best: false}\n"

/* Users and items of three kinds, as folder/pairs.txt. */
static void write_pairs(const char *folder) {
    char path[300];
    rk_rng rng = {1, 1, 0};
    snprintf(path, sizeof path, "%s/pairs.txt", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int u = 0; u < 40; u++) {
        fprintf(file, "%d", u);
        for (int i = 0; i < 90; i++)
            if (rk_rng_below(&rng, u % 3 == i % 3 ? 3 : 30) == 0) fprintf(file, " %d", i);
        fputc('\n', file);
    }
    fclose(file);
}
