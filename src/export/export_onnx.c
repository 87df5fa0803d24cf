/* model.onnx beside the tensors' files, into which it points: one copy of the bytes. */
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "export/onnx_model.h"
#include "train/config/run_config.h"

static rk_onnx_type onnx_type_of(rk_dtype type) {
    switch (type) {
        case RK_F16:
            return RK_ONNX_F16;
        case RK_BF16:
            return RK_ONNX_BF16;
        case RK_U8:
            return RK_ONNX_U8;
        case RK_I64:
            return RK_ONNX_I64;
        default:
            return RK_ONNX_F32;
    }
}

/* Its place in the list; x->n: it is not there. */
static size_t find_exported_tensor(const rk_exporting *x, const char *stored, rk_row_component piece) {
    size_t i = 0;
    while (i < x->n && (x->list[i].piece != piece || strcmp(x->list[i].stored->name, stored) != 0)) i++;
    return i;
}

/* The exported tensor of a stored one, as an initializer. n_rows, n_columns: what the model takes the stored
 * one for. */
static rk_onnx_value add_tensor_initializer(rk_onnx_model *m, const char *stored, rk_row_component piece,
                                            int64_t n_rows, int64_t n_columns) {
    size_t i = find_exported_tensor(m->x, stored, piece);
    if (i < m->x->n && m->initializers[i] >= 0) return m->initializers[i];
    const rk_exported_tensor *t = i < m->x->n ? &m->x->list[i] : NULL;
    if (!t || rk_exported_tensor_rows(t) != n_rows || t->stored->n_columns != n_columns) {
        m->writer.status = rk_error(RK_BAD_DATA, "'%s' has no tensor '%s' of shape [%lld, %lld]",
                                    m->x->checkpoint, stored, (long long)n_rows, (long long)n_columns);
        return -1;
    }
    char file[RK_EXPORT_FILE_NAME_BYTES];
    int64_t dims[] = {n_rows, rk_exported_tensor_columns(t)};
    rk_export_file_name(m->x, t->file, file);
    rk_onnx_place place = {file, t->begin, rk_exported_tensor_bytes(t)};
    return m->initializers[i] =
               rk_onnx_add_external_tensor(&m->writer, t->name, onnx_type_of(rk_exported_tensor_dtype(t)),
                                           dims, (size_t)t->stored->n_dims, place);
}

static rk_onnx_value add_named_initializer(rk_onnx_model *m, rk_buffer *name, rk_row_component piece,
                                           int64_t n_rows, int64_t n_columns) {
    if (m->writer.status == RK_OK) m->writer.status = name->status;
    rk_onnx_value value =
        m->writer.status == RK_OK ? add_tensor_initializer(m, name->data, piece, n_rows, n_columns) : -1;
    rk_buffer_release(name);
    return value;
}

const rk_exported_keys *rk_onnx_table_keys(const rk_onnx_model *m, int32_t table) {
    return rk_export_get_keys(m->x, m->collection.tables[table].name);
}

rk_onnx_value rk_onnx_table_initializer(rk_onnx_model *m, int32_t table, rk_row_component piece) {
    const rk_table_config *t = &m->collection.tables[table];
    const rk_exported_keys *keys = rk_onnx_table_keys(m, table);
    rk_buffer name = {0};
    rk_buffer_printf(&name, "table/%s/rows", t->name);
    return add_named_initializer(m, &name, piece,
                                 keys ? keys->n + rk_exported_n_shared_rows(keys) : t->n_rows, t->dim);
}

rk_onnx_value rk_onnx_keys_initializer(rk_onnx_model *m, const rk_exported_keys *keys) {
    rk_buffer name = {0};
    rk_buffer_printf(&name, "table/%s/keys", keys->table);
    return add_named_initializer(m, &name, RK_ROW_WHOLE, keys->n, 1);
}

rk_export_rows rk_onnx_table_row_format(const rk_onnx_model *m, int32_t table) {
    const rk_exported_tensor *t = RK_FIND_BY(table, m->collection.tables[table].name, m->x->list, m->x->n);
    return t ? t->rows : RK_EXPORT_ROWS_TRAINED; /* rk_onnx_table_initializer says that there is none */
}

rk_onnx_value rk_onnx_parameter_initializer(rk_onnx_model *m, const char *parameter, int64_t n_rows,
                                            int64_t n_columns) {
    rk_buffer name = {0};
    rk_buffer_printf(&name, "dense/%s", parameter);
    return add_named_initializer(m, &name, RK_ROW_WHOLE, n_rows, n_columns);
}

static void mark_values_unwritten(rk_onnx_value *values, size_t n) {
    for (size_t i = 0; i < n; i++) values[i] = -1;
}

/* Nothing of the graph is written so far. */
static void begin_onnx_graph(rk_onnx_model *m) {
    rk_onnx_writer_release(&m->writer);
    memset(m->features, 0, (size_t)(m->schema->n_features + 1) * sizeof *m->features);
    mark_values_unwritten(m->values, (size_t)rk_graph_n_values(m->model->graph));
    mark_values_unwritten(m->lookups, (size_t)m->collection.n_features);
    mark_values_unwritten(m->initializers, m->x->n);
}

static rk_status write_onnx_file(rk_onnx_model *m, const char *name) {
    rk_buffer bytes = {0};
    char *path = NULL;
    rk_status status;
    RK_GOTO(rk_onnx_write_model(&m->writer, rk_model_kind_name(m->model), &bytes));
    RK_GOTO(rk_path_join(m->x->directory, name, &path));
    RK_GOTO(rk_file_write(path, bytes.data, bytes.n_bytes));
done:
    rk_buffer_release(&bytes);
    rk_free(path);
    return status;
}

/* A task's probability, or its number where the loss is of squares: [batch]. */
static void add_task_output(rk_onnx_model *m, rk_onnx_value logits, int32_t task) {
    const rk_model_task *t = &m->model->tasks[task];
    rk_onnx_dim batch = {.name = "batch"};
    m->writer.scope = t->name;
    rk_onnx_value column = m->model->n_tasks > 1 ? rk_onnx_slice(m, logits, 1, task, task + 1) : logits,
                  axis = rk_onnx_constant_ints(&m->writer, (int64_t[]){1}, 1);
    if (t->loss == RK_LOSS_SIGMOID_CROSS_ENTROPY) column = rk_onnx_unary_node(m, "Sigmoid", column);
    rk_onnx_add_output(&m->writer, rk_onnx_binary_node(m, "Squeeze", column, axis), t->name, RK_ONNX_F32,
                       &batch, 1);
}

static rk_status write_task_model(rk_onnx_model *m) {
    begin_onnx_graph(m);
    rk_onnx_value logits = rk_onnx_graph_value(m, m->model->logits);
    for (int32_t t = 0; t < m->model->n_tasks && m->writer.status == RK_OK; t++)
        add_task_output(m, logits, t);
    return write_onnx_file(m, "model.onnx");
}

/* [batch, dim]: one of a two_tower's vectors. */
static rk_status write_tower_model(rk_onnx_model *m, const char *vector, const char *file) {
    rk_graph *graph = m->model->graph;
    rk_value value = rk_graph_find_value(graph, vector);
    rk_onnx_dim dims[] = {{.name = "batch"}, {.size = rk_graph_shape(graph, value).cols}};
    begin_onnx_graph(m);
    rk_onnx_value output = rk_onnx_graph_value(m, value);
    if (m->writer.status == RK_OK) rk_onnx_add_output(&m->writer, output, vector, RK_ONNX_F32, dims, 2);
    return write_onnx_file(m, file);
}

static bool is_lookup_selected(const rk_onnx_model *m, int32_t f) {
    const rk_export_options *o = m->x->options;
    return rk_text_is_one_of(m->collection.tables[m->collection.table_of[f]].name, o->tables, o->n_tables);
}

/* [batch, dim], of a sequence [batch, length, dim]: lookup f, by its feature's name. */
static void add_embedding_output(rk_onnx_model *m, int32_t f) {
    const rk_feature_config *feature = &m->collection.features[f];
    int64_t length = feature->max_sequence_length, dim = m->collection.tables[m->collection.table_of[f]].dim;
    rk_onnx_value value = rk_onnx_look_up_feature(m, f);
    if (length) value = rk_onnx_reshape(m, value, (int64_t[]){length, dim}, 2);
    rk_onnx_dim dims[] = {{.name = "batch"}, {.size = length ? length : dim}, {.size = dim}};
    if (m->writer.status == RK_OK)
        rk_onnx_add_output(&m->writer, value, feature->name, RK_ONNX_F32, dims, length ? 3 : 2);
}

/* What is looked up in the chosen tables, without what the model makes of it. */
static rk_status write_embedding_model(rk_onnx_model *m) {
    begin_onnx_graph(m);
    for (int32_t f = 0; f < m->collection.n_features && m->writer.status == RK_OK; f++)
        if (is_lookup_selected(m, f)) add_embedding_output(m, f);
    return write_onnx_file(m, "embeddings.onnx");
}

static rk_status write_onnx_models(rk_onnx_model *m) {
    if (m->x->options->tables) return write_embedding_model(m);
    if (!rk_model_is_two_tower(m->model)) return write_task_model(m);
    RK_TRY(write_tower_model(m, "user_vector", "user.onnx"));
    return write_tower_model(m, "item_vector", "item.onnx");
}

static rk_status build_model_graph(rk_onnx_model *m) {
    rk_model_options options;
    const rk_config *config = m->x->config;
    m->schema = rk_transforms_schema(config->transforms);
    if (rk_config_has_pairs(config)) {
        rk_pair_features pair;
        RK_TRY(rk_config_pair_features(config, m->schema, &pair));
        m->item = pair.item;
    }
    RK_TRY(rk_config_model_options(config, m->schema, false, &options));
    RK_TRY(rk_model_build_graph_only(&options, &m->model, &m->collection));
    RK_TRY(rk_model_concat_task_logits(m->model, false));
    RK_TRY(rk_graph_status(m->model->graph));
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)m->schema->n_features + 1, m->features),
                        RK_ARRAY((size_t)m->collection.n_features, m->lookups),
                        RK_ARRAY((size_t)rk_graph_n_values(m->model->graph), m->values)));
    return rk_alloc(m->x->n, sizeof *m->initializers, &m->initializers);
}

rk_status rk_export_write_onnx(const rk_exporting *x) {
    rk_onnx_model m = {.x = x};
    rk_status status = build_model_graph(&m);
    if (status == RK_OK) status = write_onnx_models(&m);
    rk_onnx_writer_release(&m.writer);
    RK_FREE_ALL(m.features, m.lookups, m.values, m.initializers);
    rk_model_free(m.model);
    rk_collection_config_release(&m.collection);
    return status;
}
