/* A model from its parts: collection, graph with its inputs wired to it, optimizers. */
#include <math.h>
#include <stdio.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "embedding/local/local_store.h"
#include "embedding/planner/planner_constraints.h"
#include "model/cuda/cuda_engine.h"
#include "model/section/graph_section.h"
#include "model/retrieval/retrieval.h"
#include "model/step/engine.h"
#include "model/step/local_batch.h"
#include "model/step/ranks.h"
#include "model/step/reducer.h"
#include "nn/graph/layers.h"
#include "embedding/local/collection.h"

/* A mistake in the run file: names the line of the model's kind. */
static rk_status model_kind_error(const rk_model_options *options, const char *message) {
    const rk_yaml *yaml = options->yaml;
    const rk_yaml_node *model = yaml ? rk_yaml_find_key(yaml->root, "model") : NULL;
    const rk_yaml_node *kind = rk_yaml_find_key(model, "kind");
    return rk_yaml_error(yaml, kind ? kind : model, "%s", message);
}

/* What the run file asks of a GPU and does not get: names the line that asks for one. */
static rk_status gpu_config_error(const rk_model_options *options, rk_status status) {
    bool is_asked_wrongly = status == RK_UNSUPPORTED || status == RK_INVALID_ARGUMENT;
    return is_asked_wrongly
               ? rk_yaml_error(options->yaml,
                               options->yaml ? rk_yaml_find_key(options->yaml->root, "device") : NULL, "%s",
                               rk_last_error())
               : status;
}

static rk_status multiple_tasks_error(const rk_model_options *options, const rk_preset *preset) {
    RK_AUTO(rk_buffer_release) rk_buffer takers = {0};
    for (int kind = 0; rk_preset_of(kind); kind++)
        if (!rk_preset_of(kind)->one_task && !rk_preset_of(kind)->pairs)
            rk_buffer_printf(&takers, "%s%s", takers.n_bytes ? ", " : "", rk_preset_of(kind)->name);
    rk_buffer_append_text(&takers, ", graph");
    rk_error(RK_CONFIG,
             "model '%s' predicts one label, but data.labels has %d\nhint: for several labels use one of %s",
             preset->name, options->schema->n_tasks, takers.status == RK_OK ? takers.data : "other kinds");
    return model_kind_error(options, rk_last_error());
}

static rk_status check_data_schema(const rk_model *model, const rk_model_options *options) {
    const rk_data_schema *schema = options->schema;
    const rk_preset *preset = model->preset;
    RK_FAIL_IF(options->max_batch < 1, RK_INVALID_ARGUMENT, "max_batch must be 1 or more, not %lld",
               (long long)options->max_batch);
    if (schema->n_tasks < 1 && !rk_model_is_two_tower(model))
        return model_kind_error(options, "a model needs a label");
    if (schema->n_features == 0 && schema->n_dense == 0)
        return model_kind_error(options, "a model needs features");
    if (!preset) return RK_OK; /* a graph's layers say what they need */
    if (preset->needs_features && schema->n_features == 0) {
        rk_error(RK_CONFIG, "model '%s' needs a categorical feature", preset->name);
        return model_kind_error(options, rk_last_error());
    }
    if (preset->one_task && schema->n_tasks > 1) {
        return multiple_tasks_error(options, preset);
    }
    return RK_OK;
}

/* For prediction: an optimizer without slots, and rows that nothing decays. */
static rk_status drop_optimizer_slots(rk_collection_config *collection) {
    for (int32_t t = 0; t < collection->n_tables; t++) {
        RK_TRY(rk_optimizer_init(&collection->optimizers[t], RK_OPTIMIZER_SGD));
        collection->l2[t] = collection->l2_full[t] = 0;
    }
    return RK_OK;
}

static const rk_table_config *table_config_of_feature(const rk_collection_config *collection,
                                                      int32_t feature) {
    return &collection->tables[collection->table_of[feature]];
}

static rk_status check_equal_dims(const rk_model_options *options, const char *kind,
                                  const rk_collection_config *collection) {
    for (int32_t f = 1; f < collection->n_vectors; f++) {
        const rk_table_config *first = table_config_of_feature(collection, 0),
                              *other = table_config_of_feature(collection, f);
        if (other->dim == first->dim) continue;
        rk_error(RK_CONFIG,
                 "model '%s' needs embeddings of one dim, but table '%s' has %d and table '%s' has %d\nhint: "
                 "give the two tables the same 'dim'",
                 kind, first->name, first->dim, other->name, other->dim);
        return model_kind_error(options, rk_last_error());
    }
    return RK_OK;
}

/* Features of one width, one behind another, are the rows of one dropout. */
static rk_status add_feature_dropout(rk_graph *graph, double rate, const rk_preset_inputs *inputs,
                                     rk_value *vectors) {
    RK_AUTOFREE rk_value *parts = NULL;
    int32_t n_parts = 0;
    RK_TRY(rk_alloc((size_t)inputs->n_features, sizeof *parts, &parts));
    for (int32_t first = 0, end; first < inputs->n_features; first = end) {
        char name[32];
        const rk_preset_feature *f = &inputs->features[first];
        for (end = first + 1; end < inputs->n_features && inputs->features[end].width == f->width; end++)
            continue;
        int32_t n = end - first, count = n * f->width;
        snprintf(name, sizeof name, "feature_dropout_%d", first);
        rk_value part = n == inputs->n_features ? *vectors : rk_slice(graph, *vectors, f->first, count);
        part = rk_dropout_rows(graph, name, rk_reshape(graph, part, n, f->width), rate);
        parts[n_parts++] = rk_reshape(graph, part, 1, count);
    }
    *vectors = rk_concat(graph, parts, n_parts);
    return RK_OK;
}

static bool is_product_feature(const rk_data_schema *schema, int32_t source) {
    return source < schema->n_features && schema->features[source].compose == RK_COMPOSE_MULTIPLY;
}

/* The product of a value's rows, element by element: Shi et al. 2019. */
static rk_value add_row_product(rk_graph *graph, rk_value looked_up, const rk_preset_feature *f,
                                int32_t dim) {
    char name[512];
    rk_value product = -1;
    for (int32_t at = 0; at < f->width; at += dim) {
        snprintf(name, sizeof name, RK_FEATURE_PREFIX "%s/row_%d", f->name, at / dim);
        rk_op_options columns = {.first = f->first + at, .count = dim};
        rk_value row = rk_graph_add_op(graph, "slice", name, &columns, &looked_up, 1);
        snprintf(name, sizeof name, RK_FEATURE_PREFIX "%s/product_%d", f->name, at / dim);
        product =
            product < 0 ? row : rk_graph_add_op(graph, "multiply", name, NULL, (rk_value[]){product, row}, 2);
    }
    return product;
}

/* What is looked up, with products in the place of the rows of multiplied features, whose places move. */
static rk_status add_feature_products(rk_graph *graph, const rk_data_schema *schema,
                                      const rk_collection_config *collection, rk_value looked_up,
                                      rk_preset_feature *features, rk_value *vectors) {
    RK_AUTOFREE rk_value *parts = NULL;
    int32_t width = 0;
    RK_TRY(rk_alloc((size_t)collection->n_vectors, sizeof *parts, &parts));
    for (int32_t i = 0; i < collection->n_vectors; i++) {
        rk_preset_feature *f = &features[i];
        int32_t dim = table_config_of_feature(collection, i)->dim;
        char name[512];
        snprintf(name, sizeof name, RK_FEATURE_PREFIX "%s/looked_up", f->name);
        rk_op_options columns = {.first = f->first, .count = f->width};
        bool multiplied = is_product_feature(schema, collection->sources[i]);
        parts[i] = multiplied ? add_row_product(graph, looked_up, f, dim)
                              : rk_graph_add_op(graph, "slice", name, &columns, &looked_up, 1);
        if (multiplied) f->width = dim;
        f->first = width;
        width += f->width;
    }
    *vectors = rk_graph_add_op(graph, "concat", rk_graph_inputs[RK_INPUT_VECTORS], NULL, parts,
                               collection->n_vectors);
    return RK_OK;
}

/* The graph's inputs, and each feature's place in them; out->features is the caller's to free. A sequence of
 * length L counts as L vectors. */
static rk_status add_graph_inputs(rk_model *model, const rk_model_options *options,
                                  const rk_collection_config *collection, rk_preset_inputs *out) {
    rk_graph *graph = model->graph;
    rk_preset_inputs inputs = {.dense = -1,
                               .vectors = -1,
                               .vector_rows = -1,
                               .linear = -1,
                               .lengths = -1,
                               .n_tasks = rk_model_n_logits(model),
                               .dtype = options->dtype};
    bool reads_lengths = rk_model_reads_input(options->model, RK_INPUT_LENGTHS);
    int64_t width = 0, n_vectors = 0, n_sequences = 0, n_multiplied = 0,
            n_linear = collection->n_features - collection->n_vectors;
    rk_preset_feature *features;
    RK_TRY(rk_alloc((size_t)collection->n_features, sizeof *model->lookups, &model->lookups));
    model->n_lookups = collection->n_features;
    RK_TRY(rk_alloc((size_t)collection->n_vectors, sizeof *features, &features));
    inputs.features = features;
    inputs.n_features = collection->n_vectors;
    *out = inputs;
    for (int32_t f = 0; f < collection->n_features; f++) {
        bool vector = f < collection->n_vectors;
        model->lookups[f] =
            (rk_model_lookup){.source = collection->sources[f],
                              .input = -1,
                              .first = vector ? (int32_t)width : f - collection->n_vectors,
                              .width = rk_collection_config_feature_width(collection, f),
                              .keys = collection->dynamic[collection->table_of[f]].max_capacity > 0};
        if (!vector) continue;
        const rk_data_schema *schema = options->schema;
        int32_t source = collection->sources[f], columns = model->lookups[f].width;
        bool composed = source < schema->n_features && schema->features[source].n_parts;
        int32_t length = composed ? 0 : collection->features[f].max_sequence_length;
        bool multiplied = is_product_feature(schema, source);
        n_multiplied += multiplied;
        features[f] = (rk_preset_feature){collection->features[f].name, (int32_t)width, columns, length,
                                          (int32_t)n_sequences};
        if (length && reads_lengths) {
            model->lookups[f].length = length;
            model->lookups[f].length_column = (int32_t)n_sequences++;
        }
        width += columns;
        n_vectors += multiplied ? 1 : columns / table_config_of_feature(collection, f)->dim;
    }
    RK_FAIL_IF(width > INT32_MAX, RK_UNSUPPORTED,
               "the features' embeddings have %lld values a sample; at most 2^31 - 1 are supported\nhint: "
               "use fewer features or a smaller embedding.dim",
               (long long)width);
    inputs.n_vectors = (int32_t)n_vectors;
    inputs.dim = collection->n_vectors ? table_config_of_feature(collection, 0)->dim : 0;
    if (model->n_dense) inputs.dense = rk_graph_add_input(graph, "dense", (rk_shape){1, model->n_dense});
    rk_value looked_up = -1;
    if (width)
        looked_up = rk_graph_add_input(graph, n_multiplied ? "looked_up" : rk_graph_inputs[RK_INPUT_VECTORS],
                                       (rk_shape){1, (int32_t)width});
    inputs.vectors = looked_up;
    if (n_multiplied)
        RK_TRY(
            add_feature_products(graph, options->schema, collection, looked_up, features, &inputs.vectors));
    rk_value vectors = inputs.vectors;
    if (options->model->feature_dropout > 0)
        RK_TRY(add_feature_dropout(graph, options->model->feature_dropout, &inputs, &inputs.vectors));
    rk_op_options rows = {.rows = inputs.n_vectors, .cols = inputs.dim};
    const char *rows_name = inputs.vectors == vectors
                                ? "vector_rows"
                                : NULL; /* which in a graph is of the vectors as they are looked up */
    if (width && rk_model_reads_input(options->model, RK_INPUT_VECTOR_ROWS))
        inputs.vector_rows = rk_graph_add_op(graph, "reshape", rows_name, &rows, &inputs.vectors, 1);
    if (n_linear) inputs.linear = rk_graph_add_input(graph, "linear", (rk_shape){1, (int32_t)n_linear});
    if (n_sequences)
        inputs.lengths = rk_graph_add_input(graph, "lengths", (rk_shape){1, (int32_t)n_sequences});
    for (int32_t f = 0; f < collection->n_features; f++)
        model->lookups[f].input = f < collection->n_vectors ? looked_up : inputs.linear;
    model->vectors = looked_up;
    model->linear = inputs.linear;
    model->dense = inputs.dense;
    model->lengths = inputs.lengths;
    *out = inputs;
    return RK_OK;
}

/* Up to the logits of the preset or the layers. */
static rk_status add_graph_nodes(rk_model *model, const rk_model_options *options,
                                 const rk_collection_config *collection) {
    rk_preset_inputs inputs = {0};
    RK_TRY(rk_graph_create(options->seed, &model->graph));
    rk_status status = add_graph_inputs(model, options, collection, &inputs);
    if (status == RK_OK && model->preset)
        model->logits = model->preset->build(model->graph, options->model, &inputs);
    else if (status == RK_OK)
        status = rk_graph_section_build(model, options, collection, &inputs);
    rk_free((void *)(size_t)inputs.features);
    return status;
}

/* A preset's complaints become the file's. */
static rk_status attribute_graph_error(const rk_model_options *options, rk_status status) {
    return status == RK_CONFIG ? model_kind_error(options, rk_last_error()) : status;
}

static rk_status finish_graph(rk_model *model, const rk_model_options *options) {
    RK_TRY(rk_model_concat_task_logits(model, options->model->task_weights == RK_TASK_WEIGHTS_UNCERTAINTY));
    model->loss->mark_outputs(model);
    rk_graph_set_step_batch(model->graph, model->max_here - model->max_batch + model->step_batch);
    rk_graph_set_micro_batches(model->graph, model->ranks->n_micro_batches,
                               rk_ranks_local_micro_batches(model->ranks));
    return attribute_graph_error(options, rk_graph_finish(model->graph, model->max_here, options->training));
}

static rk_status allocate_loss_arrays(rk_model *model) {
    RK_TRY(rk_alloc(rk_graph_n_blocks(model->graph, model->max_here) * (size_t)model->n_tasks,
                    sizeof *model->losses, &model->losses));
    return rk_alloc(rk_graph_n_micro_batches(model->graph, model->max_here) * (size_t)model->n_tasks,
                    sizeof *model->micro_batch_losses, &model->micro_batch_losses);
}

static bool is_parameter_data(rk_graph *graph, const void *data) {
    for (int32_t i = 0; i < rk_graph_n_parameters(graph); i++)
        if (rk_graph_parameter(graph, i)->value == data) return true;
    return false;
}

/* The graph's state beside its parameters. */
static rk_status find_statistics_tensors(rk_model *model) {
    RK_AUTO(rk_state_dict_release) rk_state_dict state = {0};
    RK_TRY(rk_graph_state_dict(model->graph, &state));
    RK_TRY(rk_alloc(state.n, sizeof *model->statistics, &model->statistics));
    for (size_t i = 0; i < state.n; i++) {
        if (is_parameter_data(model->graph, state.entries[i].data)) continue;
        rk_model_statistic *statistic = &model->statistics[model->n_statistics++];
        statistic->live = state.entries[i].data;
        statistic->n_bytes = rk_state_dict_entry_bytes(&state.entries[i]);
        RK_TRY(rk_alloc(statistic->n_bytes, 1, &statistic->kept));
    }
    return RK_OK;
}

/* Sums of rows' gradients follow the graph's micro-batches. */
static void set_micro_batches(rk_model *model) {
    int64_t micro_batch = rk_graph_micro_batch_size(model->graph);
    for (int32_t f = 0; f < model->n_lookups && micro_batch < model->max_here; f++)
        rk_embeddings_set_micro_batches(model->embeddings, f, (rk_micro_batches){0, micro_batch});
}

static rk_status check_sharding_constraints(const rk_model_options *options,
                                            const rk_collection_config *collection) {
    RK_AUTOFREE int32_t *constraint_of = NULL;
    RK_TRY(rk_alloc((size_t)collection->n_tables, sizeof *constraint_of, &constraint_of));
    return rk_planner_constraints_match_tables(options->constraints, options->n_constraints,
                                               collection->tables, collection->n_tables, constraint_of);
}

/* What tables do not do on a GPU yet. */
static rk_status check_device_tables(const rk_model_options *options,
                                     const rk_collection_config *collection) {
    for (int32_t t = 0; t < collection->n_tables && options->device; t++)
        if (collection->dynamic[t].storage)
            return rk_error_hint(rk_error(RK_UNSUPPORTED,
                                          "table '%s' has rows on a disk (storage.tier: ssd): not supported "
                                          "with 'device: cuda' yet",
                                          collection->tables[t].name),
                                 "use 'tier: memory', or 'device: cpu'");
    return RK_OK;
}

static rk_status resolve_collection_config(const rk_model_options *options, const rk_data_schema *schema,
                                           rk_collection_config *collection) {
    return rk_model_make_collection_config(options->model, options->embedding, options->yaml, schema,
                                           &options->dense_optimizer.optimizer, collection);
}

/* A two_tower's loss and tables; its step's batches have histories and sampled items. */
static rk_status set_up_two_tower(rk_model *model, const rk_model_options *options,
                                  rk_collection_config *collection) {
    RK_TRY(rk_retrieval_create(options, &model->retrieval));
    const rk_data_schema lookups = rk_retrieval_lookup_schema(model->retrieval);
    model->loss = &rk_retrieval_losses;
    model->n_batch_features++;
    if (options->training) model->max_here += rk_retrieval_n_negatives(model->retrieval);
    RK_TRY(resolve_collection_config(options, &lookups, collection));
    return rk_retrieval_set_sources(model->retrieval, collection);
}

/* All that follows from the run file and the data's columns: tables and nodes, without their memory. */
static rk_status build_outline(rk_model *model, const rk_model_options *options,
                               rk_collection_config *collection) {
    RK_TRY(rk_model_section_check_keys(options->model, options->yaml));
    model->preset = rk_preset_of(options->model->kind);
    model->n_dense = options->schema->n_dense;
    model->n_features = model->n_batch_features = options->schema->n_features;
    RK_TRY(check_data_schema(model, options));
    RK_TRY(rk_model_tasks_init(model, options->schema));
    RK_TRY(rk_model_is_two_tower(model) ? set_up_two_tower(model, options, collection)
                                        : resolve_collection_config(options, options->schema, collection));
    RK_TRY(check_device_tables(options, collection));
    RK_TRY(check_sharding_constraints(options, collection));
    if (rk_model_reads_input(options->model, RK_INPUT_VECTOR_ROWS))
        RK_TRY(check_equal_dims(options, rk_model_kind_name(model), collection));
    return add_graph_nodes(model, options, collection);
}

/* Updates that a lookup does not see: in one process at most the last one, but of a run over ranks whose
 * checkpoint is converted. */
static int64_t count_unseen_updates(const rk_model_options *options) {
    if (!options->training) return 0;
    bool keeps_all = options->cluster || options->converts;
    return keeps_all || options->staleness < 1 ? options->staleness : 1;
}

/* The store of the model's tables. */
static rk_status create_store(rk_model *model, const rk_model_options *options,
                              const rk_collection_config *collection) {
    if (!collection->n_features) return RK_OK;
    if (options->cluster) return rk_model_create_sharded(model, options, collection);
    rk_row_source *source = options->row_source ? *options->row_source : NULL;
    RK_TRY(rk_collection_config_create_embeddings(collection, options->seed, options->is_outline, source,
                                                  &model->embeddings));
    if (source) *options->row_source = NULL;
    set_micro_batches(model);
    return rk_local_store_create(model->embeddings, count_unseen_updates(options), &model->store);
}

static rk_status create_batch_queue(rk_model *model, const rk_model_options *options) {
    rk_model_queue *q = &model->queue;
    bool waits = options->training && options->cluster && options->staleness > 0;
    size_t n = waits ? (size_t)options->staleness + 1 : 1;
    RK_TRY(rk_alloc(n, sizeof *q->slots, &q->slots));
    q->n_slots = n;
    RK_TRY(rk_alloc((size_t)model->n_lookups, sizeof *q->next_ids, &q->next_ids));
    for (size_t i = 0; i < n; i++) RK_TRY(rk_local_batch_init(model, waits, &q->slots[i]));
    RK_TRY(rk_alloc(1, sizeof *model->inference, &model->inference));
    RK_TRY(rk_inference_init(model, model->inference));
    model->inference->own = model;
    rk_row_source *source = rk_embeddings_row_source(model->embeddings);
    if (!rk_row_source_is_remote(source)) return RK_OK;
    return source->ops->create_store(source, model->embeddings, &model->inference->store);
}

static rk_status create_training_state(rk_model *model, const rk_model_options *options) {
    RK_TRY(allocate_loss_arrays(model));
    RK_TRY(model->loss->create(model, options));
    RK_TRY(find_statistics_tensors(model));
    RK_TRY(rk_dense_optimizer_create(&options->dense_optimizer, model->graph, &model->optimizer));
    if (options->device) return RK_OK;
    if (!options->cluster) return rk_reducer_self_create(model, &model->reducer);
    return rk_reducer_ranks_create(model, options->cluster->asynchronous ? options->staleness : 0,
                                   options->cluster->dense_wire, &model->reducer);
}

static rk_status create_engine(rk_model *model, const rk_model_options *options,
                               const rk_collection_config *collection) {
    if (!options->device) return rk_cpu_engine_create(model, options, collection);
    return gpu_config_error(options, rk_cuda_engine_create(model, options->device));
}

/* Links of the rows' files are to be in the run's folder: that is better said before hours of training. */
static rk_status check_same_file_system(const char *path, const char *output, const char *table) {
    RK_TRY(rk_make_directories(path));
    if (!output || !rk_file_exists(output) ||
        rk_file_read_identity(path).device == rk_file_read_identity(output).device)
        return RK_OK;
    return rk_error_hint(
        rk_error(RK_CONFIG, "table '%s': storage.path '%s' is on another file system than '%s'", table, path,
                 output),
        "checkpoints have hard links to the files with rows: put both on one");
}

/* Where rows are that are on a disk. */
static rk_status choose_disk_storage(rk_model *model, const rk_model_options *options,
                                     rk_collection_config *collection) {
    for (int32_t t = 0; t < collection->n_tables; t++) {
        rk_dynamic_config *dynamic = &collection->dynamic[t];
        if (!dynamic->storage || !options->training || options->is_outline) continue;
        if (*dynamic->storage) {
            RK_TRY(check_same_file_system(dynamic->storage, options->output, collection->tables[t].name));
            continue;
        }
        RK_FAIL_IF(!options->output, RK_CONFIG,
                   "table '%s': storage needs a 'path', as the run has no output",
                   collection->tables[t].name);
        if (!model->rows_folder) RK_TRY(rk_path_join(options->output, "rows", &model->rows_folder));
        dynamic->storage = model->rows_folder;
    }
    return RK_OK;
}

static rk_status build_whole_model(rk_model *model, const rk_model_options *options,
                                   rk_collection_config *collection) {
    model->max_batch = model->max_here = model->step_batch = options->max_batch;
    if (options->step_batch > 0 && options->step_batch < options->max_batch)
        model->step_batch = options->step_batch;
    model->skip_not_finite = options->skip_not_finite;
    model->is_outline = options->is_outline;
    model->stale = options->training && options->staleness > 0 && !options->cluster;
    RK_TRY(build_outline(model, options, collection));
    if (!options->training) RK_TRY(drop_optimizer_slots(collection));
    for (int32_t t = 0; t < collection->n_tables; t++)
        collection->dynamic[t].n_pinned = count_unseen_updates(options);
    for (int32_t t = 0; t < collection->n_tables && options->row_dtype; t++)
        collection->tables[t].dtype =
            options->row_dtype(options->row_context, collection->tables[t].name, collection->tables[t].dtype);
    for (int32_t t = 0; t < collection->n_tables && options->rows_are_read; t++) {
        collection->tables[t].initializer = (rk_initializer){.kind = RK_INIT_ZEROS};
        collection->dynamic[t].is_read = true;
        if (options->row_source) collection->dynamic[t].storage = NULL; /* rows come as tensors */
        collection->dynamic[t].oov |= options->has_missing_rows && !collection->dynamic[t].n_cold;
    }
    RK_TRY(choose_disk_storage(model, options, collection));
    RK_TRY(rk_ranks_create(options, &model->ranks));
    RK_TRY(finish_graph(model, options));
    int64_t micro_batch = rk_graph_micro_batch_size(model->graph);
    rk_ranks_set_sample_splits(model->ranks, micro_batch, model->max_here);
    RK_TRY(create_store(model, options, collection));
    if (options->device && options->cluster)
        RK_TRY(gpu_config_error(options, rk_device_ranks_check_supported(model, options->staleness)));
    if (!rk_model_is_trainer_rank(model)) {
        rk_graph_free(model->graph); /* which was for its shapes */
        model->graph = NULL;
        return RK_OK;
    }
    if (options->cluster)
        model->max_here = micro_batch * rk_ranks_n_micro_batches(model->ranks, model->ranks->rank);
    RK_TRY(create_batch_queue(model, options));
    if (options->training) RK_TRY(create_training_state(model, options));
    return create_engine(model, options, collection);
}

static rk_status allocate_model(rk_model **out) {
    RK_TRY(rk_alloc(1, sizeof **out, out));
    **out = (rk_model){.embeddings = rk_embeddings_empty(),
                       .store = rk_store_none(),
                       .reducer = rk_reducer_none(),
                       .engine = &rk_cpu_engine,
                       .loss = &rk_task_losses,
                       .timestamp = RK_NO_TIMESTAMP};
    return RK_OK;
}

rk_status rk_model_build_graph_only(const rk_model_options *options, rk_model **out,
                                    rk_collection_config *collection) {
    RK_TRY(allocate_model(out));
    RK_TRY(build_outline(*out, options, collection));
    return attribute_graph_error(options, rk_graph_status((*out)->graph));
}

rk_status rk_model_build(const rk_model_options *options, rk_model **out) {
    rk_model *model;
    RK_AUTO(rk_collection_config_release) rk_collection_config collection = {0};
    RK_TRY(allocate_model(&model));
    rk_status status = build_whole_model(model, options, &collection);
    if (status == RK_OK)
        *out = model;
    else
        rk_model_free(model);
    return status;
}

static void release_batch_queue(rk_model *model) {
    rk_model_queue *q = &model->queue;
    for (size_t i = 0; i < q->n_slots; i++) rk_local_batch_release(model, &q->slots[i]);
    if (model->inference) rk_inference_release(model->inference);
    RK_FREE_ALL(q->slots, q->next_ids, model->inference);
}

void rk_model_free(rk_model *model) {
    if (!model) return;
    model->engine->free(model);
    model->reducer->ops->free(model->reducer);
    release_batch_queue(model);
    model->store->ops->free(model->store);
    rk_retrieval_free(model->retrieval);
    rk_dense_optimizer_free(model->optimizer);
    rk_graph_free(model->graph);
    rk_ranks_free(model->ranks);
    for (int32_t t = 0; t < model->n_tasks; t++) rk_free(model->tasks[t].name);
    for (size_t i = 0; i < model->n_statistics; i++) rk_free(model->statistics[i].kept);
    RK_FREE_ALL(model->tasks, model->lookups, model->rows_folder);
    rk_state_dict_release(&model->parameter_state);
    RK_FREE_ALL(model->parameters, model->parameter_copies, model->losses, model->micro_batch_losses,
                model->statistics, model);
}
