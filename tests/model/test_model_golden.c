/* Whole models against PyTorch: five steps of SGD, Adagrad and Adam of every file in tests/golden/models
 * (make_models.py there writes them). */
#include "fixture.h"

#include <math.h>

#include "base/file/file.h"
#include "model/model_internal.h"

enum { MAX_ENTRIES = 600, N_STEPS = 5 };

typedef struct golden {
    char *text, *config, *features; /* the last two point into text */
    struct entry {
        char *name;
        int64_t n;
        double *values;
    } entries[MAX_ENTRIES];
    int n;
} golden;

static void golden_open(golden *g, const char *path) {
    size_t n_bytes;
    *g = (golden){0};
    OK(rk_file_read(path, &g->text, &n_bytes));
    for (char *line = g->text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        char *at = strchr(line, ' ');
        *at++ = 0;
        if (strcmp(line, "config") == 0) {
            g->config = at;
        } else if (strcmp(line, "features") == 0) {
            g->features = at;
        } else {
            assert_true(g->n < MAX_ENTRIES);
            struct entry *entry = &g->entries[g->n++];
            entry->name = line;
            entry->n = strtol(at, &at, 10);
            OK(rk_alloc((size_t)entry->n, sizeof(double), &entry->values));
            for (int64_t i = 0; i < entry->n; i++) entry->values[i] = strtod(at, &at);
        }
    }
}

static void golden_release(golden *g) {
    for (int i = 0; i < g->n; i++) rk_free(g->entries[i].values);
    rk_free(g->text);
}

static const struct entry *find(const golden *g, const char *prefix, const char *name) {
    char whole[1024];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->entries[i].name, whole) == 0) return &g->entries[i];
    return NULL;
}

static const double *values_of(const golden *g, const char *prefix, const char *name, int64_t n) {
    const struct entry *entry = find(g, prefix, name);
    if (!entry || entry->n != n)
        fail_msg("'%s%s' with %lld values is not in the file", prefix, name, (long long)n);
    return entry->values;
}

static float *as_floats(const struct entry *entry) {
    float *out = NULL;
    if (!entry) return NULL;
    OK(rk_alloc((size_t)entry->n, sizeof *out, &out));
    for (int64_t i = 0; i < entry->n; i++) out[i] = (float)entry->values[i];
    return out;
}

static int64_t *as_integers(const struct entry *entry) {
    int64_t *out = NULL;
    if (!entry) return NULL;
    OK(rk_alloc((size_t)entry->n, sizeof *out, &out));
    for (int64_t i = 0; i < entry->n; i++) out[i] = (int64_t)entry->values[i];
    return out;
}

/* The file's batch i; everything in it is allocated. */
static void batch_init(const golden *g, int i, const rk_data_schema *schema, rk_batch *out) {
    char prefix[64];
    snprintf(prefix, sizeof prefix, "batch%d/", i);
    rk_ids *features;
    OK(rk_alloc((size_t)schema->n_features, sizeof *features, &features));
    for (int32_t f = 0; f < schema->n_features; f++) {
        char feature[512];
        snprintf(feature, sizeof feature, "%s%s", prefix, schema->features[f].name);
        features[f] =
            (rk_ids){as_integers(find(g, feature, "/offsets")), 1, as_integers(find(g, feature, "/ids")),
                     as_floats(find(g, feature, "/weights"))};
    }
    *out = (rk_batch){.n = find(g, prefix, "labels")->n / schema->n_tasks,
                      .n_dense = schema->n_dense,
                      .n_features = schema->n_features,
                      .n_tasks = schema->n_tasks,
                      .dense = as_floats(find(g, prefix, "dense")),
                      .features = features,
                      .labels = as_floats(find(g, prefix, "labels")),
                      .sample_weights = as_floats(find(g, prefix, "sample_weights"))};
}

static void batch_release(rk_batch *batch) {
    for (int32_t f = 0; f < batch->n_features; f++) {
        rk_free((void *)batch->features[f].offsets);
        rk_free((void *)batch->features[f].ids);
        rk_free((void *)batch->features[f].weights);
    }
    rk_free((void *)batch->features);
    rk_free((void *)batch->dense);
    rk_free((void *)batch->labels);
    rk_free((void *)batch->sample_weights);
}

static void assert_near(const char *file, const char *what, const char *name, int64_t i, double got,
                        double wanted, double tolerance) {
    if (!(fabs(got - wanted) <= tolerance * (1 + fabs(wanted))))
        fail_msg("%s: %s%s[%lld] is %.9g, not %.9g", file, what, name, (long long)i, got, wanted);
}

/* What the file says of its tasks beyond the usual two: labels that may be absent, a third task that is a
 * product, a weight that decays. */
static void set_tasks(const golden *g, fixture *f) {
    static char click[] = "click", then[] = "bought_if_clicked", bought[] = "bought";
    static char *factors[] = {click, then};
    if (!find(g, "tasks", "")) return;
    const double *said = values_of(g, "tasks", "", 3);
    if (said[1] != 0) {
        f->tasks[1] = (rk_label_section){.name = then, .weight = 0};
        f->tasks[2] =
            (rk_label_section){.name = bought, .weight = 0.7, .product_of = factors, .n_product_of = 2};
    }
    f->tasks[f->schema.n_tasks - 1].optional = said[0] != 0;
    for (int32_t t = 0; t < f->schema.n_tasks; t++) f->tasks[t].weight_decay_rate = said[2];
}

#ifndef GOLDEN_DEVICE
#define GOLDEN_DEVICE NULL
#endif
static const rk_model_device *const golden_device = GOLDEN_DEVICE; /* tests/cuda has one */

static void setup(const golden *g, fixture *f, rk_optimizer_kind kind) {
    static const double rates[] = {
        [RK_OPTIMIZER_SGD] = 0.1, [RK_OPTIMIZER_ADAGRAD] = 0.05, [RK_OPTIMIZER_ADAM] = 0.01};
    rk_data_feature_info features[MAX_FEATURES];
    static char names[MAX_FEATURES][256];
    int32_t n = 0;
    for (const char *at = g->features; *at; n++) {
        size_t length = strcspn(at, " ");
        snprintf(names[n], sizeof names[n], "%.*s", (int)length, at);
        char weights[512];
        snprintf(weights, sizeof weights, "batch0/%.200s/weights", names[n]);
        features[n] = (rk_data_feature_info){
            .name = names[n], .cardinality = 1, .weighted = find(g, weights, "") != NULL};
        at += length + (at[length] == ' ');
    }
    fixture_init(f, g->config, features, n, (int32_t)values_of(g, "n_dense", "", 1)[0],
                 (int32_t)values_of(g, "n_tasks", "", 1)[0]);
    set_tasks(g, f);
    use_optimizer(f, kind, rates[kind]);
    rk_optimizer *optimizer = &f->options.dense_optimizer.optimizer;
    optimizer->initial_accumulator = 0.1;
    optimizer->epsilon = kind == RK_OPTIMIZER_ADAM ? 1e-7 : 1e-8;
    f->options.max_batch = 8;
    f->options.device = golden_device;
}

/* Visits every parameter: rows of tables ("table/<name>") and dense ones ("<node>/<parameter>"). */
typedef void visitor(void *context, const char *name, float *values, int64_t n);
static void each_parameter(rk_model *model, visitor *visit, void *context) {
    rk_state_dict state = {0};
    OK(rk_model_state_dict(model, &state));
    for (size_t i = 0; i < state.n; i++) {
        char name[256];
        snprintf(name, sizeof name, "%s", state.entries[i].name);
        size_t length = strlen(name);
        bool rows = strncmp(name, "table/", 6) == 0 && length > 5 && strcmp(name + length - 5, "/rows") == 0;
        if (rows) name[length - 5] = 0;
        bool dense = false;
        for (int32_t p = 0; p < rk_graph_n_parameters(model->graph); p++)
            dense |= rk_graph_parameter(model->graph, p)->value == state.entries[i].data;
        if (rows || dense)
            visit(context, rows ? name : name + strlen("dense/"), state.entries[i].data,
                  (int64_t)(rk_state_dict_entry_bytes(&state.entries[i]) / 4));
    }
    rk_state_dict_release(&state);
}

static void set_initial(void *context, const char *name, float *values, int64_t n) {
    const double *initial = values_of(context, "initial/", name, n);
    for (int64_t i = 0; i < n; i++) values[i] = (float)initial[i];
}

typedef struct comparison {
    const golden *golden;
    const char *file, *prefix;
    int n_compared;
} comparison;

static void compare(void *context, const char *name, float *values, int64_t n) {
    comparison *c = context;
    const double *wanted = values_of(c->golden, c->prefix, name, n);
    c->n_compared++;
    /* A bias before batch norm has no gradient but rounding noise, which Adam and Adagrad blow up; it changes
     * nothing that the model says. */
    if (strstr(c->file, "batch_norm") && strncmp(name, "deep/", 5) == 0 && strstr(name, "/bias")) return;
    if (strstr(c->file, "softmax") && strncmp(name, "attention_", 10) == 0 && strstr(name, "/bias"))
        return; /* likewise one that shifts a history's weights alike */
    for (int64_t i = 0; i < n; i++) assert_near(c->file, c->prefix, name, i, values[i], wanted[i], 1e-5);
}

static void compare_gradients(const golden *g, const char *file, rk_model *model) {
    for (int32_t p = 0; p < rk_graph_n_parameters(model->graph); p++) {
        const rk_parameter *parameter = rk_graph_parameter(model->graph, p);
        const double *wanted = values_of(g, "gradient/", parameter->name, parameter->rows * parameter->cols);
        for (int64_t i = 0; i < parameter->rows * parameter->cols; i++)
            assert_near(file, "gradient/", parameter->name, i, (double)parameter->gradient[i], wanted[i],
                        1e-5);
    }
}

static void train_case(const golden *g, const char *file, rk_optimizer_kind kind) {
    fixture f;
    rk_model *model;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "%s/", rk_optimizer_name(kind));
    setup(g, &f, kind);
    for (int32_t i = 0; i < f.schema.n_features; i++) /* the id spaces are the tables' */
        for (int64_t t = 0; t < f.embedding.n_tables; t++)
            if (strcmp(f.embedding.features[i].table, f.embedding.tables[t].name) == 0)
                f.features[i].cardinality = f.embedding.tables[t].rows;
    OK(rk_model_build(&f.options, &model));
    each_parameter(model, set_initial, (void *)g);
    OK(rk_model_reload(model));
    const double *losses = values_of(g, prefix, "losses", N_STEPS);
    for (int i = 0; i < N_STEPS; i++) {
        rk_batch batch;
        double loss;
        batch_init(g, i, &f.schema, &batch);
        OK(rk_model_train(model, &batch, &loss));
        assert_near(file, prefix, "losses", i, loss, losses[i], 1e-5);
        if (i == 0 && kind == RK_OPTIMIZER_SGD && !golden_device) compare_gradients(g, file, model);
        batch_release(&batch);
    }
    assert_int_equal(rk_model_n_steps(model), N_STEPS);
    comparison c = {g, file, prefix, 0};
    each_parameter(model, compare, &c);
    int n_wanted = 0;
    for (int i = 0; i < g->n; i++) n_wanted += strncmp(g->entries[i].name, "initial/", 8) == 0;
    assert_int_equal(c.n_compared, n_wanted);
    if (kind == RK_OPTIMIZER_SGD) {
        rk_batch batch;
        float predictions[64];
        batch_init(g, 0, &f.schema, &batch);
        OK(rk_model_predict(model, &batch, predictions));
        const double *wanted = values_of(g, "predictions", "", batch.n * batch.n_tasks);
        for (int64_t i = 0; i < batch.n * batch.n_tasks; i++)
            assert_near(file, "predictions", "", i, (double)predictions[i], wanted[i], 1e-5);
        batch_release(&batch);
    }
    rk_model_free(model);
    fixture_release(&f);
}

static void test_all(void **state) {
    (void)state;
    rk_text_list names = {0};
    OK(rk_list_directory(RK_SOURCE_DIR "/tests/golden/models", &names));
    assert_true(names.n >= 30);
    for (size_t i = 0; i < names.n; i++) {
        golden g;
        char path[512];
        snprintf(path, sizeof path, "%s/tests/golden/models/%s", RK_SOURCE_DIR, names.texts[i]);
        golden_open(&g, path);
        train_case(&g, names.texts[i], RK_OPTIMIZER_SGD);
        train_case(&g, names.texts[i], RK_OPTIMIZER_ADAGRAD);
        train_case(&g, names.texts[i], RK_OPTIMIZER_ADAM);
        golden_release(&g);
    }
    rk_text_list_release(&names);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
