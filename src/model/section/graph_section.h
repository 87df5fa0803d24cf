/* Models that are written as graphs: `model: {kind: graph, layers: [...], outputs: [...]}` (docs/models.md).
 * The section is a plain text form of what rk_graph_add_op is told, so that any preset can be written as one
 * (graph_write.c), and the same graph read back (graph_read.c). */
#ifndef RK_MODEL_SECTION_GRAPH_SECTION_H
#define RK_MODEL_SECTION_GRAPH_SECTION_H

#include "base/buffer.h"
#include "base/text/name_index.h"
#include "model/model_internal.h"
#include "nn/graph/op_list.h"

enum {
#define RK_OP_NUMBER(name) RK_OP_##name,
    RK_OP_LIST(RK_OP_NUMBER)
#undef RK_OP_NUMBER
        RK_LAYER_MLP,
    RK_LAYER_CROSS,
    RK_N_LAYER_OPS
};
extern const char *const rk_layer_ops[RK_N_LAYER_OPS];

/* What layers may read of the data, beside single features (docs/models.md). */
enum {
    RK_INPUT_DENSE,
    RK_INPUT_VECTORS,
    RK_INPUT_VECTOR_ROWS,
    RK_INPUT_LINEAR,
    RK_INPUT_LENGTHS,
    RK_N_INPUTS
};
extern const char *const rk_graph_inputs[RK_N_INPUTS];
int rk_graph_input_from_name(const char *name); /* -1: not one of them */
bool rk_model_reads_input(const rk_model_section *section,
                          int input); /* whether a model of any kind wants it */

/* A feature of its own, where its name is a layer's or an input's too: "feature:user". The nodes that are
 * made for it have this name as well. */
#define RK_FEATURE_PREFIX "feature:"
/* Several outputs stand side by side in a node of this name. */
#define RK_OUTPUTS_NAME "outputs"

/* What can be said without the data: every layer by itself, names, order, what is left over. yaml may be
 * NULL. */
rk_status rk_graph_section_check(const rk_model_section *section, const rk_yaml *yaml);

/* What the layers read of the data; a name that is nothing there is an error. */
typedef struct rk_graph_uses {
    bool inputs[RK_N_INPUTS];
    bool *features;     /* [n_features of the data]: named one by one */
    int32_t n_features; /* how many are */
} rk_graph_uses;
void rk_graph_uses_release(rk_graph_uses *uses);
rk_status rk_graph_section_find_used_inputs(const rk_model_section *section, const rk_yaml *yaml,
                                            const rk_data_schema *schema, rk_graph_uses *uses);

/* The layers as nodes of model->graph, whose inputs and lookups are there; sets model->logits. */
rk_status rk_graph_section_build(rk_model *model, const rk_model_options *options,
                                 const rk_collection_config *collection, const rk_preset_inputs *inputs);

/* The graph that ends in `logits` as a `model:` section of this kind, in YAML, with what `section` says of
 * the dim-1 tables. Its linear layers were built for RK_BF16, so that those which stay in f32 are known. */
rk_status rk_graph_section_write(const rk_graph *graph, rk_value logits, const rk_model_section *section,
                                 rk_buffer *out);

/* As graphviz text; collection: what the inputs are made of. */
rk_status rk_graph_write_dot(const rk_model *model, const rk_collection_config *collection, rk_buffer *out);
/* needed [rk_graph_n_values], zeros: what `last` follows from, and it itself. */
void rk_graph_mark_ancestors(const rk_graph *graph, rk_value last, bool *needed);

/* A layer's key in the file, or the layer, for messages; NULL where there is none. */
const rk_yaml_node *rk_layer_yaml_node(const rk_yaml *yaml, int64_t layer, const char *key);
rk_status rk_layer_names_index(const rk_model_section *section, rk_name_index *out);

#endif
