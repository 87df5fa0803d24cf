/* A model's graph as text, without the memory that the model would take. */
#include "base/memory.h"
#include "model/section/graph_section.h"

/* Its loss is over two vectors within the graph. */
static rk_status refuse_two_tower(const rk_model_options *options) {
    const rk_yaml_node *model = options->yaml ? rk_yaml_find_key(options->yaml->root, "model") : NULL;
    rk_yaml_error(options->yaml, rk_yaml_find_key(model, "kind"),
                  "model 'two_tower' cannot be written as layers");
    return rk_error_hint(RK_CONFIG, "'reckon inspect --dot' draws it");
}

static rk_status write_graph_text(const rk_model_options *options, bool dot, rk_buffer *out) {
    RK_AUTO(rk_model_auto_free) rk_model *model = NULL;
    RK_AUTO(rk_collection_config_release) rk_collection_config collection = {0};
    rk_model_options wanted = *options;
    wanted.dtype = RK_BF16; /* which layers follow train.dtype is seen then */
    RK_TRY(rk_model_build_graph_only(&wanted, &model, &collection));
    if (rk_model_is_two_tower(model) && !dot) return refuse_two_tower(options);
    return dot ? rk_graph_write_dot(model, &collection, out)
               : rk_graph_section_write(model->graph, model->logits, options->model, out);
}

rk_status rk_model_graph_text(const rk_model_options *options, bool dot, char **out) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    RK_TRY(write_graph_text(options, dot, &text));
    return rk_buffer_detach(&text, out);
}
