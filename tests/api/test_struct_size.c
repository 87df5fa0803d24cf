/* Every public function that takes a struct with a struct_size reads that size. */
#include "testing.h"

#include <reckon/experimental/index.h>
#include <reckon/experimental/plan.h>
#include <reckon/experimental/predictor_index.h>
#include <reckon/experimental/profile.h>
#include <reckon/experimental/recommend.h>
#include <reckon/experimental/report.h>
#include <reckon/experimental/server.h>
#include <reckon/experimental/tune.h>
#include <reckon/reckon.h>

static rk_config *config;
static rk_predictor *predictor; /* of a run of one step in `directory` */
static char directory[] = "/tmp/reckon_struct_size_XXXXXX";

/* One function, called with options of some size. `taken` begins the message with which it fails once the
 * options were accepted; NULL: it succeeds. */
typedef struct function {
    const char *name;
    size_t size, first_size;
    const void *usual;
    rk_status (*call)(const void *options);
    const char *taken;
} function;

static rk_status comm_world(const void *options) {
    rk_comm *comm;
    rk_status status = rk_comm_world(options, &comm);
    if (status == RK_OK) rk_comm_free(comm);
    return status;
}

static rk_status convert(const void *options) {
    return rk_convert("no.csv", "no.rkb", options, NULL, NULL);
}

static rk_status trainer_create(const void *options) {
    rk_trainer *trainer;
    return rk_trainer_create(config, options, &trainer);
}

static rk_status predictor_open(const void *options) {
    rk_predictor *out;
    return rk_predictor_open("no-such-run", options, &out);
}

static rk_status session_create(const void *options) {
    rk_session *session;
    rk_status status = rk_session_create(predictor, options, &session);
    if (status == RK_OK) rk_session_free(session);
    return status;
}

static rk_status recommend(const void *options) {
    return rk_predictor_recommend(predictor, options, NULL);
}

static rk_status rerank(const void *options) {
    return rk_predictor_rerank(predictor, "no.csv", options, NULL);
}

static rk_status write_vectors(const void *options) {
    return rk_predictor_write_vectors(predictor, true, options, NULL);
}

static rk_status export_safetensors(const void *options) {
    return rk_export_safetensors("no-such-run", options, "no-such-directory");
}

static rk_status comm_from_functions(const void *functions) {
    rk_comm *comm;
    return rk_comm_from_functions(functions, NULL, &comm);
}

static rk_status plan_make(const void *options) {
    rk_plan *plan;
    return rk_plan_make(config, options, &plan);
}

static rk_status report_write(const void *options) {
    return rk_report_write(NULL, 0, options, "no.html");
}

static rk_status server_create(const void *options) {
    rk_server *server = NULL;
    rk_status status = rk_server_create("no-server.yaml", options, &server);
    rk_server_free(server);
    return status;
}

static rk_status tune_create(const void *options) {
    rk_tune *tune;
    return rk_tune_create("no.yaml", options, &tune);
}

static const float vectors[] = {1, 2, 3, 4};
static rk_index *index_of_two; /* of them */

static rk_status index_build(const void *options) {
    rk_index *index;
    rk_status status = rk_index_build(vectors, NULL, 2, 2, options, &index);
    if (status == RK_OK) rk_index_free(index);
    return status;
}

static rk_status index_open(const void *options) {
    rk_index *index;
    return rk_index_open("no-index", options, &index);
}

static rk_status index_search(const void *options) {
    int64_t id;
    return rk_index_search(index_of_two, vectors, 1, 1, options, &id, NULL);
}

static rk_status index_tune(const void *result) {
    return rk_index_tune(index_of_two, vectors, 2, 1, 2, NULL, (rk_index_recall *)(size_t)result);
}

static rk_status index_info(const void *info) {
    return rk_index_get_info(index_of_two, (rk_index_info *)(size_t)info);
}

static rk_status predictor_index(const void *options) {
    rk_index *index;
    return rk_predictor_build_index(predictor, options, &index, NULL);
}

static rk_status item_catalog_retrieve(const void *options) {
    return rk_item_catalog_retrieve(NULL, NULL, NULL, NULL, options, NULL, NULL);
}

static rk_status optimizer_validate(const void *options) {
    return rk_optimizer_validate(options);
}

static rk_status embeddings_create(const void *options) {
    rk_embeddings *embeddings;
    return rk_embeddings_create(options, &embeddings);
}

static rk_status table_create(const void *table) {
    rk_feature_config feature = RK_FEATURE_CONFIG_INIT;
    feature.name = "f", feature.table = "t";
    rk_embeddings_config c = RK_EMBEDDINGS_CONFIG_INIT;
    c.tables = table, c.n_tables = 1, c.features = &feature, c.n_features = 1;
    return embeddings_create(&c);
}

static rk_status feature_create(const void *feature) {
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    table.name = "t", table.n_rows = 3, table.dim = 2;
    rk_embeddings_config c = RK_EMBEDDINGS_CONFIG_INIT;
    c.tables = &table, c.n_tables = 1, c.features = feature, c.n_features = 1;
    return embeddings_create(&c);
}

/* A collection with a table of dynamic rows; out NULL: it is freed. */
static rk_status dynamic_collection(const rk_dynamic_options *options, rk_embeddings **out) {
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    rk_embeddings *embeddings;
    table.name = "t", table.dim = 2, table.dynamic = options;
    rk_embeddings_config c = RK_EMBEDDINGS_CONFIG_INIT;
    c.tables = &table, c.n_tables = 1;
    rk_status status = rk_embeddings_create(&c, out ? out : &embeddings);
    if (status == RK_OK && !out) rk_embeddings_free(embeddings);
    return status;
}

static rk_status dynamic_create(const void *options) {
    return dynamic_collection(options, NULL);
}

static rk_status key_totals(const void *totals) {
    rk_dynamic_options dynamic = RK_DYNAMIC_OPTIONS_INIT;
    rk_embeddings *embeddings;
    dynamic.max_capacity = 4;
    rk_status status = dynamic_collection(&dynamic, &embeddings);
    if (status != RK_OK) return status;
    status = rk_embeddings_count_keys(embeddings, "t", (rk_key_totals *)(size_t)totals);
    rk_embeddings_free(embeddings);
    return status;
}

static rk_status profile_run(const void *options) {
    return rk_profile_run(config, -1, 0, (rk_profile *)(size_t)options);
}

/* Options of `size` bytes alone in memory, so that a sanitizer sees a read beyond them. */
static void *options_of(const function *f, size_t size, char beyond) {
    char *options = malloc(size < f->size ? f->size : size);
    memset(options, 0, size < f->size ? f->size : size);
    memcpy(options, f->usual, f->size);
    if (size > f->size) options[f->size] = beyond;
    memcpy(options, &size, sizeof size);
    if (size < f->size && size >= sizeof size) options = realloc(options, size);
    return options;
}

static void accepts(const function *f, size_t size) {
    void *options = options_of(f, size, 0);
    rk_status status = f->call(options);
    if (f->taken) {
        assert_int_not_equal(status, RK_OK);
        if (strncmp(rk_last_error(), f->taken, strlen(f->taken)) != 0)
            fail_msg("%s: %s", f->name, rk_last_error());
    } else {
        OK(status);
    }
    free(options);
}

static void refuses(const function *f, size_t size, size_t memory) {
    void *options = options_of(f, memory, 0);
    memcpy(options, &size, sizeof size);
    char message[200];
    snprintf(message, sizeof message,
             "'struct_size' of %s is %zu; it must be at least %zu\nhint: set it to sizeof(%s)", f->name, size,
             f->first_size, f->name);
    FAILS(f->call(options), RK_INVALID_ARGUMENT, message);
    free(options);
}

#define FIRST(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
#define FUNCTION(type, last_field, usual, call, taken) \
    { #type, sizeof(type), FIRST(type, last_field), usual, call, taken }

static void test_every_function(void **state) {
    (void)state;
    const rk_comm_options comm = RK_COMM_OPTIONS_INIT;
    const rk_convert_options conversion = RK_CONVERT_OPTIONS_INIT;
    rk_trainer_options trainer = RK_TRAINER_OPTIONS_INIT;
    trainer.resume = trainer.overwrite = true;
    const rk_predictor_options opening = RK_PREDICTOR_OPTIONS_INIT;
    const rk_session_options session = RK_SESSION_OPTIONS_INIT;
    const rk_recommend_options recommending = RK_RECOMMEND_OPTIONS_INIT;
    const rk_rerank_options reranking = RK_RERANK_OPTIONS_INIT;
    const rk_item_search of_items = RK_ITEM_SEARCH_INIT;
    const rk_export_options export = RK_EXPORT_OPTIONS_INIT;
    const rk_comm_functions talk = RK_COMM_FUNCTIONS_INIT;
    rk_plan_options plan = RK_PLAN_OPTIONS_INIT;
    plan.cluster = "no-cluster.yaml";
    const rk_report_options report = RK_REPORT_OPTIONS_INIT;
    const rk_server_options serving = RK_SERVER_OPTIONS_INIT;
    const rk_tune_options tune = RK_TUNE_OPTIONS_INIT;
    rk_optimizer optimizer;
    OK(rk_optimizer_init(&optimizer, RK_OPTIMIZER_FTRL));
    rk_embeddings_config embeddings = RK_EMBEDDINGS_CONFIG_INIT;
    embeddings.n_tables = -1;
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    table.name = "t", table.dim = 2;
    rk_feature_config feature = RK_FEATURE_CONFIG_INIT;
    feature.name = "f", feature.table = "u";
    const rk_dynamic_options dynamic = RK_DYNAMIC_OPTIONS_INIT;
    const rk_key_totals totals = RK_KEY_TOTALS_INIT;
    const rk_profile profile = RK_PROFILE_INIT;
    const rk_index_options index = RK_INDEX_OPTIONS_INIT;
    const rk_index_open_options index_file = RK_INDEX_OPEN_OPTIONS_INIT;
    const rk_index_search_options searching = RK_INDEX_SEARCH_OPTIONS_INIT;
    const rk_index_recall recall = RK_INDEX_RECALL_INIT;
    const rk_index_info info = RK_INDEX_INFO_INIT;
    const rk_predictor_index_options indexing = RK_PREDICTOR_INDEX_OPTIONS_INIT;
    OK(rk_index_build(vectors, NULL, 2, 2, NULL, &index_of_two));
    const function functions[] = {
        FUNCTION(rk_comm_options, timeout_s, &comm, comm_world, NULL),
        FUNCTION(rk_convert_options, user, &conversion, convert, "'no.csv'"),
        FUNCTION(rk_trainer_options, overwrite, &trainer, trainer_create,
                 "'resume' and 'overwrite' cannot both be set"),
        FUNCTION(rk_session_options, pool, &session, session_create, NULL),
        FUNCTION(rk_recommend_options, output, &recommending, recommend,
                 "the model scores rows that it is given"),
        FUNCTION(rk_recommend_options, output, &recommending, write_vectors, "only a two_tower has vectors"),
        FUNCTION(rk_rerank_options, output, &reranking, rerank, "nothing says which candidates belong"),
        FUNCTION(rk_item_search, n_only, &of_items, item_catalog_retrieve, "k must be 1 or more"),
        FUNCTION(rk_export_options, license, &export, export_safetensors, "there is no directory"),
        FUNCTION(rk_comm_functions, abort, &talk, comm_from_functions, "rk_comm_functions: 'size' must be"),
        FUNCTION(rk_predictor_options, comm, &opening, predictor_open, "there is no directory 'no-such-run'"),
        FUNCTION(rk_plan_options, sample_rows, &plan, plan_make, "could not open 'no-cluster.yaml'"),
        FUNCTION(rk_report_options, device, &report, report_write, "a report needs at least one run"),
        FUNCTION(rk_server_options, listen, &serving, server_create, "could not open 'no-server.yaml'"),
        FUNCTION(rk_tune_options, user, &tune, tune_create, "there is nothing to search"),
        FUNCTION(rk_optimizer, schedule, &optimizer, optimizer_validate, NULL),
        FUNCTION(rk_embeddings_config, optimizer, &embeddings, embeddings_create,
                 "the embeddings' config is"),
        FUNCTION(rk_table_config, frozen, &table, table_create, "table 't': n_rows must be 1 or more, not 0"),
        FUNCTION(rk_feature_config, weighted, &feature, feature_create, "feature 'f': there is no table 'u'"),
        FUNCTION(rk_dynamic_options, oov, &dynamic, dynamic_create,
                 "table 't': max_capacity must be 1 or more, not 0"),
        FUNCTION(rk_key_totals, n_missing, &totals, key_totals, NULL),
        FUNCTION(rk_profile, device, &profile, profile_run, "a profile needs 0 or more steps"),
        FUNCTION(rk_index_options, pool, &index, index_build, NULL),
        FUNCTION(rk_index_open_options, pool, &index_file, index_open, "could not open 'no-index'"),
        FUNCTION(rk_index_search_options, pool, &searching, index_search, NULL),
        FUNCTION(rk_index_recall, queries_per_second, &recall, index_tune, "the recall must be 0 to 1"),
        FUNCTION(rk_predictor_index_options, with_known, &indexing, predictor_index, "only a two_tower has"),
        FUNCTION(rk_index_info, tuned_queries, &info, index_info, NULL),
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const function *f = &functions[i];
        accepts(f, f->size);
        accepts(f, f->first_size);
        accepts(f, f->size + 40);
        refuses(f, 0, f->size);
        refuses(f, f->first_size - 1, f->first_size);
        refuses(f, 4097, f->size);
        refuses(f, (size_t)-1, f->size);
        /* Those write what is beyond, and read none of it. */
        if (f->call == profile_run || f->call == index_tune || f->call == index_info || f->call == key_totals)
            continue;
        void *options = options_of(f, f->size + 40, 1);
        assert_int_equal(f->call(options), RK_INVALID_ARGUMENT);
        assert_non_null(strstr(rk_last_error(), f->name));
        assert_non_null(strstr(rk_last_error(), " has fields that this library, of version "));
        free(options);
    }
    rk_index_free(index_of_two);
}

static void test_arrays_of_newer_callers(void **state) {
    (void)state;
    typedef struct newer_table {
        rk_table_config known;
        int64_t unknown[2];
    } newer_table;
    typedef struct newer_feature {
        rk_feature_config known;
        int64_t unknown;
    } newer_feature;
    newer_table tables[2] = {{.known = RK_TABLE_CONFIG_INIT}, {.known = RK_TABLE_CONFIG_INIT}};
    newer_feature features[2] = {{.known = RK_FEATURE_CONFIG_INIT}, {.known = RK_FEATURE_CONFIG_INIT}};
    for (int i = 0; i < 2; i++) {
        static const char *const names[] = {"a", "b"};
        tables[i].known.struct_size = sizeof *tables;
        tables[i].known.name = names[i], tables[i].known.n_rows = 3, tables[i].known.dim = 4 + i;
        features[i].known.struct_size = sizeof *features;
        features[i].known.name = features[i].known.table = names[i];
    }
    rk_embeddings_config c = RK_EMBEDDINGS_CONFIG_INIT;
    c.tables = &tables[0].known, c.n_tables = 2, c.features = &features[0].known, c.n_features = 2;
    rk_embeddings *embeddings;
    OK(rk_embeddings_create(&c, &embeddings));
    assert_int_equal(rk_embeddings_width(embeddings, 0), 4);
    assert_int_equal(rk_embeddings_width(embeddings, 1), 5);
    rk_embeddings_free(embeddings);
    tables[1].known.struct_size = sizeof(rk_table_config);
    assert_int_equal(rk_embeddings_create(&c, &embeddings), RK_INVALID_ARGUMENT);
    assert_non_null(strstr(rk_last_error(), "'struct_size' of rk_table_config 1 of an array is "));
}

static void test_optimizer_defaults_stay_inside(void **state) {
    (void)state;
    struct {
        rk_optimizer optimizer;
        char behind[16];
    } o;
    memset(&o, 7, sizeof o);
    OK(rk_optimizer_init(&o.optimizer, RK_OPTIMIZER_ADAM));
    assert_true(o.optimizer.struct_size == sizeof(rk_optimizer) && o.optimizer.learning_rate == 0.001);
    assert_true(o.behind[0] == 7);
    OK(rk_optimizer_init_sized(&o.optimizer, sizeof o, RK_OPTIMIZER_ADAM));
    assert_true(o.optimizer.struct_size == sizeof o && o.behind[0] == 0 && o.behind[15] == 0);
    assert_int_equal(rk_optimizer_init_sized(&o.optimizer, 8, RK_OPTIMIZER_ADAM), RK_INVALID_ARGUMENT);
    assert_true(o.optimizer.struct_size == sizeof o);
}

static int load(void **state) {
    (void)state;
    char output[100];
    const char *overrides[] = {output, "train.steps=1"};
    rk_trainer *trainer = NULL;
    if (!mkdtemp(directory)) return 1;
    snprintf(output, sizeof output, "train.output=%s/run", directory);
    rk_status status = rk_config_load(RK_SOURCE_DIR "/examples/adult.yaml", overrides, 2, &config);
    if (status == RK_OK) status = rk_trainer_create(config, NULL, &trainer);
    if (status == RK_OK) status = rk_trainer_run(trainer);
    rk_trainer_free(trainer);
    if (status == RK_OK) status = rk_predictor_open(output + strlen("train.output="), NULL, &predictor);
    return status != RK_OK;
}

static int unload(void **state) {
    (void)state;
    rk_predictor_free(predictor);
    rk_config_free(config);
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_function),
        cmocka_unit_test(test_arrays_of_newer_callers),
        cmocka_unit_test(test_optimizer_defaults_stay_inside),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
