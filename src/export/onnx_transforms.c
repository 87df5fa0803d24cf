/* Ids and numbers made of columns' values in the graph: what ONNX has of docs/data.md. */
#include <string.h>

#include "base/memory.h"
#include "export/onnx_model.h"
#include "train/config/run_config.h"

static const char values_input[] = "values";

static int32_t n_dims_of_id_input(const rk_onnx_model *m) {
    return rk_onnx_is_padded(m) ? 2 : 1;
}

/* A value below the offset is none, as a negative id is. */
static rk_onnx_value add_identity_transform(rk_onnx_model *m, int32_t source, const char *size,
                                            int64_t offset) {
    bool narrow = m->x->options->id_bits == 32;
    rk_onnx_value ids =
        rk_onnx_feature_input(m, source, values_input, narrow ? RK_ONNX_I32 : RK_ONNX_I64, size);
    if (narrow) ids = rk_onnx_cast(m, ids, RK_ONNX_I64);
    return offset ? rk_onnx_binary_node(m, "Sub", ids, rk_onnx_constant_int(&m->writer, offset)) : ids;
}

/* How many boundaries each value reaches; a NaN is none. */
static rk_onnx_value add_bucket_transform(rk_onnx_model *m, int32_t source, const char *size,
                                          const rk_fitted_feature *fitted) {
    int32_t n_dims = n_dims_of_id_input(m);
    rk_onnx_value x = rk_onnx_feature_input(m, source, values_input, RK_ONNX_F64, size),
                  boundaries =
                      rk_onnx_constant_doubles(&m->writer, fitted->boundaries, (size_t)fitted->n_boundaries),
                  reached =
                      rk_onnx_binary_node(m, "GreaterOrEqual", rk_onnx_unsqueeze(m, x, n_dims), boundaries),
                  ids = rk_onnx_reduce_sum(m, rk_onnx_cast(m, reached, RK_ONNX_I64), n_dims, false);
    return rk_onnx_ternary_node(m, "Where", rk_onnx_unary_node(m, "IsNaN", x),
                                rk_onnx_constant_int(&m->writer, -1), ids);
}

/* The vocabulary's texts with their ids, and the empty text, which is none. texts, ids: [n + 1] */
static void list_vocabulary(const rk_onnx_model *m, int64_t feature, int64_t oov, int64_t n, rk_span *texts,
                            int64_t *ids) {
    char unused[RK_I64_BYTES];
    for (int64_t i = 0; i < n; i++) {
        ids[i] = oov + i;
        rk_transforms_value_of_id(m->x->config->transforms, feature, ids[i], unused, &texts[i]);
    }
    texts[n] = (rk_span){"", 0};
    ids[n] = -1;
}

static rk_onnx_value add_vocabulary_transform(rk_onnx_model *m, int32_t source, const char *size,
                                              int64_t feature, int64_t oov) {
    int64_t n = m->schema->features[source].cardinality - oov, *ids = NULL;
    rk_span *texts = NULL;
    rk_onnx_value words = rk_onnx_feature_input(m, source, values_input, RK_ONNX_TEXT, size), value = -1;
    rk_status status = RK_ALLOC_ALL(RK_ARRAY((size_t)n + 1, texts), RK_ARRAY((size_t)n + 1, ids));
    if (status == RK_OK) {
        list_vocabulary(m, feature, oov, n, texts, ids);
        rk_onnx_attribute attributes[] = {
            {.name = "keys_strings", .kind = RK_ONNX_TEXTS, .texts = texts, .n_numbers = (size_t)n + 1},
            {.name = "values_int64s", .kind = RK_ONNX_INTS, .numbers = ids, .n_numbers = (size_t)n + 1},
            {.name = "default_int64", .number = oov - 1}};
        value = rk_onnx_add_ml_node(&m->writer, "LabelEncoder", &words, 1, attributes, 3);
    } else if (m->writer.status == RK_OK) {
        m->writer.status = status;
    }
    RK_FREE_ALL(texts, ids);
    return value;
}

/* Ids made of ids are the caller's, as rk_transforms makes them. Hashes (of texts, of crosses, of words
 * beyond a vocabulary) are not to be had in ONNX. */
rk_onnx_value rk_onnx_transform_ids(rk_onnx_model *m, int32_t source, const char *size) {
    if (!m->x->options->values || source >= m->schema->n_features) return -1;
    const rk_transforms *transforms = m->x->config->transforms;
    int64_t feature = rk_transforms_find_feature(transforms, m->schema->features[source].name);
    rk_fitted_feature fitted = rk_transforms_get_fitted_feature(transforms, feature);
    const rk_data_feature *f = fitted.feature;
    if (rk_feature_n_parts(f)) return -1;
    if (f->identity) return add_identity_transform(m, source, size, f->identity_offset);
    if (f->n_bucketize || f->quantiles) return add_bucket_transform(m, source, size, &fitted);
    if (f->vocabulary.line && f->vocabulary.oov <= 1)
        return add_vocabulary_transform(m, source, size, feature, f->vocabulary.oov);
    return -1;
}

/* sign(x) log(1 + |x|) */
static rk_onnx_value signed_log1p(rk_onnx_model *m, rk_onnx_value x) {
    rk_onnx_value above = rk_onnx_binary_node(m, "Add", rk_onnx_unary_node(m, "Abs", x),
                                              rk_onnx_constant_double(&m->writer, 1));
    return rk_onnx_binary_node(m, "Mul", rk_onnx_unary_node(m, "Sign", x),
                               rk_onnx_unary_node(m, "Log", above));
}

/* [batch, width]; a NaN is the default, or becomes 0 where there is none. */
static rk_onnx_value add_dense_transform(rk_onnx_model *m, const rk_fitted_feature *fitted) {
    const rk_data_feature *f = fitted->feature;
    rk_onnx_dim dims[] = {{.name = "batch"}, {.size = f->width}};
    rk_buffer name = {0};
    double missing = 0;
    rk_buffer_printf(&name, "%s.%s", f->name, values_input);
    if (m->writer.status == RK_OK) m->writer.status = name.status;
    rk_onnx_value x =
        m->writer.status == RK_OK ? rk_onnx_add_input(&m->writer, name.data, RK_ONNX_F64, dims, 2) : -1;
    rk_buffer_release(&name);
    rk_onnx_value is_missing = rk_onnx_unary_node(m, "IsNaN", x);
    bool has_default =
        f->default_value && rk_parse_f64((rk_span){f->default_value, strlen(f->default_value)}, &missing);
    rk_onnx_value filler = rk_onnx_constant_double(&m->writer, missing);
    x = rk_onnx_ternary_node(m, "Where", is_missing, filler, x);
    if (f->log1p) x = signed_log1p(m, x);
    if (f->normalize) {
        x = rk_onnx_binary_node(m, "Sub", x, rk_onnx_constant_double(&m->writer, fitted->mean));
        x = rk_onnx_binary_node(m, "Div", x, rk_onnx_constant_double(&m->writer, fitted->deviation));
    }
    if (!has_default) x = rk_onnx_ternary_node(m, "Where", is_missing, filler, x);
    return rk_onnx_cast(m, x, RK_ONNX_F32);
}

rk_onnx_value rk_onnx_transform_dense(rk_onnx_model *m) {
    const rk_transforms *transforms = m->x->config->transforms;
    int64_t n_features = rk_transforms_section(transforms)->n_features;
    rk_onnx_value *parts = NULL;
    size_t n = 0;
    if (!rk_onnx_allocate(m, (size_t)n_features, sizeof *parts, &parts)) return -1;
    const char *before = m->writer.scope;
    for (int64_t i = 0; i < n_features; i++) {
        rk_fitted_feature fitted = rk_transforms_get_fitted_feature(transforms, i);
        if (!fitted.feature->dense) continue;
        m->writer.scope = fitted.feature->name;
        parts[n++] = add_dense_transform(m, &fitted);
    }
    m->writer.scope = before;
    rk_onnx_value value = n == 1 ? parts[0] : rk_onnx_node_with_axis(m, "Concat", parts, n, 1);
    rk_free(parts);
    return value;
}
