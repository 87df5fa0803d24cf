/* Lookups as ONNX nodes, from ids and offsets.
 *
 * A bag's sum is a difference of running sums in f64: ScatterND with `reduction: add`, the other way without
 * padding, lets threads of ONNX Runtime add to one row at once, and sums are lost. */
#include <stdio.h>

#include "base/memory.h"
#include "export/onnx_model.h"

static const char batch[] = "batch", beyond_batch[] = "batch + 1";

/* The scope while a feature's nodes are made. */
static const char *set_scope(rk_onnx_model *m, const char *scope) {
    const char *before = m->writer.scope;
    m->writer.scope = scope;
    return before;
}

static const char *feature_name(const rk_onnx_model *m, int32_t source) {
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
    rk_buffer_printf(&name, "%s.%s", feature_name(m, source), what);
    if (m->writer.status == RK_OK) m->writer.status = name.status;
    rk_onnx_dim dims[] = {{.name = batch}, {.name = size}};
    rk_onnx_value value = m->writer.status == RK_OK ? rk_onnx_input(&m->writer, name.data, type,
                                                                    padded ? dims : dims + 1, padded ? 2 : 1)
                                                    : -1;
    rk_buffer_release(&name);
    return value;
}

static rk_onnx_value add_integers(rk_onnx_model *m, int32_t source, const char *what, const char *size) {
    if (m->x->options->id_bits != 32) return rk_onnx_feature_input(m, source, what, RK_ONNX_I64, size);
    return rk_onnx_cast(m, rk_onnx_feature_input(m, source, what, RK_ONNX_I32, size), RK_ONNX_I64);
}

/* All numbers are keys: none is missing, and none has less than 64 bits. */
static bool has_keys(const rk_onnx_model *m, int32_t source) {
    return m->schema->features[source < m->schema->n_features ? source : m->item].cardinality == 0;
}

static rk_status check_keys(const rk_onnx_model *m, int32_t source) {
    if (!has_keys(m, source)) return RK_OK;
    RK_FAIL_IF(rk_onnx_is_padded(m), RK_UNSUPPORTED,
               "feature '%s' has keys: -1 is one of them, and cannot stand for padding\n"
               "hint: leave out 'bags': ragged ones have offsets",
               feature_name(m, source));
    RK_FAIL_IF(m->x->options->id_bits == 32, RK_UNSUPPORTED,
               "feature '%s' has keys of 64 bits\nhint: leave out 'ids'", feature_name(m, source));
    return RK_OK;
}

static rk_onnx_feature *find_feature(rk_onnx_model *m, int32_t source) {
    rk_onnx_feature *f = &m->features[source];
    if (f->is_there) return f;
    rk_buffer size = {0};
    rk_buffer_printf(&size, "%s ids", feature_name(m, source));
    if (m->writer.status == RK_OK) m->writer.status = size.status;
    if (m->writer.status == RK_OK) m->writer.status = check_keys(m, source);
    if (m->writer.status == RK_OK) {
        f->ids = rk_onnx_ids_of_values(m, source, size.data);
        if (f->ids < 0) f->ids = add_integers(m, source, "ids", size.data);
        if (!rk_onnx_is_padded(m)) f->offsets = add_integers(m, source, "offsets", beyond_batch);
        if (rk_onnx_is_weighted(m, source))
            f->weights = rk_onnx_feature_input(m, source, "weights", RK_ONNX_F32, size.data);
        f->is_there = true;
    }
    rk_buffer_release(&size);
    return f;
}

const rk_onnx_feature *rk_onnx_feature_of(rk_onnx_model *m, int32_t source) {
    return find_feature(m, source);
}

/* Sums of all before each, along the first axis. */
static rk_onnx_value running_sums(rk_onnx_model *m, rk_onnx_value x) {
    rk_onnx_attribute exclusive = {.name = "exclusive", .number = 1};
    rk_onnx_value inputs[] = {x, rk_onnx_constant_int(&m->writer, 0)};
    return rk_onnx_node(&m->writer, "CumSum", inputs, 2, &exclusive, 1);
}

static rk_onnx_value select_by_mask(rk_onnx_model *m, rk_onnx_value from, rk_onnx_value which) {
    return rk_onnx_node_with_axis(m, "Compress", (rk_onnx_value[]){from, which}, 2, 0);
}

/* What is number i+1 less what is number i. */
static rk_onnx_value differences_between(rk_onnx_model *m, rk_onnx_value x) {
    rk_onnx_value above = rk_onnx_slice(m, x, 0, 1, INT64_MAX), below = rk_onnx_slice(m, x, 0, 0, -1);
    return rk_onnx_binary(m, "Sub", above, below);
}

/* Which ids are not left out: negative ones that are no keys, and weights that are not above 0 where
 * `positive`. */
static rk_onnx_value valid_ids(rk_onnx_model *m, int32_t source, bool positive) {
    const rk_onnx_feature *f = find_feature(m, source);
    rk_onnx_value zero = rk_onnx_constant_ints(&m->writer, (int64_t[]){0}, 1);
    bool keys = has_keys(m, source);
    rk_onnx_value is_id = keys ? -1 : rk_onnx_binary(m, "GreaterOrEqual", f->ids, zero);
    if (!positive) return is_id;
    rk_onnx_value counts = rk_onnx_binary(m, "Greater", f->weights, rk_onnx_constant_float(m, 0));
    return keys ? counts : rk_onnx_binary(m, "And", is_id, counts);
}

/* The bags without what is left out. */
static const rk_onnx_bags *make_bags(rk_onnx_model *m, int32_t source, bool positive) {
    rk_onnx_feature *f = find_feature(m, source);
    rk_onnx_bags *bags = &f->bags[positive];
    if (f->has_bags[positive]) return bags;
    rk_onnx_value none = rk_onnx_constant_ints(&m->writer, (int64_t[]){0}, 1);
    if (has_keys(m, source) && !positive) {
        *bags = (rk_onnx_bags){.offsets = f->offsets, .weights = f->weights};
        bags->ids = rk_onnx_node_with_axis(m, "Concat", (rk_onnx_value[]){f->ids, none}, 2, 0);
        f->has_bags[positive] = true;
        return bags;
    }
    rk_onnx_value valid = valid_ids(m, source, positive);
    rk_onnx_value counted[] = {rk_onnx_cast(m, valid, RK_ONNX_I64), none};
    bags->offsets =
        rk_onnx_gather(m, running_sums(m, rk_onnx_node_with_axis(m, "Concat", counted, 2, 0)), f->offsets);
    rk_onnx_value ids[] = {select_by_mask(m, f->ids, valid), none};
    bags->ids = rk_onnx_node_with_axis(m, "Concat", ids, 2, 0);
    if (rk_onnx_is_weighted(m, source)) bags->weights = select_by_mask(m, f->weights, valid);
    f->has_bags[positive] = true;
    return bags;
}

/* [n + 1, 1], f64, a 0 at the end. */
static rk_onnx_value column_of_weights(rk_onnx_model *m, rk_onnx_value weights) {
    rk_onnx_value parts[] = {weights, rk_onnx_constant_float(m, 0)};
    rk_onnx_value w = rk_onnx_cast(m, rk_onnx_node_with_axis(m, "Concat", parts, 2, 0), RK_ONNX_F64);
    return rk_onnx_unsqueeze(m, w, 1);
}

static rk_onnx_value sums_of_bags(rk_onnx_model *m, rk_onnx_value x, const rk_onnx_bags *bags) {
    return differences_between(m, rk_onnx_gather(m, running_sums(m, x), bags->offsets));
}

/* [batch, 1]: what a bag's sum is divided by; 1 where a bag is empty. w: the column of weights, or -1. */
static rk_onnx_value bag_denominators(rk_onnx_model *m, const rk_onnx_bags *bags, rk_onnx_value w,
                                      rk_combiner combiner) {
    rk_onnx_value below, one = rk_onnx_constant_double(&m->writer, 1),
                         zero = rk_onnx_constant_double(&m->writer, 0);
    if (w < 0)
        below = rk_onnx_unsqueeze(m, rk_onnx_cast(m, differences_between(m, bags->offsets), RK_ONNX_F64), 1);
    else
        below = sums_of_bags(m, combiner == RK_COMBINER_SQRTN ? rk_onnx_binary(m, "Mul", w, w) : w, bags);
    if (combiner == RK_COMBINER_SQRTN) below = rk_onnx_unary(m, "Sqrt", below);
    return rk_onnx_ternary(m, "Where", rk_onnx_binary(m, "Greater", below, zero), below, one);
}

static rk_onnx_value combine_bags(rk_onnx_model *m, int32_t f) {
    const rk_feature_config *feature = &m->collection.features[f];
    int32_t source = m->model->lookups[f].source;
    bool weighted = rk_onnx_is_weighted(m, source), divides = feature->combiner != RK_COMBINER_SUM;
    const rk_onnx_bags *bags = make_bags(m, source, weighted && divides);
    rk_onnx_value rows = rk_onnx_cast(m, rk_onnx_table_lookup(m, m->collection.table_of[f], bags->ids, 1),
                                      RK_ONNX_F64),
                  w = -1;
    if (weighted) {
        w = column_of_weights(m, bags->weights);
        rows = rk_onnx_binary(m, "Mul", rows, w);
    }
    rk_onnx_value sums = sums_of_bags(m, rows, bags);
    if (divides) sums = rk_onnx_binary(m, "Div", sums, bag_denominators(m, bags, w, feature->combiner));
    return rk_onnx_cast(m, sums, RK_ONNX_F32);
}

/* [batch]: ids that are there, of a sequence no more than it can have. */
static rk_onnx_value sequence_lengths(rk_onnx_model *m, int32_t f) {
    if (rk_onnx_is_padded(m)) return rk_onnx_padded_lengths(m, f);
    const rk_onnx_bags *bags = make_bags(m, m->model->lookups[f].source, false);
    int64_t most = m->collection.features[f].max_sequence_length;
    return rk_onnx_binary(m, "Min", differences_between(m, bags->offsets),
                          rk_onnx_constant_ints(&m->writer, &most, 1));
}

static rk_onnx_value make_positions(rk_onnx_model *m, int64_t n) {
    RK_AUTOFREE int64_t *numbers = NULL;
    if (!rk_onnx_alloc(m, (size_t)n, sizeof *numbers, &numbers)) return -1;
    for (int64_t i = 0; i < n; i++) numbers[i] = i;
    return rk_onnx_constant_ints(&m->writer, numbers, (size_t)n);
}

/* Position p of a sample is id number offset + p, or zeros from its length on: [batch, length * dim]. */
static rk_onnx_value look_up_sequence(rk_onnx_model *m, int32_t f) {
    const rk_onnx_bags *bags = make_bags(m, m->model->lookups[f].source, false);
    int64_t length = m->collection.features[f].max_sequence_length,
            width = rk_collection_config_feature_width(&m->collection, f);
    rk_onnx_value at = make_positions(m, length), begins = rk_onnx_slice(m, bags->offsets, 0, 0, -1),
                  there = rk_onnx_binary(m, "Less", at, rk_onnx_unsqueeze(m, sequence_lengths(m, f), 1)),
                  place = rk_onnx_binary(m, "Add", rk_onnx_unsqueeze(m, begins, 1), at);
    place = rk_onnx_ternary(m, "Where", there, place, rk_onnx_constant_int(&m->writer, 0));
    rk_onnx_value rows =
        rk_onnx_table_lookup(m, m->collection.table_of[f], rk_onnx_gather(m, bags->ids, place), 2);
    rows = rk_onnx_ternary(m, "Where", rk_onnx_unsqueeze(m, there, 2), rows, rk_onnx_constant_float(m, 0));
    return rk_onnx_reshape(m, rows, &width, 1);
}

rk_onnx_value rk_onnx_lookup(rk_onnx_model *m, int32_t f) {
    if (m->lookups[f] >= 0 || m->writer.status != RK_OK) return m->lookups[f];
    const char *before = set_scope(m, m->collection.features[f].name);
    bool is_sequence = m->collection.features[f].max_sequence_length > 0;
    if (rk_onnx_is_padded(m))
        m->lookups[f] = (is_sequence ? rk_onnx_padded_sequence : rk_onnx_padded_sums)(m, f);
    else
        m->lookups[f] = (is_sequence ? look_up_sequence : combine_bags)(m, f);
    set_scope(m, before);
    return m->lookups[f];
}

static rk_onnx_value concat_columns(rk_onnx_model *m, const rk_onnx_value *parts, size_t n) {
    return n == 1 ? parts[0] : rk_onnx_node_with_axis(m, "Concat", parts, n, 1);
}

/* Lookups first .. first+n-1. */
static rk_onnx_value concat_lookups(rk_onnx_model *m, int32_t first, int32_t n) {
    RK_AUTOFREE rk_onnx_value *parts = NULL;
    if (!rk_onnx_alloc(m, (size_t)n, sizeof *parts, &parts)) return -1;
    for (int32_t i = 0; i < n; i++) parts[i] = rk_onnx_lookup(m, first + i);
    return concat_columns(m, parts, (size_t)n);
}

static rk_onnx_value length_column(rk_onnx_model *m, int32_t f) {
    const char *before = set_scope(m, m->collection.features[f].name);
    rk_onnx_value lengths = rk_onnx_cast(m, sequence_lengths(m, f), RK_ONNX_F32);
    lengths = rk_onnx_unsqueeze(m, lengths, 1);
    set_scope(m, before);
    return lengths;
}

/* Sequences in the order of their columns, which is that of the lookups. */
static rk_onnx_value all_lengths(rk_onnx_model *m) {
    RK_AUTOFREE rk_onnx_value *parts = NULL;
    size_t n = 0;
    if (!rk_onnx_alloc(m, (size_t)m->collection.n_vectors, sizeof *parts, &parts)) return -1;
    for (int32_t f = 0; f < m->collection.n_vectors; f++)
        if (m->model->lookups[f].length) parts[n++] = length_column(m, f);
    return concat_columns(m, parts, n);
}

static rk_onnx_value read_input(rk_onnx_model *m, rk_value input) {
    const rk_model *model = m->model;
    if (input == model->dense && m->x->options->values) return rk_onnx_dense_of_values(m);
    if (input == model->dense) {
        rk_onnx_dim dims[] = {{.name = batch}, {.size = model->n_dense}};
        return rk_onnx_input(&m->writer, "dense", RK_ONNX_F32, dims, 2);
    }
    if (input == model->lengths) return all_lengths(m);
    int32_t n_vectors = m->collection.n_vectors;
    if (n_vectors && input == model->lookups[0].input) return concat_lookups(m, 0, n_vectors);
    return concat_lookups(m, n_vectors, m->collection.n_features - n_vectors);
}

rk_onnx_value rk_onnx_graph_input(rk_onnx_model *m, rk_value input) {
    if (m->values[input] < 0) m->values[input] = read_input(m, input);
    return m->values[input];
}

rk_onnx_value rk_onnx_columns(rk_onnx_model *m, rk_value input, int32_t first, int32_t count) {
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
        return rk_onnx_slice(m, rk_onnx_unary(m, "Shape", dense), 0, 0, 1);
    }
    const rk_onnx_feature *f = find_feature(m, m->model->lookups[0].source);
    if (rk_onnx_is_padded(m)) return rk_onnx_slice(m, rk_onnx_unary(m, "Shape", f->ids), 0, 0, 1);
    rk_onnx_value one = rk_onnx_constant_ints(&m->writer, (int64_t[]){1}, 1);
    return rk_onnx_binary(m, "Sub", rk_onnx_unary(m, "Shape", f->offsets), one);
}
