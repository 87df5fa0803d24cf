/* Building models: what is refused and how it is said, what inspect shows, memory that runs out. */
#include "fixture.h"

#include <math.h>

#include "embedding/local/collection.h"
#include "model/model_internal.h"

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int32_t n_features, n_dense, n_tasks;
        const char *message;
    } cases[] = {
        {"model: fm\nembedding: {dim: 4, tables: [{name: item, dim: 8}]}", 4, 3, 1,
         "run.yaml:1: key 'model': model 'fm' needs embeddings of one dim, but table 'user' has 4 and table "
         "'item' has 8\n"
         "hint: give the two tables the same 'dim'"},
        {"embedding: {dim: 4}\nmodel:\n  deep: [4]\n  kind: deepfm", 4, 3, 2,
         "run.yaml:4: key 'kind': model 'deepfm' predicts one label, but data.labels has 2\nhint: for "
         "several labels use one of dnn, dlrm, dcn, dcn_v2, autoint, final_mlp, masknet, din, shared_bottom, "
         "mmoe, ple, graph"},
        {"model: wide_deep\nembedding: {dim: 4}", 0, 3, 1,
         "run.yaml:1: key 'model': model 'wide_deep' needs a categorical feature"},
        {"model: dnn\nembedding: {dim: 4}", 0, 0, 1, "run.yaml:1: key 'model': a model needs features"},
        {"model: dnn\nembedding: {dim: 4}", 1, 0, 0, "run.yaml:1: key 'model': a model needs a label"},
        {"model: {kind: dlrm, bottom: [8, 5]}\nembedding: {dim: 4}", 2, 3, 1,
         "run.yaml:1: key 'kind': the last layer of 'bottom' has 5 units, but the embeddings' dim is 4\n"
         "hint: write 0 for the last layer: it stands for the dim"},
        {"model: dlrm\nembedding: {dim: 4}", 1, 0, 1,
         "run.yaml:1: key 'model': model 'dlrm' needs two vectors or more to interact: features, or a "
         "feature and dense input"},
        {"model: {kind: mmoe, experts: 64, expert_units: [65536]}\nembedding: {dim: 4}", 1, 0, 2,
         "run.yaml:1: key 'kind': 64 experts of 65536 units have 4194304 units together in their first "
         "layer; at most 1048576 are supported"},
        {"model: {kind: final_mlp, deep: [8, 4], deep2: [6], fusion_heads: 4}\nembedding: {dim: 4}", 1, 0, 1,
         "run.yaml:1: key 'kind': fusion_heads (4) must divide the units of the streams' last layers (4 and "
         "6)\nhint: change fusion_heads, or the last numbers of 'deep' and 'deep2'"},
        {"model: din\nembedding: {dim: 4}", 4, 0, 1,
         "run.yaml:1: key 'model': model 'din' needs 'attention'\nhint: name a target and its history: "
         "attention: [{target: item, history: clicks}]"},
        {"model: {kind: din, attention: [{target: item, history: histori}]}\nembedding: {dim: 4}", 4, 0, 1,
         "run.yaml:1: key 'kind': 'attention' names 'histori', which is not a categorical feature"},
        {"model: {kind: din, attention: [{target: item, history: history}]}\nembedding: {dim: 4}", 4, 0, 1,
         "run.yaml:1: key 'kind': the history 'history' must be a sequence\nhint: set max_sequence_length in "
         "embedding.features for the history, and not for its target"},
        {"model: {kind: din, attention: [{target: item, history: history}]}\n"
         "embedding: {dim: 4, tables: [{name: item, dim: 5}], features: [{name: history, "
         "max_sequence_length: 3}]}",
         4, 0, 1,
         "run.yaml:1: key 'kind': the target 'item' has dim 5, but its history 'history' has dim 4\n"
         "hint: look both up in one table: embedding.features: [{name: history, table: item}]"},
        {"model: {kind: final_mlp, gate_context: [usr]}\nembedding: {dim: 4}", 1, 0, 1,
         "run.yaml:1: key 'kind': a gate context names 'usr', which is not a categorical feature"},
        {"model: {kind: final_mlp, gate_context: [user], gate_context2: [tags]}\nembedding: {dim: 4}", 2, 0,
         1,
         "run.yaml:1: key 'kind': every feature is in a gate context, so the streams have no input\nhint: "
         "remove a feature from gate_context or gate_context2"},
        {"model: {kind: dnn, cross_layers: 2}\nembedding: {dim: 4}", 1, 0, 1,
         "run.yaml:1: key 'cross_layers': model 'dnn' does not use 'cross_layers'\nhint: 'cross_layers' is "
         "for dcn, dcn_v2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture f;
        rk_model *model = NULL;
        fixture_init(&f, cases[i].text, usual_features, cases[i].n_features, cases[i].n_dense,
                     cases[i].n_tasks);
        FAILS(rk_model_build(&f.options, &model), RK_CONFIG, cases[i].message);
        assert_null(model);
        fixture_release(&f);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* Dense numbers alone, features alone, one feature alone. */
static void test_few_inputs(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int32_t n_features, n_dense;
    } cases[] = {
        {"model: lr\nembedding: {dim: 4}", 0, 3},        {"model: lr\nembedding: {dim: 4}", 1, 0},
        {"model: dnn\nembedding: {dim: 4}", 0, 3},       {"model: dnn\nembedding: {dim: 4}", 1, 0},
        {"model: dcn\nembedding: {dim: 4}", 0, 3},       {"model: dcn_v2\nembedding: {dim: 4}", 0, 3},
        {"model: fm\nembedding: {dim: 4}", 2, 0},        {"model: deepfm\nembedding: {dim: 4}", 1, 0},
        {"model: wide_deep\nembedding: {dim: 4}", 1, 0}, {"model: dlrm\nembedding: {dim: 4}", 2, 0},
        {"model: dlrm\nembedding: {dim: 4}", 1, 3},      {"model: xdeepfm\nembedding: {dim: 4}", 1, 0},
        {"model: autoint\nembedding: {dim: 4}", 1, 0},   {"model: final_mlp\nembedding: {dim: 4}", 0, 3},
        {"model: masknet\nembedding: {dim: 4}", 1, 0},   {"model: final_mlp\nembedding: {dim: 4}", 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static drawn_batch b;
        fixture f;
        rk_model *model;
        double loss;
        fixture_init(&f, cases[i].text, usual_features, cases[i].n_features, cases[i].n_dense, 1);
        OK(rk_model_build(&f.options, &model));
        assert_true((rk_embeddings_n_tables(rk_model_embeddings(model)) > 0) == (cases[i].n_features > 0));
        draw_batch(&b, 1, 20, 1);
        b.batch.n_features = cases[i].n_features;
        b.batch.n_dense = cases[i].n_dense;
        OK(rk_model_train(model, &b.batch, &loss));
        assert_true(isfinite(loss));
        rk_model_scale_learning_rate(model, 0.5);
        rk_model_free(model);
        fixture_release(&f);
    }
    rk_model_free(NULL);
    assert_int_equal(rk_alloc_live(), 0);
}

/* The sum of a sample's linear rows plus the first row of `bias` is what lr says: the wiring of weights and
 * features. */
static void test_lr_adds_up(void **state) {
    (void)state;
    static drawn_batch b;
    fixture f;
    rk_model *model;
    fixture_init(&f, "model: lr\nembedding: {dim: 4}", usual_features, 2, 0, 1);
    OK(rk_model_build(&f.options, &model));
    float user[40], tags[30], predictions[20];
    for (int i = 0; i < 40; i++) user[i] = (float)i / 100;
    for (int i = 0; i < 30; i++) tags[i] = (float)-i / 50;
    OK(rk_embeddings_write_rows(rk_model_embeddings(model), "user/linear", 0, 40, user));
    OK(rk_embeddings_write_rows(rk_model_embeddings(model), "tags/linear", 0, 30, tags));
    draw_batch(&b, 2, 20, 1);
    b.batch.n_features = 2;
    b.batch.n_dense = 0;
    OK(rk_model_predict(model, &b.batch, predictions));
    for (int s = 0; s < 20; s++) {
        double logit = user[b.ids[0][s]];
        for (int64_t i = b.offsets[1][s]; i < b.offsets[1][s + 1]; i++)
            logit += (double)b.weights[i] * tags[b.ids[1][i]];
        assert_true(fabs(predictions[s] - 1 / (1 + exp(-logit))) < 1e-6);
    }
    rk_model_free(model);
    fixture_release(&f);
}

static void test_for_prediction(void **state) {
    (void)state;
    static drawn_batch b;
    for (int c = 0; c < N_USUAL_CASES; c++) {
        fixture f;
        rk_model *model, *served;
        double loss;
        float wanted[MAX_SAMPLES * MAX_TASKS], got[MAX_SAMPLES * MAX_TASKS];
        usual_init(&f, &usual_cases[c]);
        OK(rk_model_build(&f.options, &model));
        draw_batch(&b, 5, 60, usual_cases[c].n_tasks);
        for (int i = 0; i < 5; i++) OK(rk_model_train(model, &b.batch, &loss));
        f.options.training = false;
        OK(rk_model_build(&f.options, &served));
        assert_int_equal(rk_model_count_bytes(served).slots, 0);
        assert_true(rk_model_count_bytes(model).slots > 0);
        assert_int_equal(rk_model_count_bytes(served).tables, rk_model_count_bytes(model).tables);
        rk_state_dict from = {0}, to = {0};
        OK(rk_model_state_dict(model, &from));
        OK(rk_model_state_dict(served, &to));
        assert_true(to.n < from.n);
        for (size_t i = 0; i < to.n; i++) { /* every name is one of the trained model's */
            const rk_state_dict_entry *entry = rk_state_dict_find(&from, to.entries[i].name);
            assert_non_null(entry);
            assert_int_equal(rk_state_dict_entry_bytes(entry), rk_state_dict_entry_bytes(&to.entries[i]));
            memcpy(to.entries[i].data, entry->data, rk_state_dict_entry_bytes(entry));
        }
        rk_state_dict_release(&from);
        rk_state_dict_release(&to);
        OK(rk_model_predict(model, &b.batch, wanted));
        OK(rk_model_predict(served, &b.batch, got));
        assert_memory_equal(got, wanted, sizeof(float) * 60 * (size_t)usual_cases[c].n_tasks);
        FAILS(rk_model_train(served, &b.batch, &loss), RK_INVALID_ARGUMENT,
              "the model was built for prediction, not for training");
        rk_model_scale_learning_rate(served, 0.5);
        rk_model_free(model);
        rk_model_free(served);
        fixture_release(&f);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_describe(void **state) {
    (void)state;
    fixture f;
    rk_model *model;
    char *text;
    fixture_init(&f,
                 "model: {kind: deepfm, deep: [8]}\nembedding: {dim: 4, tables: [{name: tags, trainable: "
                 "false, dtype: bf16}]}",
                 usual_features, 3, 3, 1);
    OK(rk_model_build(&f.options, &model));
    OK(rk_model_describe(model, &text));
    static const char *const parts[] = {
        ("model deepfm: 3 categorical features, 3 dense numbers\n\ntasks\n  click: sigmoid_cross_entropy, "
         "weight 1\n\ntables\n"),
        "  user                  40     4  f32   adam ",
        "  tags                  30     4  bf16  frozen ",
        "  item/linear           50     1  f32   adam ",
        "\ngraph\n",
        "logits",
        "\nparameters: ",
        "\nmemory: tables ",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(text, parts[i])) fail_msg("'%s' is not in\n%s", parts[i], text);
    rk_model_bytes bytes = rk_model_count_bytes(model);
    assert_int_equal(bytes.tables, 40 * 5 * 4 + 30 * 4 * 2 + 30 * 4 + 50 * 5 * 4);
    assert_int_equal(bytes.tables + bytes.slots, rk_embeddings_bytes(rk_model_embeddings(model)));
    assert_true(bytes.arena > 0 && bytes.dense > 0);
    rk_free(text);
    rk_model_free(model);
    fixture_release(&f);
    assert_int_equal(rk_alloc_live(), 0);
}

/* An empty list means no layers, and is not the default; what is left trains, and the section reads back as
 * it is. */
static void test_no_layers(void **state) {
    (void)state;
    static drawn_batch b;
    static const struct {
        const char *model, *key, *node;
    } cases[] = {{"dnn", "deep", " deep/linear"},
                 {"wide_deep", "deep", " deep/linear"},
                 {"deepfm", "deep", " deep/linear"},
                 {"dlrm", "deep", " deep/linear"},
                 {"dcn", "deep", " deep/linear"},
                 {"dcn_v2", "deep", " deep/linear"},
                 {"xdeepfm", "deep", " deep/linear"},
                 {"xdeepfm", "cin", " cin_0"},
                 {"final_mlp", "deep", " deep/linear"},
                 {"final_mlp", "deep2", " deep2/linear"},
                 {"masknet", "deep", " deep/linear"},
                 {"shared_bottom", "deep", " deep/linear"},
                 {"shared_bottom", "towers", " tower"},
                 {"mmoe", "towers", " tower"},
                 {"ple", "towers", " tower"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int none = 0; none < 2; none++) {
            char text[128], *described;
            double loss;
            fixture f;
            rk_model *model;
            rk_buffer again = {0};
            snprintf(text, sizeof text,
                     none ? "model: {kind: %s, %s: []}\nembedding: {dim: 4}"
                          : "model: {kind: %s}\nembedding: {dim: 4}",
                     cases[i].model, cases[i].key);
            fixture_init(&f, text, usual_features, N_USUAL, 3, 1);
            draw_batch(&b, 1, 20, 1);
            OK(rk_model_build(&f.options, &model));
            OK(rk_model_describe(model, &described));
            if ((strstr(described, cases[i].node) == NULL) != none) fail_msg("%s:\n%s", text, described);
            OK(rk_model_train(model, &b.batch, &loss));
            snprintf(text, sizeof text, "%s: []", cases[i].key);
            rk_schema_emit(&rk_model_schema, &f.model, 0, &again);
            assert_true((strstr(again.data, text) != NULL) == none);
            rk_buffer_release(&again);
            rk_free(described);
            rk_model_free(model);
            fixture_release(&f);
        }
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* Nothing to unlearn: whatever the model, a first step's loss is near to that of 0.5 for every sample. */
static void test_first_loss(void **state) {
    (void)state;
    static drawn_batch b;
    static const char *const kinds[] = {"lr", "fm", "wide_deep", "deepfm", "xdeepfm"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        fixture f;
        rk_model *model;
        char text[128];
        double loss;
        snprintf(text, sizeof text, "model: %s\nembedding: {dim: 4}", kinds[i]);
        fixture_init(&f, text, usual_features, N_USUAL, i == 2 ? 0 : 3,
                     1); /* what an MLP makes of dense numbers is its own */
        draw_batch(&b, 1, 64, 1);
        b.batch.n_dense = f.schema.n_dense;
        OK(rk_model_build(&f.options, &model));
        rk_state_dict all = {0};
        OK(rk_model_state_dict(model, &all));
        for (size_t k = 0; k < all.n; k++)
            if (strstr(all.entries[k].name, "linear_dense/weight") ||
                strstr(all.entries[k].name, "/linear/rows"))
                assert_true(*(const float *)all.entries[k].data == 0);
        rk_state_dict_release(&all);
        OK(rk_model_train(model, &b.batch, &loss));
        if (i < 3 && !(fabs(loss - 0.6931) < 0.05)) fail_msg("%s: %g", kinds[i], loss);
        rk_model_free(model);
        fixture_release(&f);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* It is described as the model that it is of, and no table is too large for that. */
static void test_outline(void **state) {
    (void)state;
    static drawn_batch b;
    for (int stale = 0; stale < 2; stale++) {
        fixture f;
        rk_model *models[2];
        char *texts[2];
        double loss;
        fixture_init(&f, "model: {kind: deepfm, deep: [8]}\nembedding: {dim: 4, dtype: bf16}", usual_features,
                     3, 3, 1);
        f.options.staleness = stale;
        draw_batch(&b, 1, 20, 1);
        for (int i = 0; i < 2; i++) {
            f.options.is_outline = i;
            OK(rk_model_build(&f.options, &models[i]));
            OK(rk_model_describe(models[i], &texts[i]));
        }
        assert_string_equal(texts[0], texts[1]);
        assert_true(rk_model_peak_bytes(models[0], &b.batch) == rk_model_peak_bytes(models[1], &b.batch));
        FAILS(rk_model_train(models[1], &b.batch, &loss), RK_INVALID_ARGUMENT,
              "the model is an outline without rows, which can only be described\nhint: create it with "
              "rk_model_create");
        assert_null(rk_model_embeddings(models[1]));
        for (int i = 0; i < 2; i++) {
            rk_free(texts[i]);
            rk_model_free(models[i]);
        }
        fixture_release(&f);
    }
    static const rk_data_feature_info huge = {.name = "user", .cardinality = (int64_t)1 << 46};
    fixture f;
    rk_model *model;
    fixture_init(&f, "model: fm\nembedding: {dim: 64}", &huge, 1, 0, 1);
    f.options.is_outline = true;
    OK(rk_model_build(&f.options, &model));
    assert_true(rk_model_count_bytes(model).tables == ((uint64_t)1 << 46) * 65 * 4);
    rk_model_free(model);
    fixture_release(&f);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Build, one step, predict, describe. A step that runs out of memory changes nothing. */
static rk_status everything(const fixture *f, const rk_batch *batch) {
    rk_model *model = NULL;
    char *text = NULL;
    double loss;
    float predictions[MAX_SAMPLES * MAX_TASKS];
    rk_status status = rk_model_build(&f->options, &model);
    if (status == RK_OK) {
        status = rk_model_train(model, batch, &loss);
        assert_int_equal(rk_model_n_steps(model), status == RK_OK);
    }
    if (status == RK_OK) {
        model->max_batch = 16; /* in pieces */
        status = rk_model_predict(model, batch, predictions);
    }
    if (status == RK_OK) status = rk_model_describe(model, &text);
    rk_free(text);
    rk_model_free(model);
    return status;
}

static void test_no_memory(void **state) {
    (void)state;
    static drawn_batch b;
    static const int chosen[] = {3, 5, 9, 15};
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++) {
        fixture f;
        usual_init(&f, &usual_cases[chosen[i]]);
        draw_batch(&b, 1, 20, usual_cases[chosen[i]].n_tasks);
        long before = rk_alloc_live();
        int n = 0;
        rk_status status;
        do {
            n++;
            rk_alloc_fail_after(n, n % 2);
            status = everything(&f, &b.batch);
            rk_alloc_fail_after(0, false);
            if (status != RK_OK && status != RK_NO_MEMORY) fail_msg("allocation %d: %s", n, rk_last_error());
            assert_int_equal(rk_alloc_live(), before);
        } while (status != RK_OK);
        assert_true(n > 50);
        fixture_release(&f);
    }
}

/* What predicts has memory for the keys that a checkpoint has, not for those that the table could have. */
static void test_memory_of_read_keys(void **state) {
    (void)state;
    static const int64_t keys[] = {-1, 0, 7};
    fixture f;
    rk_model *model;
    fixture_init(
        &f,
        "model: fm\nembedding: {dim: 4, tables: [{name: item, max_capacity: 10000000000000, buckets: 1}]}",
        usual_features, N_USUAL, 0, 1);
    f.options.training = false;
    f.options.rows_are_read = true;
    OK(rk_model_build(&f.options, &model));
    OK(rk_model_load_keys(model, &(rk_stored_keys){"table/item/keys", 0, 3, 3, keys}));
    OK(rk_model_reload(model));
    assert_int_equal(rk_model_key_counts(model).n_rows, 3);
    assert_true(rk_embeddings_bytes(rk_model_embeddings(model)) < 10000);
    rk_model_free(model);
    fixture_release(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_few_inputs),
        cmocka_unit_test(test_lr_adds_up), cmocka_unit_test(test_for_prediction),
        cmocka_unit_test(test_describe),   cmocka_unit_test(test_outline),
        cmocka_unit_test(test_first_loss), cmocka_unit_test(test_no_layers),
        cmocka_unit_test(test_no_memory),  cmocka_unit_test(test_memory_of_read_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
