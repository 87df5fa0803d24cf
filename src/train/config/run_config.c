#include "train/config/run_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "base/text/text.h"
#include "data/cache/cached_transforms.h"
#include "model/presets/preset.h"

/* The root is bound section by section, so that each may stay away but data and model. */
static const rk_field sections[] = {{.key = "data"},  {.key = "embedding"}, {.key = "model"},
                                    {.key = "train"}, {.key = "cluster"},   {.key = "device"},
                                    {.key = "cuda"}};
enum { N_SECTIONS = sizeof sections / sizeof sections[0] };
static const rk_schema root_schema = {.name = "run file", .fields = sections, .n_fields = N_SECTIONS};

static rk_status check_root_keys(const rk_config *config) {
    const rk_yaml_node *root = config->yaml.root;
    if (root->kind != RK_YAML_MAPPING)
        return rk_yaml_error(
            &config->yaml, root,
            "a run file is a mapping of data, embedding, model, train, cluster, device and cuda");
    for (size_t i = 0; i < root->n_children; i++) {
        const char *key = root->children[i]->key;
        if (RK_FIND_BY(key, key, sections, N_SECTIONS)) continue;
        rk_status status = rk_yaml_error(&config->yaml, root->children[i], "unknown key in a run file");
        rk_schema_hint_key(status, &root_schema, root, key);
        return status;
    }
    for (int k = 0; k < 3; k += 2)
        if (!rk_yaml_find_key(root, sections[k].key))
            return rk_error(RK_CONFIG, "%s: the key '%s' is missing", config->yaml.path, sections[k].key);
    return RK_OK;
}

static rk_status bind_sections(rk_config *c) {
    const rk_yaml_node *root = c->yaml.root;
    RK_TRY(check_root_keys(c));
    RK_TRY(rk_schema_bind(&rk_data_schema_table, &c->yaml, rk_yaml_find_key(root, "data"), &c->data));
    RK_TRY(
        rk_schema_bind(&rk_embedding_schema, &c->yaml, rk_yaml_find_key(root, "embedding"), &c->embedding));
    RK_TRY(rk_schema_bind(&rk_model_schema, &c->yaml, rk_yaml_find_key(root, "model"), &c->model));
    RK_TRY(rk_schema_bind(&rk_train_schema, &c->yaml, rk_yaml_find_key(root, "train"), &c->train));
    RK_TRY(rk_schema_bind(&rk_cluster_schema, &c->yaml, rk_yaml_find_key(root, "cluster"), &c->cluster));
    RK_TRY(rk_schema_bind(&rk_device_schema, &c->yaml, rk_yaml_find_key(root, "device"), &c->device));
    return rk_schema_bind(&rk_cuda_schema, &c->yaml, rk_yaml_find_key(root, "cuda"), &c->cuda);
}

static bool task_is_binary(const rk_config *c, int64_t task) {
    return c->data.labels[task].loss == 0;
}

bool rk_config_has_metric(const rk_config *c, int64_t task, int metric) {
    if (metric == RK_METRIC_gauc && !c->data.group) return false;
    if (task < c->data.n_labels) return rk_metric_applies(metric, task_is_binary(c, task));
    bool any = false;
    for (int64_t t = 0; t < c->data.n_labels && c->data.n_labels > 1; t++)
        any |= rk_metric_applies(metric, task_is_binary(c, t));
    return any;
}

static rk_status find_ranking_metric(const char *name, const char *place, int *task, int *metric) {
    *task = 0;
    *metric = rk_ranking_metric_find(name);
    if (*metric >= 0) return RK_OK;
    return rk_error_hint(rk_error(RK_CONFIG, "%s: unknown ranking metric '%s'", place, name),
                         "it is recall@K, ndcg@K or hit@K");
}

bool rk_config_has_pairs(const rk_config *c) {
    const rk_preset *preset = rk_preset_of(c->model.kind);
    return preset && preset->pairs;
}

void rk_config_metric_name(const rk_config *c, int task, int metric, char *out, size_t out_bytes) {
    if (metric >= RK_METRIC_COUNT) {
        rk_ranking_metric_name(metric, out, out_bytes);
        return;
    }
    bool is_mean = task == c->data.n_labels, is_one = c->data.n_labels == 1;
    snprintf(out, out_bytes, "%s%s%s",
             is_mean  ? RK_MEAN_PREFIX
             : is_one ? ""
                      : c->data.labels[task].name,
             is_mean || is_one ? "" : "/", rk_metric_name(metric));
}

/* name [n]: of a task that there is not. */
static rk_status hint_task_name(const rk_config *c, rk_status status, const char *name, size_t n) {
    RK_AUTOFREE char *task = NULL;
    RK_TRY(rk_strndup(name, n, &task));
    const char *nearest = rk_nearest_name_of(task, c->data.labels, sizeof *c->data.labels,
                                             offsetof(rk_label_section, name), (size_t)c->data.n_labels);
    return nearest ? rk_error_hint(status, "did you mean '%s%s'?", nearest, name + n)
                   : rk_error_hint(status, "no label is called '%.*s'", (int)n, name);
}

rk_status rk_config_find_metric(const rk_config *c, const char *name, const char *place, int *task,
                                int *metric) {
    if (rk_config_has_pairs(c)) return find_ranking_metric(name, place, task, metric);
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    bool is_mean = !slash && strncmp(name, RK_MEAN_PREFIX, strlen(RK_MEAN_PREFIX)) == 0;
    if (is_mean) last += strlen(RK_MEAN_PREFIX);
    *task = slash ? -1 : is_mean ? (int)c->data.n_labels : 0;
    for (int64_t i = 0; slash && i < c->data.n_labels; i++)
        if (strlen(c->data.labels[i].name) == (size_t)(slash - name) &&
            memcmp(c->data.labels[i].name, name, (size_t)(slash - name)) == 0)
            *task = (int)i;
    *metric = rk_metric_find(last);
    if (*task >= 0 && *metric >= 0 && rk_config_has_metric(c, *task, *metric)) return RK_OK;
    const char *names[RK_METRIC_COUNT];
    size_t n = 0;
    for (int m = 0; m < RK_METRIC_COUNT; m++)
        if (rk_config_has_metric(c, *task >= 0 && *task < c->data.n_labels ? *task : 0, m))
            names[n++] = rk_metric_name(m);
    rk_status status = rk_error(RK_CONFIG, "%s: unknown metric '%s'", place, name);
    if (*task < 0) return hint_task_name(c, status, name, (size_t)(slash - name));
    if (*metric == RK_METRIC_gauc && !c->data.group)
        return rk_error_hint(status, "gauc needs 'data.group', the column to group by");
    const char *nearest = rk_nearest_name(last, names, n);
    if (nearest && is_mean && !rk_config_has_metric(c, *task, rk_metric_find(nearest))) last = name;
    if (nearest) return rk_error_hint(status, "did you mean '%.*s%s'?", (int)(last - name), name, nearest);
    char list[256] = "";
    for (size_t i = 0; i < n; i++) {
        if (i) strcat(list, ", ");
        strcat(list, names[i]);
    }
    return rk_error_hint(status, "it is one of %s", list);
}

static rk_status find_metric_of_key(const rk_config *c, const char *name, const char *key, int line,
                                    int *task, int *metric) {
    char place[1100];
    snprintf(place, sizeof place, "%s: key '%s'", rk_yaml_location_of(&c->yaml, line).text, key);
    return rk_config_find_metric(c, name, place, task, metric);
}

/* The metric of early stopping or plateau: it must be better the larger it is, or the smaller. */
static rk_status find_watched_metric(const rk_config *c, const char *name, int line, int *task, int *metric) {
    RK_TRY(find_metric_of_key(c, name, "metric", line, task, metric));
    if (*metric != RK_METRIC_calibration) return RK_OK;
    return rk_error_hint(
        rk_error(RK_CONFIG,
                 "%s: key 'metric': 'calibration' is best at 1, so it cannot decide which model is better",
                 rk_yaml_location_of(&c->yaml, line).text),
        "use logloss, which includes calibration");
}

static rk_status resolve_metrics(rk_config *c) {
    int usual = rk_config_has_pairs(c) ? rk_ranking_metric_find("recall@20")
                : task_is_binary(c, 0) ? rk_metric_find("auc")
                                       : rk_metric_find("rmse");
    const rk_train_section *t = &c->train;
    c->watched_metric = c->plateau_metric = usual;
    c->has_valid = c->data.valid.line != 0;
    c->keeps_best = t->keep_best == 1 || (t->keep_best == 0 && c->has_valid);
    if (!c->has_valid && (t->early_stopping.line || t->plateau.line || t->keep_best == 1)) {
        int line = t->early_stopping.line ? t->early_stopping.line
                   : t->plateau.line      ? t->plateau.line
                                          : t->line;
        rk_status status = rk_error(RK_CONFIG, "%s: key '%s': needs validation data",
                                    rk_yaml_location_of(&c->yaml, line).text,
                                    t->early_stopping.line ? "early_stopping"
                                    : t->plateau.line      ? "plateau"
                                                           : "keep_best");
        return rk_error_hint(status,
                             "give data.valid a path, or a fraction of train: valid: {fraction: 0.1}");
    }
    if (t->early_stopping.metric)
        RK_TRY(find_watched_metric(c, t->early_stopping.metric, t->early_stopping.line, &c->watched_task,
                                   &c->watched_metric));
    c->plateau_task = c->watched_task;
    c->plateau_metric = c->watched_metric;
    if (t->plateau.metric)
        RK_TRY(
            find_watched_metric(c, t->plateau.metric, t->plateau.line, &c->plateau_task, &c->plateau_metric));
    int task, metric;
    const rk_yaml_node *names = rk_yaml_find_key(rk_yaml_find_key(c->yaml.root, "train"), "metrics");
    for (int64_t i = 0; i < t->n_metrics; i++)
        RK_TRY(
            find_metric_of_key(c, t->metrics[i], "metrics", names ? names->line : t->line, &task, &metric));
    return RK_OK;
}

/* Defaults that follow from other keys. */
/* Asynchronous ranks have no common moment to skip a step in. */
static rk_status check_asynchronous_ranks(const rk_config *c) {
    if (!c->cluster.asynchronous) return RK_OK;
    const rk_yaml_node *key = rk_yaml_find_key(rk_yaml_find_key(c->yaml.root, "cluster"), "asynchronous");
    if (c->train.staleness == 0)
        return rk_error_hint(
            rk_yaml_error(&c->yaml, key, "asynchronous training needs a 'train.staleness' of 1 or more"),
            "staleness is the number of batches by which updates may be late");
    if (c->train.on_not_finite == 1)
        return rk_error_hint(
            rk_yaml_error(&c->yaml, key, "asynchronous training cannot skip a step on all ranks"),
            "set 'train.on_not_finite: fail'");
    rk_dense_wire wire = rk_cluster_dense_wire(&c->cluster);
    if (rk_dense_wire_keeps_residual(wire))
        return rk_error_hint(
            rk_yaml_error(&c->yaml, key, "not supported with 'cluster.wire_dense: %s'",
                          rk_dense_wire_name(wire)),
            "what a step keeps back of dense gradients is the next one's: set 'wire_dense: bf16', or remove "
            "'asynchronous'");
    return RK_OK;
}

/* Each trainer holds its users against the items of the whole batch, of which readers send it a part. */
static rk_status check_data_loader_ranks(const rk_config *c) {
    if (!rk_config_has_pairs(c) || c->cluster.reader_ranks == 0) return RK_OK;
    const rk_yaml_node *key = rk_yaml_find_key(rk_yaml_find_key(c->yaml.root, "cluster"), "reader_ranks");
    return rk_error_hint(
        rk_yaml_error(&c->yaml, key,
                      "not supported with 'model.kind: two_tower': every trainer reads the data itself"),
        "remove 'cluster.reader_ranks'");
}

/* What a GPU does not do, before any data is read. */
static rk_status check_device_settings(rk_config *c) {
    const rk_yaml_node *root = c->yaml.root;
    RK_TRY(rk_cuda_section_resolve(&c->cuda, &c->yaml, &c->model_device));
    if (c->device.kind != RK_DEVICE_CUDA) return RK_OK;
    if (c->train.staleness)
        return rk_error_hint(
            rk_yaml_error(&c->yaml, rk_yaml_find_key(rk_yaml_find_key(root, "train"), "staleness"),
                          "not supported with 'device: cuda'"),
            "remove 'staleness'; on a GPU the next batch's ids are prepared during a step anyway");
    if (c->cluster.wire_dense > RK_WIRE_DENSE_F32)
        return rk_error_hint(
            rk_yaml_error(&c->yaml, rk_yaml_find_key(rk_yaml_find_key(root, "cluster"), "wire_dense"),
                          "bf16, int8 and powersgd are not supported with 'device: cuda'"),
            "remove 'wire_dense': GPUs exchange dense gradients in f32");
    if (c->cluster.virtual_shards > 1)
        return rk_error_hint(
            rk_yaml_error(&c->yaml, rk_yaml_find_key(rk_yaml_find_key(root, "cluster"), "virtual_shards"),
                          "not supported with 'device: cuda'"),
            "remove 'virtual_shards', or train with 'device: cpu'");
    return RK_OK;
}

/* A time to live needs times. */
static rk_status check_timestamps(const rk_config *c) {
    for (int64_t t = 0; t < c->embedding.n_tables && !c->data.timestamp; t++)
        if (c->embedding.tables[t].eviction.ttl)
            return rk_error_hint(
                rk_error(RK_CONFIG, "%s: key 'ttl': the data has no timestamps",
                         rk_yaml_location_of(&c->yaml, c->embedding.tables[t].eviction.line).text),
                "name their column in 'data.timestamp'; 'ttl_steps' counts training batches");
    return RK_OK;
}

static rk_status check_and_resolve_config(rk_config *c) {
    RK_TRY(check_timestamps(c));
    RK_TRY(check_asynchronous_ranks(c));
    RK_TRY(check_data_loader_ranks(c));
    RK_TRY(check_device_settings(c));
    RK_TRY(rk_data_section_check(&c->data, &c->yaml));
    RK_TRY(rk_model_section_check_keys(&c->model, &c->yaml));
    if (c->data.n_labels == 0 && !rk_config_has_pairs(c))
        return rk_error(RK_CONFIG, "%s: key 'data': a model needs one label or more",
                        rk_yaml_location_of(&c->yaml, c->data.line).text);
    RK_TRY(rk_cluster_section_check(&c->cluster, &c->yaml));
    RK_TRY(rk_cluster_section_constraints(&c->cluster, &c->yaml, &c->constraints));
    if (c->data.seed < 0) c->data.seed = c->train.seed;
    if (c->train.epochs == 0 && c->train.steps == 0) c->train.epochs = 1;
    if (c->train.optimizer.line)
        RK_TRY(rk_optimizer_from_config(&c->train.optimizer, &c->yaml, RK_OPTIMIZER_ADAM, &c->optimizer));
    else
        RK_TRY(rk_optimizer_init(&c->optimizer, RK_OPTIMIZER_ADAM));
    if (!c->train.output) {
        const char *slash = strrchr(c->yaml.path, '/'), *name = slash ? slash + 1 : c->yaml.path,
                   *dot = strrchr(name, '.');
        RK_AUTO(rk_buffer_release) rk_buffer output = {0};
        rk_buffer_printf(&output, "runs/%.*s", dot && dot > name ? (int)(dot - name) : (int)strlen(name),
                         name);
        RK_TRY(rk_buffer_detach(&output, &c->train.output));
    }
    if (!*c->train.output)
        return rk_error_hint(rk_error(RK_CONFIG, "%s: key 'output': is empty",
                                      rk_yaml_location_of(&c->yaml, c->train.line).text),
                             "for the working directory write '.'");
    return resolve_metrics(c);
}

rk_status rk_config_parse(const char *text, const char *name, const char *directory,
                          const char *const *overrides, size_t n_overrides, rk_config **out) {
    RK_AUTO(rk_config_auto_free) rk_config *c = NULL;
    RK_TRY(rk_alloc(1, sizeof *c, &c));
    RK_TRY(rk_strdup(text, &c->text));
    RK_TRY(rk_strdup(directory ? directory : "", &c->directory));
    RK_TRY(rk_yaml_parse(name, text, strlen(text), &c->yaml));
    for (size_t i = 0; i < n_overrides; i++) {
        RK_TRY(rk_text_list_add(&c->overrides, overrides[i]));
        RK_TRY(rk_yaml_set(&c->yaml, overrides[i]));
    }
    RK_TRY(bind_sections(c));
    RK_TRY(check_and_resolve_config(c));
    c->data.streams = &c->streams;
    *out = c;
    c = NULL;
    return RK_OK;
}

rk_status rk_config_add_stream(rk_config *c, const char *name, rk_open_stream open, void *user) {
    return rk_arrow_streams_add(&c->streams, name, open, user);
}

rk_status rk_config_copy(const rk_config *c, rk_config **out) {
    rk_config *copy;
    RK_TRY(rk_config_parse(c->text, c->yaml.path, c->directory, (const char *const *)c->overrides.texts,
                           c->overrides.n, &copy));
    copy->data.streams = c->data.streams;
    copy->given = c->given ? c->given : c->transforms;
    *out = copy;
    return RK_OK;
}

rk_status rk_config_load(const char *path, const char *const *overrides, size_t n_overrides,
                         rk_config **out) {
    RK_AUTOFREE char *text = NULL, *directory = NULL;
    size_t n_bytes;
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    RK_FAIL_IF(strlen(text) != n_bytes, RK_CONFIG, "'%s' is not YAML: it contains a NUL byte", path);
    const char *slash =
        rk_file_is_stream(path) ? NULL : strrchr(path, '/'); /* of /dev/fd/63 no file is a neighbour */
    RK_TRY(rk_strndup(path, slash ? (size_t)(slash - path) + 1 : 0, &directory));
    return rk_config_parse(text, path, directory, overrides, n_overrides, out);
}

void rk_config_free(rk_config *c) {
    if (!c) return;
    rk_interactions_unref(c->interactions);
    rk_transforms_free(c->transforms);
    rk_free(c->constraints);
    rk_plan_file_release(&c->plan);
    rk_schema_release(&rk_data_schema_table, &c->data);
    rk_schema_release(&rk_embedding_schema, &c->embedding);
    rk_schema_release(&rk_model_schema, &c->model);
    rk_schema_release(&rk_train_schema, &c->train);
    rk_schema_release(&rk_cluster_schema, &c->cluster);
    rk_schema_release(&rk_cuda_schema, &c->cuda);
    rk_yaml_release(&c->yaml);
    rk_text_list_release(&c->overrides);
    rk_arrow_streams_release(&c->streams);
    RK_FREE_ALL(c->directory, c->text, c);
}

rk_status rk_config_to_yaml(const rk_config *c, char **out) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    rk_buffer_append_text(&text, "data:\n");
    rk_schema_emit(&rk_data_schema_table, &c->data, 2, &text);
    rk_buffer_append_text(&text, "embedding:\n");
    rk_schema_emit(&rk_embedding_schema, &c->embedding, 2, &text);
    rk_buffer_append_text(&text, "model:\n");
    rk_schema_emit(&rk_model_schema, &c->model, 2, &text);
    rk_buffer_append_text(&text, "train:\n");
    rk_schema_emit(&rk_train_schema, &c->train, 2, &text);
    rk_buffer_append_text(&text, "cluster:\n");
    rk_schema_emit(&rk_cluster_schema, &c->cluster, 2, &text);
    rk_device_section_emit(&c->device, &text);
    if (c->cuda.line || c->device.kind == RK_DEVICE_CUDA) {
        rk_buffer_append_text(&text, "cuda:\n");
        rk_schema_emit(&rk_cuda_schema, &c->cuda, 2, &text);
    }
    return rk_buffer_detach(&text, out);
}

rk_status rk_config_reference(char **out) {
    static const rk_schema *const schemas[] = {&rk_data_schema_table, &rk_embedding_schema, &rk_model_schema,
                                               &rk_train_schema,      &rk_cluster_schema,   NULL,
                                               &rk_cuda_schema};
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    rk_buffer_append_text(&text, "# Every key of a run file\n\nMade by `reckon manual keys`.\n");
    for (int i = 0; i < N_SECTIONS; i++) {
        rk_buffer_printf(&text, "\n## %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                         sections[i].key);
        if (schemas[i])
            rk_schema_write_reference(schemas[i], sections[i].key, &text);
        else
            rk_device_section_document(&text);
    }
    return rk_buffer_detach(&text, out);
}

void rk_text_free(char *text) {
    rk_free(text);
}

double rk_config_timeout_s(const rk_config *c) {
    return c->cluster.timeout_s;
}

const char *rk_config_output(const rk_config *c) {
    return c->train.output;
}

rk_status rk_config_expand_patterns(rk_config *c) {
    return rk_data_section_has_patterns(&c->data) ? rk_data_section_expand(&c->data, &c->yaml, c->directory)
                                                  : RK_OK;
}

bool rk_config_has_transforms(const rk_config *c) {
    return c->given || c->transforms;
}

rk_status rk_config_transforms(rk_config *c, void (*on_stage)(void *user, const char *message), void *user,
                               const rk_transforms **out) {
    rk_fit_options options = {.directory = c->directory, .on_stage = on_stage, .user = user};
    RK_TRY(rk_config_expand_patterns(c));
    if (!rk_config_has_transforms(c))
        RK_TRY(rk_cached_transforms_fit(&c->data, &c->yaml, &options, &c->transforms));
    *out = c->given ? c->given : c->transforms;
    return RK_OK;
}

static rk_status load_sharding_plan(rk_config *c, const rk_roles *roles) {
    if (!c->plan.planned.tables) {
        RK_AUTOFREE char *path = NULL;
        RK_TRY(rk_path_join(c->directory, c->cluster.plan, &path));
        RK_TRY(rk_plan_file_load(path, &c->plan));
    }
    return rk_plan_file_check_roles(&c->plan, roles);
}

rk_dense_wire rk_config_dense_wire(const rk_config *c) {
    return c->device.kind == RK_DEVICE_CUDA ? (rk_dense_wire){.rounding = RK_SUM_F32}
                                            : rk_cluster_dense_wire(&c->cluster);
}

rk_status rk_config_planner_request(rk_config *c, int32_t n_ranks, rk_planner_request *out) {
    rk_planner_request request = {.batch_size = c->train.batch_size,
                                  .replicate_below = c->cluster.replicate_below,
                                  .wire = (rk_dtype)c->cluster.wire,
                                  .n_constraints = (int32_t)c->cluster.n_tables};
    RK_TRY(rk_cluster_section_roles(&c->cluster, &c->yaml, n_ranks, &request.roles));
    if (c->cluster.plan) {
        RK_TRY(load_sharding_plan(c, &request.roles));
        request.constraints = c->plan.constraints;
        request.n_constraints = (int32_t)c->plan.planned.n_tables;
        request.constraints_are_whole = true;
    } else {
        request.constraints = c->constraints;
    }
    *out = request;
    return RK_OK;
}
