/* A model's graph as text, without the memory that the model would take. */
#include "model/section/graph_section.h"

/* Its loss is over two vectors within the graph. */
static rk_status refuse_pairs(const rk_model_options *options) {
    const rk_yaml_node *model = options->yaml ? rk_yaml_get(options->yaml->root, "model") : NULL;
    rk_yaml_error(options->yaml, rk_yaml_get(model, "kind"), "model 'two_tower' cannot be written as layers");
    return rk_error_hint(RK_CONFIG, "'reckon inspect --dot' draws it");
}

static rk_status write_text(const rk_model_options *options, bool dot, rk_buffer *out) {
    rk_model *model = NULL;
    rk_collection_config plan = {0};
    rk_model_options wanted = *options;
    wanted.dtype = RK_BF16; /* which layers follow train.dtype is seen then */
    rk_status status = rk_model_sketch(&wanted, &model, &plan);
    if (status == RK_OK && rk_model_learns_pairs(model) && !dot) status = refuse_pairs(options);
    if (status == RK_OK)
        status = dot ? rk_graph_draw(model, &plan, out)
                     : rk_graph_section_write(model->graph, model->logits, options->model, out);
    rk_model_free(model);
    rk_collection_config_release(&plan);
    return status;
}

rk_status rk_model_graph_text(const rk_model_options *options, bool dot, char **out) {
    rk_buffer text = {0};
    rk_status status = write_text(options, dot, &text);
    if (status == RK_OK)
        *out = text.data;
    else
        rk_buffer_release(&text);
    return status;
}
