/* The sections of a model and its embeddings to a model; its graph, written out, is a model too. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* Layers of thousands of units take memory for nothing. */
static bool has_large_number(const char *text) {
    int n = 0;
    for (; *text && n < 3; text++) n = isdigit((unsigned char)*text) ? n + 1 : 0;
    return n == 3;
}

static rk_status build(const char *text, char **graph) {
    rk_data_feature_info features[] = {{.name = "user", .cardinality = 40},
                                       {.name = "tags", .cardinality = 30, .weighted = true},
                                       {.name = "item", .cardinality = 50},
                                       {.name = "history", .cardinality = 50}};
    rk_label_section tasks[] = {{.name = (char *)(size_t) "click", .weight = 1},
                                {.name = (char *)(size_t) "rating", .weight = 1, .loss = 1}};
    rk_data_schema schema = {.n_dense = 3,
                             .n_features = 4,
                             .n_tasks = strstr(text, "two") ? 2 : 1,
                             .features = features,
                             .tasks = tasks};
    rk_model_section section = {0};
    rk_embedding_section embedding = {0};
    rk_yaml yaml = {0};
    rk_model *model;
    rk_status status;
    RK_GOTO(rk_yaml_parse("f.yaml", text, strlen(text), &yaml));
    RK_GOTO(rk_schema_bind(&rk_model_schema, &yaml, rk_yaml_find_key(yaml.root, "model"), &section));
    RK_GOTO(
        rk_schema_bind(&rk_embedding_schema, &yaml, rk_yaml_find_key(yaml.root, "embedding"), &embedding));
    rk_model_options options = {.model = &section,
                                .embedding = &embedding,
                                .yaml = &yaml,
                                .schema = &schema,
                                .max_batch = 2,
                                .is_outline = true,
                                .training = true};
    RK_GOTO(rk_optimizer_init(&options.dense_optimizer.optimizer, RK_OPTIMIZER_ADAM));
    RK_GOTO(rk_model_build(&options, &model));
    rk_model_free(model);
    if (section.kind != RK_KIND_GRAPH && section.feature_dropout == 0 && !section.retrieval.line)
        status = rk_model_graph_text(&options, false, graph);
done:
    rk_schema_release(&rk_model_schema, &section);
    rk_schema_release(&rk_embedding_schema, &embedding);
    rk_yaml_release(&yaml);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    char *text, *graph = NULL;
    if (rk_strndup((const char *)data, n_bytes, &text) != RK_OK) return 0;
    if (!has_large_number(text)) (void)build(text, &graph);
    rk_free(graph);
    rk_free(text);
    return 0;
}
