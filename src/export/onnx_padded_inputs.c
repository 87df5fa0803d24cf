/* Lookups as ONNX nodes, from padded ids: [batch, n], of which negative ones are none. */
#include "export/onnx_model.h"

/* 1 for an id that counts or its weight, else 0: [batch, n]. Weights that are not above 0 count where
 * !positive. */
static rk_onnx_value make_id_weights(rk_onnx_model *m, const rk_onnx_feature *feature, bool weighted,
                                     bool positive, rk_onnx_value valid) {
    if (!weighted) return rk_onnx_cast(m, valid, RK_ONNX_F32);
    rk_onnx_value zero = rk_onnx_constant_float(m, 0);
    if (positive)
        valid =
            rk_onnx_binary_node(m, "And", valid, rk_onnx_binary_node(m, "Greater", feature->weights, zero));
    return rk_onnx_ternary_node(m, "Where", valid, feature->weights, zero);
}

static rk_onnx_value mask_valid_ids(rk_onnx_model *m, rk_onnx_value ids) {
    return rk_onnx_binary_node(m, "GreaterOrEqual", ids, rk_onnx_constant_int(&m->writer, 0));
}

/* Rows [batch, n, dim]; of an id that is none those of id 0. */
static rk_onnx_value look_up_rows(rk_onnx_model *m, int32_t f, rk_onnx_value ids, rk_onnx_value valid) {
    ids = rk_onnx_ternary_node(m, "Where", valid, ids, rk_onnx_constant_int(&m->writer, 0));
    return rk_onnx_table_lookup(m, m->collection.table_of[f], ids, 2);
}

rk_onnx_value rk_onnx_padded_combine_bags(rk_onnx_model *m, int32_t f) {
    rk_combiner combiner = m->collection.features[f].combiner;
    int32_t source = m->model->lookups[f].source;
    const rk_onnx_feature *feature = rk_onnx_feature_inputs(m, source);
    bool divides = combiner != RK_COMBINER_SUM;
    rk_onnx_value valid = mask_valid_ids(m, feature->ids),
                  w = make_id_weights(m, feature, rk_onnx_is_weighted(m, source), divides, valid),
                  rows = look_up_rows(m, f, feature->ids, valid);
    rows = rk_onnx_binary_node(m, "Mul", rows, rk_onnx_unsqueeze(m, w, 2));
    rk_onnx_value sums = rk_onnx_reduce_sum(m, rows, 1, false);
    if (!divides) return sums;
    bool sqrtn = combiner == RK_COMBINER_SQRTN;
    rk_onnx_value below = rk_onnx_reduce_sum(m, sqrtn ? rk_onnx_binary_node(m, "Mul", w, w) : w, 1, true);
    if (sqrtn) below = rk_onnx_unary_node(m, "Sqrt", below);
    rk_onnx_value positive = rk_onnx_binary_node(m, "Greater", below, rk_onnx_constant_float(m, 0));
    return rk_onnx_binary_node(
        m, "Div", sums, rk_onnx_ternary_node(m, "Where", positive, below, rk_onnx_constant_float(m, 1)));
}

/* The ids of a sequence, with -1 behind them: [batch, length]. */
static rk_onnx_value pad_sequence_ids(rk_onnx_model *m, int32_t f) {
    int64_t length = m->collection.features[f].max_sequence_length;
    rk_onnx_value ids = rk_onnx_feature_inputs(m, m->model->lookups[f].source)->ids,
                  shape[] = {rk_onnx_slice(m, rk_onnx_unary_node(m, "Shape", ids), 0, 0, 1),
                             rk_onnx_constant_ints(&m->writer, &length, 1)},
                  none = rk_onnx_constant_ints(&m->writer, (int64_t[]){-1}, 1),
                  parts[] = {ids, rk_onnx_binary_node(m, "Expand", none,
                                                      rk_onnx_node_with_axis(m, "Concat", shape, 2, 0))};
    return rk_onnx_slice(m, rk_onnx_node_with_axis(m, "Concat", parts, 2, 1), 1, 0, length);
}

rk_onnx_value rk_onnx_padded_sequence(rk_onnx_model *m, int32_t f) {
    int64_t width = rk_collection_config_feature_width(&m->collection, f);
    rk_onnx_value ids = pad_sequence_ids(m, f), valid = mask_valid_ids(m, ids),
                  rows = look_up_rows(m, f, ids, valid);
    rows =
        rk_onnx_ternary_node(m, "Where", rk_onnx_unsqueeze(m, valid, 2), rows, rk_onnx_constant_float(m, 0));
    return rk_onnx_reshape(m, rows, &width, 1);
}

rk_onnx_value rk_onnx_padded_lengths(rk_onnx_model *m, int32_t f) {
    return rk_onnx_reduce_sum(m, rk_onnx_cast(m, mask_valid_ids(m, pad_sequence_ids(m, f)), RK_ONNX_I64), 1,
                              false);
}
