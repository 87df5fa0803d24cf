/* A trained model on its way to ONNX: its graph, node by node, and its lookups. For the files onnx_*.c and
 * export_onnx.c.
 *
 * A value [rows, cols] of the graph is [batch, cols] in ONNX where it has one row, else [batch, rows, cols].
 */
#ifndef RK_EXPORT_ONNX_MODEL_H
#define RK_EXPORT_ONNX_MODEL_H

#include "export/export_internal.h"
#include "export/onnx_writer.h"
#include "model/model_internal.h"
#include "nn/graph/op.h"

/* A feature's ids without those that a lookup leaves out, and a 0 behind them. */
typedef struct rk_onnx_bags {
    rk_onnx_value ids, offsets, weights; /* [n + 1], [batch + 1], [n] */
} rk_onnx_bags;

/* A feature of the data, as the caller of the model gives it: ids and weights [n], offsets [batch + 1]; or
 * padded, without offsets, [batch, n]. */
typedef struct rk_onnx_feature {
    bool is_there;
    rk_onnx_value ids, offsets, weights;
    /* [1]: those of mean and sqrtn where there are weights, which leave out weights that are not above 0 */
    rk_onnx_bags bags[2];
    bool has_bags[2];
} rk_onnx_feature;

typedef struct rk_onnx_model {
    const rk_exporting *x;
    rk_model *model;
    rk_collection_config collection;
    rk_onnx_writer writer;
    const rk_data_schema *schema;
    int32_t item;                /* a two_tower's item, whose ids its history has */
    rk_onnx_feature *features;   /* [schema->n_features + 1]: the last one is a two_tower's history */
    rk_onnx_value *lookups;      /* [n_lookups], -1 until they are asked for, */
    rk_onnx_value *values;       /* and values of the graph, */
    rk_onnx_value *initializers; /* [x->n], and exported tensors */
} rk_onnx_model;

/* A table's rows, or of rows of codes a piece, and a parameter of the graph or a running statistic
 * ("<node>/<parameter>"), in the files of the export (export_onnx.c). RK_BAD_DATA, which sticks to the
 * writer: the checkpoint has none of that shape. */
rk_onnx_value rk_onnx_table_initializer(rk_onnx_model *m, int32_t table, rk_row_component piece);
/* The keys of a dynamic table, NULL of a static one; and as they stand in the files, [n]. */
const rk_exported_keys *rk_onnx_table_keys(const rk_onnx_model *m, int32_t table);
rk_onnx_value rk_onnx_keys_initializer(rk_onnx_model *m, const rk_exported_keys *keys);
/* What a table's rows are written as. */
rk_export_rows rk_onnx_table_row_format(const rk_onnx_model *m, int32_t table);
rk_onnx_value rk_onnx_parameter_initializer(rk_onnx_model *m, const char *name, int64_t n_rows,
                                            int64_t n_columns);

/* The batch's size, [1], from whatever input there is. */
rk_onnx_value rk_onnx_dynamic_batch_size(rk_onnx_model *m);

/* Memory for the writer's caller, as rk_alloc; false: a failure, which is the writer's from here on. */
bool rk_onnx_allocate(rk_onnx_model *m, size_t n, size_t bytes, void *out);

/* Rows of a table, f32 [..., dim], for ids of n_dims dimensions, or keys (onnx_table_lookup.c). */
rk_onnx_value rk_onnx_table_lookup(rk_onnx_model *m, int32_t table, rk_onnx_value ids, int32_t n_dims);
rk_onnx_value rk_onnx_gather(rk_onnx_model *m, rk_onnx_value from, rk_onnx_value at); /* along axis 0 */

/* A feature of the data by its number, whose inputs are there afterwards (onnx_lookups.c). */
const rk_onnx_feature *rk_onnx_feature_inputs(rk_onnx_model *m, int32_t source);
bool rk_onnx_is_weighted(const rk_onnx_model *m, int32_t source);
static inline bool rk_onnx_is_padded(const rk_onnx_model *m) {
    return m->x->options->bags == RK_EXPORT_BAGS_PADDED;
}
/* An input of a feature, "<feature>.<what>": [n], or padded [batch, n]; size names n. */
rk_onnx_value rk_onnx_feature_input(rk_onnx_model *m, int32_t source, const char *what, rk_onnx_type type,
                                    const char *size);
/* Transforms in the graph (onnx_transforms.c), where the export's options ask for them: a feature's ids, from
 * an input of its values; -1: ONNX has no such transform, and ids are the input. And all dense numbers. */
rk_onnx_value rk_onnx_transform_ids(rk_onnx_model *m, int32_t source, const char *size);
rk_onnx_value rk_onnx_transform_dense(rk_onnx_model *m);

/* Lookup f, made when it is first asked for: [batch, width] (onnx_lookups.c). */
rk_onnx_value rk_onnx_look_up_feature(rk_onnx_model *m, int32_t f);
/* Lookup f of padded ids: sums of bags, sequences, and their lengths [batch] (onnx_padded_inputs.c). */
rk_onnx_value rk_onnx_padded_combine_bags(rk_onnx_model *m, int32_t f);
rk_onnx_value rk_onnx_padded_sequence(rk_onnx_model *m, int32_t f);
rk_onnx_value rk_onnx_padded_lengths(rk_onnx_model *m, int32_t f);

/* Inputs of the graph (onnx_lookups.c): "vectors" and "linear" as a whole, or the columns first ..
 * first+count-1 of "vectors" if these are whole lookups, else -1; "lengths"; "dense". */
rk_onnx_value rk_onnx_graph_input(rk_onnx_model *m, rk_value input);
rk_onnx_value rk_onnx_input_columns(rk_onnx_model *m, rk_value input, int32_t first, int32_t count);

/* What node k of the graph reads, as it is, as [batch, all], and as [batch, rows, cols] (onnx_ops.c). */
rk_onnx_value rk_onnx_node_input(rk_onnx_model *m, const rk_node *node, int32_t k);
rk_onnx_value rk_onnx_node_input_flat(rk_onnx_model *m, const rk_node *node, int32_t k);
rk_onnx_value rk_onnx_node_input_rows(rk_onnx_model *m, const rk_node *node, int32_t k);
/* [batch, ...] as a value of this shape. */
rk_onnx_value rk_onnx_reshape_to_shape(rk_onnx_model *m, rk_onnx_value value, rk_shape shape);
/* [batch, ...] as [batch, dims...]. */
rk_onnx_value rk_onnx_reshape(rk_onnx_model *m, rk_onnx_value value, const int64_t *dims, size_t n);

/* Nodes of one, two and three inputs, without attributes. */
rk_onnx_value rk_onnx_unary_node(rk_onnx_model *m, const char *op, rk_onnx_value a);
rk_onnx_value rk_onnx_binary_node(rk_onnx_model *m, const char *op, rk_onnx_value a, rk_onnx_value b);
rk_onnx_value rk_onnx_ternary_node(rk_onnx_model *m, const char *op, rk_onnx_value a, rk_onnx_value b,
                                   rk_onnx_value c);
rk_onnx_value rk_onnx_node_with_axis(rk_onnx_model *m, const char *op, const rk_onnx_value *inputs, size_t n,
                                     int64_t axis); /* with the attribute `axis` */
rk_onnx_value rk_onnx_cast(rk_onnx_model *m, rk_onnx_value value, rk_onnx_type to);
rk_onnx_value rk_onnx_reduce_sum(rk_onnx_model *m, rk_onnx_value value, int64_t axis, bool keeps);
rk_onnx_value rk_onnx_transpose(rk_onnx_model *m, rk_onnx_value value, const int64_t *order, size_t n);
rk_onnx_value rk_onnx_slice(rk_onnx_model *m, rk_onnx_value value, int64_t axis, int64_t begin, int64_t end);
rk_onnx_value rk_onnx_unsqueeze(rk_onnx_model *m, rk_onnx_value value, int64_t axis);
rk_onnx_value rk_onnx_constant_float(rk_onnx_model *m, float value); /* a constant [1] */

/* A node of the graph, of each operation. */
#define RK_ONNX_DECLARE(name) rk_onnx_value rk_onnx_op_##name(rk_onnx_model *m, const rk_node *node);
RK_OP_LIST(RK_ONNX_DECLARE)
#undef RK_ONNX_DECLARE

/* The value of the graph, and all that it needs before. */
rk_onnx_value rk_onnx_graph_value(rk_onnx_model *m, rk_value value);

#endif
