/* Lookups as ONNX nodes, from ids and offsets.
 *
 * A bag's sum is a difference of running sums in f64: ScatterND with `reduction: add`, the other way without
 * padding, lets threads of ONNX Runtime add to one row at once, and sums are lost. */
#include <stdio.h>

#include "base/memory.h"
#include "export/onnx_model.h"

static const char batch[] = "batch", beyond_batch[] = "batch + 1";

/* The scope while a feature's nodes are made. */
static const char *set_node_scope(rk_onnx_model *m, const char *scope) {
    const char *before = m->writer.scope;
    m->writer.scope = scope;
    return before;
}

static const char *name_of_source(const rk_onnx_model *m, int32_t source) {
    return source < m->schema->n_features ? m->schema->features[source].name : "history";
}

bool rk_onnx_is_weighted(const rk_onnx_model *m, int32_t source) {
    return source < m->schema->n_features && m->schema->features[source].weighted;
}

/* Of ids or weights: [n], or padded [batch, n]. */
rk_onnx_value rk_onnx_feature_input(rk_onnx_model *m, int32_t source, const char *what, rk_onnx_type type,
                                    const char *size) {
    rk_buffer name = {0};
    bool padded = rk_onnx_is_padded(m);
    rk_buffer_printf(&name, "%s.%s", name_of_source(m, source), what);
    if (m->writer.status == RK_OK) m->writer.status = name.status;
    rk_onnx_dim dims[] = {{.name = batch}, {.name = size}};
    rk_onnx_value value =
        m->writer.status == RK_OK
            ? rk_onnx_add_input(&m->writer, name.data, type, padded ? dims : dims + 1, padded ? 2 : 1)
            : -1;
    rk_buffer_release(&name);
    return value;
}

static rk_onnx_value add_id_input(rk_onnx_model *m, int32_t source, const char *what, const char *size) {
    if (m->x->options->id_bits != 32) return rk_onnx_feature_input(m, source, what, RK_ONNX_I64, size);
    return rk_onnx_cast(m, rk_onnx_feature_input(m, source, what, RK_ONNX_I32, size), RK_ONNX_I64);
}

/* All numbers are keys: none is missing, and none has less than 64 bits. */
static bool feature_has_keys(const rk_onnx_model *m, int32_t source) {
    return m->schema->features[source < m->schema->n_features ? source : m->item].cardinality == 0;
}

static rk_status check_key_feature_supported(const rk_onnx_model *m, int32_t source) {
    if (!feature_has_keys(m, source)) return RK_OK;
    RK_FAIL_IF(rk_onnx_is_padded(m), RK_UNSUPPORTED,
               "feature '%s' has keys: -1 is one of them, and cannot stand for padding\n"
               "hint: leave out 'bags': ragged ones have offsets",
               name_of_source(m, source));
    RK_FAIL_IF(m->x->options->id_bits == 32, RK_UNSUPPORTED,
               "feature '%s' has keys of 64 bits\nhint: leave out 'ids'", name_of_source(m, source));
    return RK_OK;
}

static rk_onnx_feature *find_or_add_feature_inputs(rk_onnx_model *m, int32_t source) {
    rk_onnx_feature *f = &m->features[source];
    if (f->is_there) return f;
    rk_buffer size = {0};
    rk_buffer_printf(&size, "%s ids", name_of_source(m, source));
    if (m->writer.status == RK_OK) m->writer.status = size.status;
    if (m->writer.status == RK_OK) m->writer.status = check_key_feature_supported(m, source);
    if (m->writer.status == RK_OK) {
        f->ids = rk_onnx_transform_ids(m, source, size.data);
        if (f->ids < 0) f->ids = add_id_input(m, source, "ids", size.data);
        if (!rk_onnx_is_padded(m)) f->offsets = add_id_input(m, source, "offsets", beyond_batch);
        if (rk_onnx_is_weighted(m, source))
            f->weights = rk_onnx_feature_input(m, source, "weights", RK_ONNX_F32, size.data);
        f->is_there = true;
    }
    rk_buffer_release(&size);
    return f;
}

const rk_onnx_feature *rk_onnx_feature_inputs(rk_onnx_model *m, int32_t source) {
    return find_or_add_feature_inputs(m, source);
}

/* Sums of all before each, along the first axis. */
static rk_onnx_value cumulative_sums(rk_onnx_model *m, rk_onnx_value x) {
    rk_onnx_attribute exclusive = {.name = "exclusive", .number = 1};
    rk_onnx_value inputs[] = {x, rk_onnx_constant_int(&m->writer, 0)};
    return rk_onnx_add_node(&m->writer, "CumSum", inputs, 2, &exclusive, 1);
}

static rk_onnx_value select_by_mask(rk_onnx_model *m, rk_onnx_value from, rk_onnx_value which) {
    return rk_onnx_node_with_axis(m, "Compress", (rk_onnx_value[]){from, which}, 2, 0);
}

/* What is number i+1 less what is number i. */
static rk_onnx_value adjacent_differences(rk_onnx_model *m, rk_onnx_value x) {
    rk_onnx_value above = rk_onnx_slice(m, x, 0, 1, INT64_MAX), below = rk_onnx_slice(m, x, 0, 0, -1);
    return rk_onnx_binary_node(m, "Sub", above, below);
}

/* Which ids are not left out: negative ones that are no keys, and weights that are not above 0 where
 * `positive`. */
static rk_onnx_value mask_valid_ids(rk_onnx_model *m, int32_t source, bool positive) {
    const rk_onnx_feature *f = find_or_add_feature_inputs(m, source);
    rk_onnx_value zero = rk_onnx_constant_ints(&m->writer, (int64_t[]){0}, 1);
    bool keys = feature_has_keys(m, source);
    rk_onnx_value is_id = keys ? -1 : rk_onnx_binary_node(m, "GreaterOrEqual", f->ids, zero);
    if (!positive) return is_id;
    rk_onnx_value counts = rk_onnx_binary_node(m, "Greater", f->weights, rk_onnx_constant_float(m, 0));
    return keys ? counts : rk_onnx_binary_node(m, "And", is_id, counts);
}

/* The bags without what is left out. */
static const rk_onnx_bags *make_valid_bags(rk_onnx_model *m, int32_t source, bool positive) {
    rk_onnx_feature *f = find_or_add_feature_inputs(m, source);
    rk_onnx_bags *bags = &f->bags[positive];
    if (f->has_bags[positive]) return bags;
    rk_onnx_value none = rk_onnx_constant_ints(&m->writer, (int64_t[]){0}, 1);
    if (feature_has_keys(m, source) && !positive) {
        *bags = (rk_onnx_bags){.offsets = f->offsets, .weights = f->weights};
        bags->ids = rk_onnx_node_with_axis(m, "Concat", (rk_onnx_value[]){f->ids, none}, 2, 0);
        f->has_bags[positive] = true;
        return bags;
    }
    rk_onnx_value valid = mask_valid_ids(m, source, positive);
    rk_onnx_value counted[] = {rk_onnx_cast(m, valid, RK_ONNX_I64), none};
    bags->offsets =
        rk_onnx_gather(m, cumulative_sums(m, rk_onnx_node_with_axis(m, "Concat", counted, 2, 0)), f->offsets);
    rk_onnx_value ids[] = {select_by_mask(m, f->ids, valid), none};
    bags->ids = rk_onnx_node_with_axis(m, "Concat", ids, 2, 0);
    if (rk_onnx_is_weighted(m, source)) bags->weights = select_by_mask(m, f->weights, valid);
    f->has_bags[positive] = true;
    return bags;
}

/* [n + 1, 1], f64, a 0 at the end. */
static rk_onnx_value make_weight_column(rk_onnx_model *m, rk_onnx_value weights) {
    rk_onnx_value parts[] = {weights, rk_onnx_constant_float(m, 0)};
    rk_onnx_value w = rk_onnx_cast(m, rk_onnx_node_with_axis(m, "Concat", parts, 2, 0), RK_ONNX_F64);
    return rk_onnx_unsqueeze(m, w, 1);
}

static rk_onnx_value sum_bags(rk_onnx_model *m, rk_onnx_value x, const rk_onnx_bags *bags) {
    return adjacent_differences(m, rk_onnx_gather(m, cumulative_sums(m, x), bags->offsets));
}

/* [batch, 1]: what a bag's sum is divided by; 1 where a bag is empty. w: the column of weights, or -1. */
static rk_onnx_value compute_bag_denominators(rk_onnx_model *m, const rk_onnx_bags *bags, rk_onnx_value w,
                                              rk_combiner combiner) {
    rk_onnx_value below, one = rk_onnx_constant_double(&m->writer, 1),
                         zero = rk_onnx_constant_double(&m->writer, 0);
    if (w < 0)
        below = rk_onnx_unsqueeze(m, rk_onnx_cast(m, adjacent_differences(m, bags->offsets), RK_ONNX_F64), 1);
    else
        below = sum_bags(m, combiner == RK_COMBINER_SQRTN ? rk_onnx_binary_node(m, "Mul", w, w) : w, bags);
    if (combiner == RK_COMBINER_SQRTN) below = rk_onnx_unary_node(m, "Sqrt", below);
    return rk_onnx_ternary_node(m, "Where", rk_onnx_binary_node(m, "Greater", below, zero), below, one);
}

static rk_onnx_value look_up_and_combine_bags(rk_onnx_model *m, int32_t f) {
    const rk_feature_config *feature = &m->collection.features[f];
    int32_t source = m->model->lookups[f].source;
    bool weighted = rk_onnx_is_weighted(m, source), divides = feature->combiner != RK_COMBINER_SUM;
    const rk_onnx_bags *bags = make_valid_bags(m, source, weighted && divides);
    rk_onnx_value rows = rk_onnx_cast(m, rk_onnx_table_lookup(m, m->collection.table_of[f], bags->ids, 1),
                                      RK_ONNX_F64),
                  w = -1;
    if (weighted) {
        w = make_weight_column(m, bags->weights);
        rows = rk_onnx_binary_node(m, "Mul", rows, w);
    }
    rk_onnx_value sums = sum_bags(m, rows, bags);
    if (divides)
        sums = rk_onnx_binary_node(m, "Div", sums, compute_bag_denominators(m, bags, w, feature->combiner));
    return rk_onnx_cast(m, sums, RK_ONNX_F32);
}

/* [batch]: ids that are there, of a sequence no more than it can have. */
static rk_onnx_value compute_sequence_lengths(rk_onnx_model *m, int32_t f) {
    if (rk_onnx_is_padded(m)) return rk_onnx_padded_lengths(m, f);
    const rk_onnx_bags *bags = make_valid_bags(m, m->model->lookups[f].source, false);
    int64_t most = m->collection.features[f].max_sequence_length;
    return rk_onnx_binary_node(m, "Min", adjacent_differences(m, bags->offsets),
                               rk_onnx_constant_ints(&m->writer, &most, 1));
}

static rk_onnx_value make_position_constant(rk_onnx_model *m, int64_t n) {
    RK_AUTOFREE int64_t *numbers = NULL;
    if (!rk_onnx_allocate(m, (size_t)n, sizeof *numbers, &numbers)) return -1;
    for (int64_t i = 0; i < n; i++) numbers[i] = i;
    return rk_onnx_constant_ints(&m->writer, numbers, (size_t)n);
}

/* Position p of a sample is id number offset + p, or zeros from its length on: [batch, length * dim]. */
static rk_onnx_value look_up_sequence(rk_onnx_model *m, int32_t f) {
    const rk_onnx_bags *bags = make_valid_bags(m, m->model->lookups[f].source, false);
    int64_t length = m->collection.features[f].max_sequence_length,
            width = rk_collection_config_feature_width(&m->collection, f);
    rk_onnx_value at = make_position_constant(m, length), begins = rk_onnx_slice(m, bags->offsets, 0, 0, -1),
                  there = rk_onnx_binary_node(m, "Less", at,
                                              rk_onnx_unsqueeze(m, compute_sequence_lengths(m, f), 1)),
                  place = rk_onnx_binary_node(m, "Add", rk_onnx_unsqueeze(m, begins, 1), at);
    place = rk_onnx_ternary_node(m, "Where", there, place, rk_onnx_constant_int(&m->writer, 0));
    rk_onnx_value rows =
        rk_onnx_table_lookup(m, m->collection.table_of[f], rk_onnx_gather(m, bags->ids, place), 2);
    rows =
        rk_onnx_ternary_node(m, "Where", rk_onnx_unsqueeze(m, there, 2), rows, rk_onnx_constant_float(m, 0));
    return rk_onnx_reshape(m, rows, &width, 1);
}

rk_onnx_value rk_onnx_look_up_feature(rk_onnx_model *m, int32_t f) {
    if (m->lookups[f] >= 0 || m->writer.status != RK_OK) return m->lookups[f];
    const char *before = set_node_scope(m, m->collection.features[f].name);
    bool is_sequence = m->collection.features[f].max_sequence_length > 0;
    if (rk_onnx_is_padded(m))
        m->lookups[f] = (is_sequence ? rk_onnx_padded_sequence : rk_onnx_padded_combine_bags)(m, f);
    else
        m->lookups[f] = (is_sequence ? look_up_sequence : look_up_and_combine_bags)(m, f);
    set_node_scope(m, before);
    return m->lookups[f];
}

static rk_onnx_value concat_columns(rk_onnx_model *m, const rk_onnx_value *parts, size_t n) {
    return n == 1 ? parts[0] : rk_onnx_node_with_axis(m, "Concat", parts, n, 1);
}

/* Lookups first .. first+n-1. */
static rk_onnx_value concat_lookups(rk_onnx_model *m, int32_t first, int32_t n) {
    RK_AUTOFREE rk_onnx_value *parts = NULL;
    if (!rk_onnx_allocate(m, (size_t)n, sizeof *parts, &parts)) return -1;
    for (int32_t i = 0; i < n; i++) parts[i] = rk_onnx_look_up_feature(m, first + i);
    return concat_columns(m, parts, (size_t)n);
}

static rk_onnx_value make_length_column(rk_onnx_model *m, int32_t f) {
    const char *before = set_node_scope(m, m->collection.features[f].name);
    rk_onnx_value lengths = rk_onnx_cast(m, compute_sequence_lengths(m, f), RK_ONNX_F32);
    lengths = rk_onnx_unsqueeze(m, lengths, 1);
    set_node_scope(m, before);
    return lengths;
}

/* Sequences in the order of their columns, which is that of the lookups. */
static rk_onnx_value concat_sequence_lengths(rk_onnx_model *m) {
    RK_AUTOFREE rk_onnx_value *parts = NULL;
    size_t n = 0;
    if (!rk_onnx_allocate(m, (size_t)m->collection.n_vectors, sizeof *parts, &parts)) return -1;
    for (int32_t f = 0; f < m->collection.n_vectors; f++)
        if (m->model->lookups[f].length) parts[n++] = make_length_column(m, f);
    return concat_columns(m, parts, n);
}

static rk_onnx_value make_graph_input(rk_onnx_model *m, rk_value input) {
    const rk_model *model = m->model;
    if (input == model->dense && m->x->options->values) return rk_onnx_transform_dense(m);
    if (input == model->dense) {
        rk_onnx_dim dims[] = {{.name = batch}, {.size = model->n_dense}};
        return rk_onnx_add_input(&m->writer, "dense", RK_ONNX_F32, dims, 2);
    }
    if (input == model->lengths) return concat_sequence_lengths(m);
    int32_t n_vectors = m->collection.n_vectors;
    if (n_vectors && input == model->lookups[0].input) return concat_lookups(m, 0, n_vectors);
    return concat_lookups(m, n_vectors, m->collection.n_features - n_vectors);
}

rk_onnx_value rk_onnx_graph_input(rk_onnx_model *m, rk_value input) {
    if (m->values[input] < 0) m->values[input] = make_graph_input(m, input);
    return m->values[input];
}

rk_onnx_value rk_onnx_input_columns(rk_onnx_model *m, rk_value input, int32_t first, int32_t count) {
    const rk_model_lookup *lookups = m->model->lookups;
    int32_t begin = 0, end, n = m->collection.n_vectors, width = 0;
    if (n == 0 || input != lookups[0].input) return -1;
    while (begin < n && lookups[begin].first < first) begin++;
    if (begin == n || lookups[begin].first != first) return -1;
    for (end = begin; end < n && width < count; end++)
        width += rk_collection_config_feature_width(&m->collection, end);
    return width == count ? concat_lookups(m, begin, end - begin) : -1;
}

rk_onnx_value rk_onnx_dynamic_batch_size(rk_onnx_model *m) {
    if (m->model->dense >= 0) {
        rk_onnx_value dense = rk_onnx_graph_input(m, m->model->dense);
        return rk_onnx_slice(m, rk_onnx_unary_node(m, "Shape", dense), 0, 0, 1);
    }
    const rk_onnx_feature *f = find_or_add_feature_inputs(m, m->model->lookups[0].source);
    if (rk_onnx_is_padded(m)) return rk_onnx_slice(m, rk_onnx_unary_node(m, "Shape", f->ids), 0, 0, 1);
    rk_onnx_value one = rk_onnx_constant_ints(&m->writer, (int64_t[]){1}, 1);
    return rk_onnx_binary_node(m, "Sub", rk_onnx_unary_node(m, "Shape", f->offsets), one);
}
