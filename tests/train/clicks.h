/* A small set of clicks, and the part of a run file that tells of it and of a model. */
#include <stdio.h>

#include "base/rng.h"

#define CLICKS_AND_MODEL                              \
    "data:\n"                                         \
    "  train: a.csv\n"                                \
    "  valid: {fraction: 0.2}\n"                      \
    "  labels: [{name: y}]\n"                         \
    "  shuffle_window: 500\n"                         \
    "  features:\n"                                   \
    "    - {name: u, vocabulary: {}}\n"               \
    "    - {name: v, hash: 50}\n"                     \
    "    - {name: x, dense: true, normalize: true}\n" \
    "embedding: {dim: 8}\n"                           \
    "model: {kind: deepfm, deep: [16, 8], batch_norm: true, dropout: 0.2}\n"

/* n rows as directory/a.csv. */
static void write_clicks(const char *directory, int n) {
    char path[256];
    snprintf(path, sizeof path, "%s/a.csv", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    rk_rng rng = {1, 1, 0};
    fprintf(file, "u,v,x,y\n");
    for (int i = 0; i < n; i++) {
        int u = (int)rk_rng_below(&rng, 40), v = (int)rk_rng_below(&rng, 90);
        double x = rk_rng_normal(&rng);
        fprintf(file, "u%d,v%d,%.4f,%d\n", u, v, x, (u % 3 == 0) + x + rk_rng_normal(&rng) > 0.5);
    }
    fclose(file);
}
