#include "server/server_config.h"

#include <stdio.h>
#include <string.h>

#include <reckon/predictor.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/yaml/schema.h"

static const char *const policies[] = {"latest", "all", "specific"};
static const char *const places[] = {"files", "memory"};

static const char *const devices[] = {"cpu", "cuda"};

static const rk_field label_fields[] = {
    RK_FIELD_TEXT(rk_version_label, name, true, NULL, "what requests call the version"),
    RK_FIELD_I64(rk_version_label, version, RK_REQUIRED_NUMBER, 0, INT64_MAX, "its number"),
};
static const rk_schema label_schema = RK_SCHEMA("version_labels", rk_version_label, label_fields);

static const rk_field rows_fields[] = {
    RK_FIELD_ENUM(rk_rows_section, in, RK_ROWS_IN_FILES, places,
                  "files: they stay in the export's, shared by all who map them; memory: they are loaded"),
    RK_FIELD_I64(rk_rows_section, cache_bytes, 1 << 28, 1, INT64_MAX,
                 "of each version: memory for rows that were read lately"),
    RK_FIELD_F64(rk_rows_section, timeout, 1, 0.001, 3600,
                 "seconds that requests wait for their rows, until the answer is 503"),
};
static const rk_schema rows_schema = RK_SCHEMA("rows", rk_rows_section, rows_fields);

static const rk_field model_fields[] = {
    RK_FIELD_TEXT(rk_model_entry, name, true, NULL, "what requests call the model: [A-Za-z0-9_.-]+"),
    RK_FIELD_PATH(
        rk_model_entry, path, true,
        "a run's directory, whose checkpoints are its versions, an export, or a folder of these named by "
        "numbers"),
    RK_FIELD_ENUM(
        rk_model_entry, version_policy, RK_VERSIONS_LATEST, policies,
        "latest: the best checkpoint of a run, the highest numbers of a folder; all; specific: `versions`"),
    RK_FIELD_I64(rk_model_entry, num_versions, 1, 1, 64, "with latest, of a folder: how many stay in use"),
    RK_FIELD_ARRAY(I64S, rk_model_entry, versions, n_versions, 0, 9e15, "with specific: their numbers"),
    RK_FIELD_LIST(rk_model_entry, version_labels, n_version_labels, &label_schema, false,
                  "names of versions, as {name: stable, version: 42}"),
    RK_FIELD_PATH(rk_model_entry, items, false,
                  "of a two_tower: a file of items, one a line: no others are found"),
    RK_FIELD_PATH(rk_model_entry, without_items, false, "of a two_tower: a file of items that are not found"),
    RK_FIELD_PATH(
        rk_model_entry, index, false,
        "of a two_tower: a file of reckon index that finds its items; \"{version}\" in it stands for "
        "the version's number"),
    RK_FIELD_BOOL(rk_model_entry, with_known, false,
                  "of a two_tower: items that the data has of a user are found too"),
    RK_FIELD_ENUM(rk_model_entry, device, RK_SERVE_ON_CPU, devices, "where it predicts: cpu or cuda"),
    RK_FIELD_PATH(rk_model_entry, warmup, false,
                  "a file of requests, a JSON body a line, that each version answers before it takes others"),
    RK_FIELD_STRUCT(rk_model_entry, rows, &rows_schema,
                    "of exports: how their rows are read; cache_bytes and timeout are of rows in Redis"),
};
static const rk_schema model_schema = RK_SECTION_SCHEMA("models", rk_model_entry, model_fields, NULL);

static const rk_field batching_fields[] = {
    RK_FIELD_I64(rk_batching_section, max_batch_size, 512, 1, 1 << 20, "rows that requests are joined up to"),
    RK_FIELD_I64(rk_batching_section, batch_timeout_micros, 0, 0, 1000000,
                 "how long a batch waits for more; 0: only what waits already is joined"),
    RK_FIELD_I64(rk_batching_section, max_enqueued_requests, 1024, 1, 1 << 20,
                 "requests that wait; beyond them the answer is 429"),
    RK_FIELD_I64(rk_batching_section, num_batch_threads, 0, 0, 1024,
                 "threads that predict; 0: a processor each"),
};
static const rk_schema batching_schema = RK_SCHEMA("batching", rk_batching_section, batching_fields);

static const rk_field limits_fields[] = {
    RK_FIELD_I64(rk_limits_section, max_request_bytes, 4 << 20, 1024, INT32_MAX, "of a request's body"),
    RK_FIELD_I64(rk_limits_section, max_rows, 10000, 1, 1 << 30, "of a request"),
    RK_FIELD_I64(rk_limits_section, max_depth, 16, 4, 1000, "of arrays and objects in one another"),
    RK_FIELD_I64(rk_limits_section, max_connections, 1024, 1, 1 << 20, "at once"),
    RK_FIELD_I64(rk_limits_section, max_connections_per_ip, 1024, 1, 1 << 20, "at once, from one address"),
    RK_FIELD_F64(rk_limits_section, header_timeout, 5, 0.1, 3600,
                 "seconds until a request's headers are there"),
    RK_FIELD_F64(rk_limits_section, request_timeout, 30, 0.1, 3600, "seconds until a request is answered"),
    RK_FIELD_F64(rk_limits_section, idle_timeout, 60, 0.1, 86400,
                 "seconds that a connection may wait between requests"),
};
static const rk_schema limits_schema = RK_SCHEMA("limits", rk_limits_section, limits_fields);

static const rk_field tls_fields[] = {
    RK_FIELD_PATH(rk_tls_section, certificate, false,
                  "a PEM file: the server's certificate and those above it"),
    RK_FIELD_PATH(rk_tls_section, key, false, "a PEM file: its private key"),
};
static const rk_schema tls_schema = RK_SCHEMA("tls", rk_tls_section, tls_fields);

static const rk_field auth_fields[] = {
    RK_FIELD_PATH(rk_auth_section, bearer_file, false,
                  "a file with a token a line; requests must bear one of them"),
};
static const rk_schema auth_schema = RK_SCHEMA("auth", rk_auth_section, auth_fields);

static const rk_field admin_fields[] = {
    RK_FIELD_PATH(rk_admin_section, socket, false,
                  "a Unix socket, of the server's user alone: Triton's model repository API"),
};
static const rk_schema admin_schema = RK_SCHEMA("admin", rk_admin_section, admin_fields);

static const rk_field request_log_fields[] = {
    RK_FIELD_PATH(rk_request_log_section, path, false,
                  "a TFRecord file of rows and their predictions, by a record a row"),
    RK_FIELD_F64(rk_request_log_section, sampling_rate, 1, 0, 1, "part of the requests that are in it"),
    RK_FIELD_I64(rk_request_log_section, max_bytes, 1 << 30, 4096, 9e15,
                 "of a file; then it gets a number and a new one begins"),
    RK_FIELD_I64(rk_request_log_section, max_files, 0, 0, 999999,
                 "files that stay, with those that have numbers; the oldest are deleted; 0: all stay"),
};
static const rk_schema request_log_schema =
    RK_SCHEMA("request_log", rk_request_log_section, request_log_fields);

static const rk_field fields[] = {
    RK_FIELD_TEXT(rk_server_config, listen, false, "127.0.0.1:8501",
                  "address and port; port 0: any that is free"),
    RK_FIELD_LIST(rk_server_config, models, n_models, &model_schema, true, "what is served"),
    RK_FIELD_STRUCT(rk_server_config, batching, &batching_schema, "how requests are joined"),
    RK_FIELD_STRUCT(rk_server_config, limits, &limits_schema, "what is refused"),
    RK_FIELD_STRUCT(rk_server_config, tls, &tls_schema, "HTTPS, where both files are given"),
    RK_FIELD_STRUCT(rk_server_config, auth, &auth_schema, "who may ask"),
    RK_FIELD_STRUCT(rk_server_config, admin, &admin_schema, "requests by hand: load, unload, pin a version"),
    RK_FIELD_STRUCT(rk_server_config, request_log, &request_log_schema, "what was asked and answered"),
    RK_FIELD_F64(rk_server_config, reload_interval, 2, 0, 86400,
                 "seconds between looks for new versions; 0: none"),
    RK_FIELD_F64(rk_server_config, drain_delay, 1, 0, 3600,
                 "seconds after SIGTERM in which requests are still taken, while the server says that it is "
                 "not ready"),
    RK_FIELD_F64(rk_server_config, drain_timeout, 30, 0, 3600, "seconds that requests under way have to end"),
};
static const rk_schema schema = RK_SCHEMA("serve", rk_server_config, fields);

bool rk_is_model_name(const char *name, size_t n_bytes) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    size_t n = 0, points = 0;
    for (; n < n_bytes && name[n] && strchr(allowed, name[n]); n++) points += name[n] == '.';
    return n_bytes > 0 && n == n_bytes && points < n_bytes;
}

static rk_status check_models(const rk_server_config *c) {
    RK_FAIL_IF(c->n_models == 0, RK_CONFIG, "%s: key 'models': there is none to serve", c->yaml.path);
    for (int64_t m = 0; m < c->n_models; m++) {
        const rk_model_entry *e = &c->models[m];
        rk_yaml_location place = rk_yaml_location_of(&c->yaml, e->line);
        RK_FAIL_IF(!rk_is_model_name(e->name, strlen(e->name)), RK_CONFIG,
                   "%s: key 'models[].name': '%s' has other characters than [A-Za-z0-9_.-]", place.text,
                   e->name);
        RK_FAIL_IF((e->version_policy == RK_VERSIONS_SPECIFIC) != (e->n_versions > 0), RK_CONFIG,
                   "%s: key 'models[].versions': goes with 'version_policy: specific', and only with it",
                   place.text);
        for (int64_t other = 0; other < m; other++)
            RK_FAIL_IF(strcmp(e->name, c->models[other].name) == 0, RK_CONFIG,
                       "%s: key 'models[].name': '%s' is there twice", place.text, e->name);
    }
    return RK_OK;
}

static rk_status check_server_config(const rk_server_config *c) {
    RK_TRY(check_models(c));
    RK_FAIL_IF(c->auth.bearer_file && !*c->auth.bearer_file, RK_CONFIG,
               "%s: key 'auth.bearer_file': is empty", c->yaml.path);
    RK_FAIL_IF(c->admin.socket && !*c->admin.socket, RK_CONFIG, "%s: key 'admin.socket': is empty",
               c->yaml.path);
    RK_FAIL_IF(c->request_log.path && !*c->request_log.path, RK_CONFIG,
               "%s: key 'request_log.path': is empty", c->yaml.path);
    RK_FAIL_IF(!c->tls.certificate != !c->tls.key, RK_CONFIG,
               "%s: key 'tls': needs both 'certificate' and 'key'", c->yaml.path);
    return RK_OK;
}

/* A relative path of the file is one below the file's folder. */
static rk_status resolve_path_beside_file(const char *file, char **path) {
    if (!*path || **path == '/') return RK_OK;
    const char *slash = strrchr(file, '/');
    if (!slash) return RK_OK;
    RK_AUTOFREE char *folder = NULL;
    char *joined;
    RK_TRY(rk_strndup(file, (size_t)(slash - file), &folder));
    RK_TRY(rk_path_join(folder, *path, &joined));
    rk_free(*path);
    *path = joined;
    return RK_OK;
}

static rk_status resolve_paths(const char *file, rk_server_config *c) {
    for (int64_t m = 0; m < c->n_models; m++) {
        RK_TRY(resolve_path_beside_file(file, &c->models[m].path));
        RK_TRY(resolve_path_beside_file(file, &c->models[m].items));
        RK_TRY(resolve_path_beside_file(file, &c->models[m].without_items));
        RK_TRY(resolve_path_beside_file(file, &c->models[m].index));
        RK_TRY(resolve_path_beside_file(file, &c->models[m].warmup));
    }
    RK_TRY(resolve_path_beside_file(file, &c->tls.certificate));
    RK_TRY(resolve_path_beside_file(file, &c->tls.key));
    RK_TRY(resolve_path_beside_file(file, &c->admin.socket));
    RK_TRY(resolve_path_beside_file(file, &c->request_log.path));
    return resolve_path_beside_file(file, &c->auth.bearer_file);
}

static rk_status replace_text_copy(const char *by, size_t n_bytes, char **text) {
    char *made;
    RK_TRY(rk_strndup(by, n_bytes, &made));
    rk_free(*text);
    *text = made;
    return RK_OK;
}

static rk_status load_config_file(const char *path, rk_server_config *c) {
    RK_AUTOFREE char *text = NULL;
    size_t n_bytes;
    rk_yaml yaml;
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    RK_TRY(rk_yaml_parse(path, text, n_bytes, &yaml));
    rk_status status = rk_schema_bind(&schema, &yaml, yaml.root, c);
    c->yaml = yaml;
    RK_TRY(status);
    RK_TRY(check_server_config(c));
    return resolve_paths(path, c);
}

/* One model, whose name is the given one, or the run's last. */
static rk_status load_single_model(const char *path, const char *name, rk_server_config *c) {
    static const char text[] = "models: [{name: default, path: .}]";
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    rk_yaml yaml;
    RK_TRY(rk_yaml_parse(path, text, strlen(text), &yaml));
    rk_status status = rk_schema_bind(&schema, &yaml, yaml.root, c);
    c->yaml = yaml;
    RK_TRY(status);
    RK_TRY(replace_text_copy(path, strlen(path), &c->models[0].path));
    RK_FAIL_IF(name && !rk_is_model_name(name, strlen(name)), RK_CONFIG,
               "a model's name '%s' has other characters than [A-Za-z0-9_.-]", name);
    if (name) return replace_text_copy(name, strlen(name), &c->models[0].name);
    if (!rk_is_model_name(path + begin, end - begin)) return RK_OK;
    return replace_text_copy(path + begin, end - begin, &c->models[0].name);
}

bool rk_is_server_config_file(const char *path) {
    return rk_has_ending(path, ".yaml") || rk_has_ending(path, ".yml");
}

rk_status rk_server_config_load(const char *path, const char *name, rk_server_config *out) {
    bool is_file = rk_is_server_config_file(path);
    RK_FAIL_IF(name && is_file, RK_INVALID_ARGUMENT,
               "'%s' names its models itself\nhint: a name goes with a run alone", path);
    *out = (rk_server_config){0};
    rk_status status = is_file ? load_config_file(path, out) : load_single_model(path, name, out);
    if (status != RK_OK) rk_server_config_release(out);
    return status;
}

void rk_server_config_release(rk_server_config *c) {
    rk_yaml yaml = c->yaml;
    rk_schema_release(&schema, c);
    rk_yaml_release(&yaml);
    *c = (rk_server_config){0};
}
