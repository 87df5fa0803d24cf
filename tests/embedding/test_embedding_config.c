/* The `embedding:` section: what it binds to, the collection that it makes, and what it refuses, word by
 * word. */
#include "testing.h"

#include <math.h>

#include "base/thread/clock.h"
#include "base/memory.h"
#include "embedding/local/collection.h"
#include "embedding/config/embedding_config.h"

typedef struct setup {
    rk_yaml yaml;
    rk_embedding_section section;
} setup;

static const rk_embedding_source sources[] = {{.name = "user", .cardinality = 100},
                                              {.name = "item", .cardinality = 50},
                                              {.name = "tags", .cardinality = 30, .weighted = true},
                                              {.name = "history", .cardinality = 50}};
enum { N_SOURCES = 4 };
static const rk_embedding_wants vectors = {true, false, NAN, NAN, NULL};

static rk_status bind(setup *s, const char *text) {
    memset(s, 0, sizeof *s);
    OK(rk_yaml_parse("run.yaml", text, strlen(text), &s->yaml));
    return rk_schema_bind(&rk_embedding_schema, &s->yaml, rk_yaml_find_key(s->yaml.root, "embedding"),
                          &s->section);
}

static void release(setup *s) {
    rk_schema_release(&rk_embedding_schema, &s->section);
    rk_yaml_release(&s->yaml);
}

static rk_status collection_text(const char *text, rk_embedding_wants wants, const rk_optimizer *fallback,
                                 rk_collection_config *out) {
    setup s;
    OK(bind(&s, text));
    rk_status status =
        rk_collection_config_resolve(&s.section, &s.yaml, sources, N_SOURCES, wants, fallback, out);
    release(&s);
    return status;
}

static const rk_table_config *table_named(const rk_collection_config *collection, const char *name) {
    for (int32_t t = 0; t < collection->n_tables; t++)
        if (strcmp(collection->tables[t].name, name) == 0) return &collection->tables[t];
    fail_msg("no table '%s'", name);
    return NULL;
}

static void test_nothing_said(void **state) {
    (void)state;
    rk_collection_config collection;
    rk_optimizer adam;
    OK(rk_optimizer_init(&adam, RK_OPTIMIZER_ADAM));
    adam.learning_rate = 0.5;
    for (int said = 0; said < 2; said++) { /* no section at all, or an empty one: a table a feature */
        OK(collection_text(said ? "embedding: {}" : "model: lr", vectors, &adam, &collection));
        assert_true(collection.n_tables == N_SOURCES && collection.n_features == N_SOURCES &&
                    collection.n_vectors == N_SOURCES);
        for (int32_t i = 0; i < N_SOURCES; i++) {
            const rk_table_config *t = &collection.tables[i];
            assert_string_equal(t->name, sources[i].name);
            assert_true(t->n_rows == sources[i].cardinality && t->dim == 16 && t->dtype == RK_F32 &&
                        !t->frozen);
            assert_true(t->initializer.kind == RK_INIT_TRUNCATED_NORMAL && t->initializer.stddev == 0.01);
            assert_true(t->optimizer->kind == RK_OPTIMIZER_ADAM && t->optimizer->learning_rate == 0.5);
            assert_true(collection.l2[i] == 0 && collection.l2_full[i] == 0 && collection.sources[i] == i);
            const rk_feature_config *f = &collection.features[i];
            assert_string_equal(f->name, sources[i].name);
            assert_string_equal(f->table, sources[i].name);
            assert_true(f->combiner == RK_COMBINER_MEAN && f->max_sequence_length == 0 &&
                        !f->skip_validation);
        }
        rk_collection_config_release(&collection);
    }
    OK(collection_text("model: lr", vectors, NULL, &collection)); /* and nothing to fall back on */
    assert_true(collection.tables[0].optimizer->kind == RK_OPTIMIZER_ADAGRAD);
    rk_collection_config_release(&collection);
}

static const char everything[] =
    "embedding:\n"
    "  dim: 8\n"
    "  dtype: bf16\n"
    "  combiner: sum\n"
    "  l2: 0.1\n"
    "  l2_full: 0.2\n"
    "  initializer: {kind: uniform, min: -1, max: 1}\n"
    "  optimizer: {kind: sgd, learning_rate: 0.3}\n"
    "  tables:\n"
    "    - {name: item, rows: 60, dim: 4, dtype: f32, initializer: zeros, optimizer: adam, trainable: false, "
    "l2: 0, l2_full: 0.5}\n"
    "    - {name: words}\n"
    "  features:\n"
    "    - {name: history, table: item, max_sequence_length: 7, validate_weights_and_indices: false}\n"
    "    - {name: tags, table: words, combiner: sqrtn}\n"
    "    - {name: user, table: words}\n";

static void test_everything_said(void **state) {
    (void)state;
    rk_collection_config collection;
    OK(collection_text(everything, vectors, NULL, &collection));
    assert_int_equal(collection.n_tables, 2);
    const rk_table_config *item = table_named(&collection, "item"),
                          *words = table_named(&collection, "words");
    assert_true(item->n_rows == 60 && item->dim == 4 && item->dtype == RK_F32 && item->frozen &&
                item->initializer.kind == RK_INIT_ZEROS);
    assert_true(item->optimizer->kind == RK_OPTIMIZER_ADAM && collection.l2[item - collection.tables] == 0 &&
                collection.l2_full[item - collection.tables] == 0.5);
    assert_true(words->n_rows == 100 && words->dim == 8 && words->dtype == RK_BF16 &&
                !words->frozen); /* as many rows as its largest feature needs */
    assert_true(words->initializer.kind == RK_INIT_UNIFORM && words->initializer.min == -1 &&
                words->initializer.max == 1);
    assert_true(words->optimizer->kind == RK_OPTIMIZER_SGD && words->optimizer->learning_rate == 0.3);
    assert_true(collection.l2[words - collection.tables] == 0.1 &&
                collection.l2_full[words - collection.tables] == 0.2);
    static const struct {
        const char *name, *table;
        rk_combiner combiner;
        int32_t length;
        bool skip;
    } expected[] = {{"user", "words", RK_COMBINER_SUM, 0, false},
                    {"item", "item", RK_COMBINER_SUM, 0, false},
                    {"tags", "words", RK_COMBINER_SQRTN, 0, false},
                    {"history", "item", RK_COMBINER_SUM, 7, true}};
    assert_int_equal(collection.n_features, 4);
    for (int i = 0; i < 4; i++) { /* in the order of the sources */
        assert_string_equal(collection.features[i].name, expected[i].name);
        assert_string_equal(collection.features[i].table, expected[i].table);
        assert_true(collection.features[i].combiner == expected[i].combiner &&
                    collection.features[i].max_sequence_length == expected[i].length);
        assert_true(collection.features[i].skip_validation == expected[i].skip &&
                    collection.sources[i] == i && collection.features[i].weighted == (i == 2));
    }
    rk_embeddings *e;
    OK(rk_collection_config_create_embeddings(&collection, 5, false, NULL, &e));
    rk_collection_config_release(&collection); /* the collection has copies of all it needs */
    assert_int_equal(rk_embeddings_width(e, 3), 28);
    assert_int_equal(rk_embeddings_bytes(e), 60 * 4 * 4 + 100 * 8 * 2);
    assert_string_equal(rk_embeddings_table_config(e, 0)->name, "words");
    rk_embeddings_free(e);
}

/* One number an id beside the vectors, or alone: tables of their own, with the section's optimizer and its
 * own l2. */
static void test_linear(void **state) {
    (void)state;
    rk_collection_config collection;
    OK(collection_text(everything, (rk_embedding_wants){true, true, 0.7, NAN, NULL}, NULL, &collection));
    assert_true(collection.n_tables == 6 && collection.n_features == 8 && collection.n_vectors == 4);
    for (int i = 0; i < 4; i++) {
        const rk_table_config *t = &collection.tables[2 + i];
        const rk_feature_config *f = &collection.features[4 + i];
        char name[32];
        snprintf(name, sizeof name, "%s/linear", sources[i].name);
        assert_string_equal(t->name, name);
        assert_string_equal(f->name, name);
        assert_string_equal(f->table, name);
        assert_true(t->n_rows == sources[i].cardinality && t->dim == 1 && t->dtype == RK_F32 && !t->frozen &&
                    t->initializer.kind == RK_INIT_ZEROS);
        assert_true(t->optimizer->kind == RK_OPTIMIZER_SGD && collection.l2[2 + i] == 0.7 &&
                    collection.l2_full[2 + i] == 0.2);
        assert_true(f->combiner == RK_COMBINER_SUM && f->max_sequence_length == 0 &&
                    collection.sources[4 + i] == i);
        assert_true(f->skip_validation == (i == 3) &&
                    f->weighted == (i == 2)); /* what the feature says of its ids holds here too */
    }
    rk_collection_config_release(&collection);
    OK(collection_text(everything, (rk_embedding_wants){false, true, NAN, 0.9, NULL}, NULL, &collection));
    assert_true(collection.n_tables == 4 && collection.n_features == 4 && collection.n_vectors == 0 &&
                collection.l2[0] == 0.1 && collection.l2_full[0] == 0.9);
    rk_collection_config_release(&collection);
}

/* Rows left open grow to the largest of the features that share the table, in whatever order they come. */
static void test_shared_tables(void **state) {
    (void)state;
    rk_collection_config collection;
    OK(collection_text("embedding: {features: [{name: item, table: tags}, {name: user, table: tags}]}",
                       vectors, NULL, &collection));
    assert_int_equal(collection.n_tables, 2);
    assert_int_equal(table_named(&collection, "tags")->n_rows, 100);
    rk_collection_config_release(&collection);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"embedding:\n  tables: [{name: user}, {name: item},\n    {name: user}]",
         "run.yaml:3: key 'name': duplicate table name"},
        {"embedding:\n  features: [{name: user},\n    {name: user}]",
         "run.yaml:3: key 'name': duplicate entry for this feature"},
        {"embedding:\n  features: [{name: usr}]",
         "run.yaml:2: key 'name': there is no categorical feature 'usr'\nhint: did you mean 'user'?"},
        {"embedding:\n  features: [{name: clicked_before}]",
         "run.yaml:2: key 'name': there is no categorical feature 'clicked_before'"},
        {"embedding:\n  tables: [{name: words}]\n  features: [{name: tags, table: word}, {name: user, table: "
         "words}]",
         "run.yaml:3: key 'table': there is no table 'word'\nhint: did you mean 'words'?"},
        {"embedding:\n  tables: [{name: words}]\n  features: [{name: item, table: words}, {name: history, "
         "table: item}]",
         "run.yaml:3: key 'table': there is no table 'item'\nhint: the feature 'item' is looked up in the "
         "table 'words'"},
        {"embedding:\n  tables: [{name: items}]",
         "run.yaml:2: key 'name': no feature uses the table 'items'\nhint: did you mean 'item'?"},
        {"embedding:\n  tables:\n    - {name: item, rows: 49}",
         "run.yaml:3: key 'rows': 49 rows, but the feature 'item' has 50 ids\nhint: leave 'rows' out: "
         "the "
         "table then gets as many rows as there are ids"},
        {"embedding:\n  features: [{name: tags, max_sequence_length: 3}]",
         "run.yaml:2: key 'max_sequence_length': a sequence cannot have weights\nhint: remove the feature's "
         "'weights' or its 'max_sequence_length'"},
        {"embedding:\n  initializer: {kind: uniform, min: 3, max: 1}",
         "run.yaml:2: key 'initializer': an initializer's min 3 is above its max 1"},
        {"embedding:\n  tables:\n    - {name: user, initializer: {kind: uniform, min: 2, max: 1}}",
         "run.yaml:3: key 'initializer': an initializer's min 2 is above its max 1"},
        {"embedding:\n  optimizer: {kind: sgd, beta1: 0.5}",
         "run.yaml:2: key 'beta1': not an option of the optimizer 'sgd'\nhint: it is an option of adam, "
         "rowwise_adam, adamw, lamb"},
    };
    long before = rk_alloc_live();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rk_collection_config collection;
        FAILS(collection_text(cases[i].text, vectors, NULL, &collection), RK_CONFIG, cases[i].message);
        assert_int_equal(rk_alloc_live(), before);
    }
}

static void test_refused_by_the_schema(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"embedding:\n  dims: 8",
         "run.yaml:2: key 'dims': unknown key in 'embedding'\nhint: did you mean 'dim'?"},
        {"embedding: {dim: 5000}", "run.yaml:1: key 'dim': must be between 1 and 4096, not '5000'"},
        {"embedding: {combiner: max}",
         "run.yaml:1: key 'combiner': there is no 'max'\nhint: it is one of mean, sum, sqrtn"},
        {"embedding: {tables: [{name: a, l2: -1}]}", "run.yaml:1: key 'l2': must be 0 or more, not '-1'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup s;
        FAILS(bind(&s, cases[i].text), RK_CONFIG, cases[i].message);
        rk_yaml_release(&s.yaml);
    }
}

/* Overrides from the command line have no line. */
static void test_overrides(void **state) {
    (void)state;
    rk_yaml yaml;
    rk_embedding_section section;
    rk_collection_config collection;
    OK(rk_yaml_parse("run.yaml", "embedding: {dim: 4}", 19, &yaml));
    OK(rk_yaml_set(&yaml, "embedding.optimizer={kind: sgd, learning_rate: 0.25}"));
    OK(rk_schema_bind(&rk_embedding_schema, &yaml, rk_yaml_find_key(yaml.root, "embedding"), &section));
    OK(rk_collection_config_resolve(&section, &yaml, sources, N_SOURCES, vectors, NULL, &collection));
    assert_true(collection.tables[0].optimizer->kind == RK_OPTIMIZER_SGD &&
                collection.tables[0].optimizer->learning_rate == 0.25 && collection.tables[0].dim == 4);
    rk_collection_config_release(&collection);
    rk_schema_release(&rk_embedding_schema, &section);
    OK(rk_yaml_set(&yaml, "embedding.features=[{name: usr}]"));
    OK(rk_schema_bind(&rk_embedding_schema, &yaml, rk_yaml_find_key(yaml.root, "embedding"), &section));
    rk_status status =
        rk_collection_config_resolve(&section, &yaml, sources, N_SOURCES, vectors, NULL, &collection);
    assert_int_equal(status, RK_CONFIG);
    assert_string_equal(
        rk_last_error(),
        "--set: key 'name': there is no categorical feature 'usr'\nhint: did you mean 'user'?");
    rk_schema_release(&rk_embedding_schema, &section);
    rk_yaml_release(&yaml);
}

/* What emit writes binds to the same section again: "not said" (NaN, -1, 0) stays unsaid. */
static void test_round_trip(void **state) {
    (void)state;
    setup first, second;
    OK(bind(&first, everything));
    rk_buffer text = {0};
    rk_buffer_append_text(&text, "embedding:\n");
    rk_schema_emit(&rk_embedding_schema, &first.section, 2, &text);
    OK(text.status);
    OK(bind(&second, text.data));
    const rk_embedding_section *a = &first.section, *b = &second.section;
    assert_true(a->dim == b->dim && a->dtype == b->dtype && a->combiner == b->combiner && a->l2 == b->l2 &&
                a->n_tables == b->n_tables);
    assert_true(isnan(b->tables[1].l2) && isnan(b->tables[1].l2_full) && b->tables[0].l2 == 0 &&
                b->tables[0].l2_full == 0.5);
    assert_true(b->tables[1].dtype == -1 && b->tables[1].dim == 0 && b->tables[1].initializer.line == 0 &&
                b->tables[1].optimizer.line == 0);
    assert_true(b->tables[0].initializer.kind == RK_INIT_ZEROS && !b->tables[0].trainable &&
                b->tables[1].trainable);
    assert_true(b->features[2].combiner == -1 && b->features[1].combiner == RK_COMBINER_SQRTN &&
                !b->features[0].validate_weights_and_indices);
    rk_buffer_release(&text);
    release(&first);
    release(&second);
}

static void test_out_of_memory(void **state) {
    (void)state;
    setup s;
    OK(bind(&s, everything));
    long before = rk_alloc_live();
    for (int sticky = 0; sticky < 2; sticky++) {
        rk_status status = RK_NO_MEMORY;
        for (long n = 1; status != RK_OK; n++) {
            rk_collection_config collection = {0};
            rk_embeddings *e = NULL;
            rk_alloc_fail_after(n, sticky);
            status = rk_collection_config_resolve(&s.section, &s.yaml, sources, N_SOURCES,
                                                  (rk_embedding_wants){true, true, NAN, NAN, NULL}, NULL,
                                                  &collection);
            if (status == RK_OK)
                status = rk_collection_config_create_embeddings(&collection, 1, sticky, NULL, &e);
            rk_alloc_fail_after(0, false);
            rk_embeddings_free(e);
            rk_collection_config_release(&collection);
            assert_int_equal(rk_alloc_live(), before);
            assert_true(status == RK_OK ? n > 50 : status == RK_NO_MEMORY);
        }
    }
    release(&s);
}

static void test_thousands(void **state) {
    (void)state;
    enum { MANY = 5000 };
    static rk_embedding_source many[MANY];
    static char names[MANY][16];
    rk_buffer text = {0};
    rk_buffer_append_text(&text, "embedding:\n  dim: 1\n  tables:\n");
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "f%d", i);
        many[i] = (rk_embedding_source){.name = names[i], .cardinality = 2};
        if (i % 2) rk_buffer_printf(&text, "  - {name: f%d, dim: 2}\n", i);
    }
    rk_buffer_append_text(&text, "  features:\n");
    for (int i = 0; i < MANY; i++)
        if (i % 3) rk_buffer_printf(&text, "  - {name: f%d, combiner: sum}\n", i);
    setup s;
    OK(text.status);
    OK(bind(&s, text.data));
    rk_collection_config collection;
    double begin = rk_clock_seconds();
    OK(rk_collection_config_resolve(&s.section, &s.yaml, many, MANY,
                                    (rk_embedding_wants){true, true, NAN, NAN, NULL}, NULL, &collection));
    assert_true(rk_clock_seconds() - begin < 10);
    assert_true(collection.n_tables == 2 * MANY && collection.n_features == 2 * MANY);
    for (int i = 0; i < MANY; i++)
        assert_true(collection.tables[i].dim == 1 + i % 2 &&
                    collection.features[i].combiner == (i % 3 ? RK_COMBINER_SUM : RK_COMBINER_MEAN));
    rk_collection_config_release(&collection);
    rk_buffer_release(&text);
    release(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_said),  cmocka_unit_test(test_everything_said),
        cmocka_unit_test(test_linear),        cmocka_unit_test(test_shared_tables),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_refused_by_the_schema),
        cmocka_unit_test(test_overrides),     cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_thousands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
