/* Two towers: a step against the equations written plainly, histories, predictions and vectors, batches of
 * drawn items, what is refused. */
#include "fixture.h"

#include <math.h>

#include "base/thread/parallel.h"
#include "embedding/local/collection.h"
#include "model/retrieval/retrieval.h"
#include "model/step/predict.h"
#include "model/retrieval/negative_sampler.h"

enum { USERS = 6, ITEMS = 9, DIM = 4, N = 5, DRAWN = 6, N_ITEMS_OF_BATCH = N + DRAWN };
static const rk_data_feature_info pair_features[] = {{.name = "user", .cardinality = USERS},
                                                     {.name = "item", .cardinality = ITEMS}};
static int64_t known_offsets[USERS + 1] = {0, 3, 5, 5, 9, 10, 12};
static int64_t known_items[] = {0, 2, 5, 2, 3, 1, 2, 7, 8, 4, 0, 6};
static int64_t known_counts[ITEMS] = {2, 1, 3, 1, 1, 1, 1, 1, 1};
static rk_interactions known = {.n_users = USERS,
                                .n_items = ITEMS,
                                .offsets = known_offsets,
                                .items = known_items,
                                .counts = known_counts};
static int64_t users[N] = {0, 3, 3, 5, 0}, items[N] = {2, 1, 8, 0, 5};
static const float weights[N] = {1, 0.5f, 2, 1, 1};

static void pairs_init(fixture *f, const char *text) {
    fixture_init(f, text, pair_features, 2, 0, 0);
    atomic_init(&known.n_refs, 1);
    f->options.interactions = &known;
    f->options.max_batch = N;
    use_optimizer(f, RK_OPTIMIZER_SGD, 0.1);
}

static rk_batch pairs(rk_ids features[2]) {
    features[0] = (rk_ids){.ids_per_sample = 1, .ids = users};
    features[1] = (rk_ids){.ids_per_sample = 1, .ids = items};
    return (rk_batch){.n = N, .n_features = 2, .features = features, .sample_weights = weights};
}

/* Rows of both tables, as the plain step has them, and the history's matrix: the identity, where none is
 * learned. */
typedef struct rows {
    double user[USERS][DIM], item[ITEMS][DIM], matrix[DIM][DIM];
} rows;

static void read_rows(rk_model *model, rows *out) {
    float values[ITEMS * DIM];
    OK(rk_embeddings_read_rows(rk_model_embeddings(model), "user", 0, USERS, values));
    for (int i = 0; i < USERS * DIM; i++) out->user[i / DIM][i % DIM] = values[i];
    OK(rk_embeddings_read_rows(rk_model_embeddings(model), "item", 0, ITEMS, values));
    for (int i = 0; i < ITEMS * DIM; i++) out->item[i / DIM][i % DIM] = values[i];
    const rk_parameter *learned =
        rk_graph_n_parameters(model->graph) ? rk_graph_parameter(model->graph, 0) : NULL;
    for (int i = 0; i < DIM * DIM; i++)
        out->matrix[i % DIM][i / DIM] =
            learned ? (double)learned->value[i] : i / DIM == i % DIM; /* [in, out] */
}

static double dot(const double *a, const double *b) {
    double sum = 0;
    for (int d = 0; d < DIM; d++) sum += a[d] * b[d];
    return sum;
}

/* A user's vector for sample i: its row, and the matrix times the mean of its known items' rows without
 * `own`; that mean, and what each item has in it. */
static void plain_user(const rows *r, int i, int64_t own, double out[DIM], double mean[DIM],
                       double shares[ITEMS]) {
    int64_t begin = known_offsets[users[i]], end = known_offsets[users[i] + 1], n = 0;
    memset(shares, 0, ITEMS * sizeof *shares);
    for (int64_t k = begin; k < end; k++) n += known_items[k] != own;
    for (int64_t k = begin; k < end; k++)
        if (known_items[k] != own) shares[known_items[k]] = 1.0 / (double)n;
    for (int d = 0; d < DIM; d++) {
        mean[d] = 0;
        for (int j = 0; j < ITEMS; j++) mean[d] += shares[j] * r->item[j][d];
    }
    for (int d = 0; d < DIM; d++) out[d] = r->user[users[i]][d] + dot(r->matrix[d], mean);
}

/* Softmax over the batch's items and the drawn ones with log Q, a step of SGD on `r`; returns the loss. */
static double plain_step(rows *r, const int64_t drawn[DRAWN], bool learns) {
    rows g = {0};
    double total = 0, weight = 0;
    for (int i = 0; i < N; i++) weight += (double)weights[i];
    for (int i = 0; i < N; i++) {
        double u[DIM], mean[DIM], shares[ITEMS], e[N_ITEMS_OF_BATCH], sum = 0, du[DIM] = {0};
        plain_user(r, i, items[i], u, mean, shares);
        for (int c = 0; c < N_ITEMS_OF_BATCH; c++) {
            int64_t item = c < N ? items[c] : drawn[c - N];
            double log_q = c < N ? log((double)known_counts[item] / 12) : -log(ITEMS);
            e[c] = item == items[i] && c != i ? 0 : exp(dot(u, r->item[item]) / 0.5 - log_q);
            sum += e[c];
        }
        double w = (double)weights[i] / weight;
        total -= w * log(e[i] / sum);
        for (int c = 0; c < N_ITEMS_OF_BATCH; c++) {
            int64_t item = c < N ? items[c] : drawn[c - N];
            double slope = w / 0.5 * (e[c] / sum - (c == i));
            for (int d = 0; d < DIM; d++) {
                g.item[item][d] += slope * u[d];
                du[d] += slope * r->item[item][d];
            }
        }
        for (int d = 0; d < DIM; d++) {
            g.user[users[i]][d] += du[d];
            for (int k = 0; k < DIM; k++) {
                g.matrix[d][k] += du[d] * mean[k];
                for (int j = 0; j < ITEMS; j++) g.item[j][k] += shares[j] * du[d] * r->matrix[d][k];
            }
        }
    }
    for (int i = 0; i < USERS * DIM; i++) r->user[i / DIM][i % DIM] -= 0.1 * g.user[i / DIM][i % DIM];
    for (int i = 0; i < ITEMS * DIM; i++) r->item[i / DIM][i % DIM] -= 0.1 * g.item[i / DIM][i % DIM];
    for (int i = 0; i < DIM * DIM && learns; i++)
        r->matrix[i / DIM][i % DIM] -= 0.1 * g.matrix[i / DIM][i % DIM];
    return total;
}

static const char *const whole =
    "model: {kind: two_tower, retrieval: {user: user, item: item, history: true, temperature: 0.5, "
    "negatives: 6, in_batch: true}}\n"
    "embedding: {dim: 4, initializer: {kind: normal, stddev: 0.5}, features: [{name: history, table: item}]}";

static const char *const linear =
    "model: {kind: two_tower, retrieval: {user: user, item: item, history: true, history_linear: true, "
    "temperature: 0.5, negatives: 6, in_batch: true}}\n"
    "embedding: {dim: 4, initializer: {kind: normal, stddev: 0.5}, features: [{name: history, table: item}]}";

static void run_steps(const char *text, bool learns) {
    for (int threads = 1; threads < 4; threads += 2) {
        OK(rk_parallel_set_threads(threads));
        fixture f;
        rk_model *model;
        rk_ids features[2];
        rk_batch batch = pairs(features);
        rows plain, trained;
        pairs_init(&f, text);
        OK(rk_model_build(&f.options, &model));
        read_rows(model, &plain);
        for (int step = 0; step < 4; step++) {
            rk_rank_batch all = rk_rank_batch_from_batch(&batch, RK_NO_TIMESTAMP);
            rk_local_batch *extended = &model->inference->batch;
            int64_t drawn[DRAWN];
            double loss;
            /* The draws are the step's own, whoever asks. */
            OK(model->loss->fill(model, &all, model->step, extended));
            assert_int_equal(extended->batch.n, N_ITEMS_OF_BATCH);
            for (int j = 0; j < DRAWN; j++) drawn[j] = extended->batch.features[1].ids[N + j];
            OK(rk_model_train(model, &batch, &loss));
            double wanted = plain_step(&plain, drawn, learns);
            assert_true(fabs(loss - wanted) < 1e-5);
        }
        read_rows(model, &trained);
        for (int i = 0; i < USERS * DIM; i++)
            assert_true(fabs(trained.user[i / DIM][i % DIM] - plain.user[i / DIM][i % DIM]) < 1e-5);
        for (int i = 0; i < ITEMS * DIM; i++)
            assert_true(fabs(trained.item[i / DIM][i % DIM] - plain.item[i / DIM][i % DIM]) < 1e-5);
        for (int i = 0; i < DIM * DIM; i++)
            assert_true(fabs(trained.matrix[i / DIM][i % DIM] - plain.matrix[i / DIM][i % DIM]) < 1e-5);
        rk_model_free(model);
        fixture_release(&f);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_steps(void **state) {
    (void)state;
    run_steps(whole, false);
    run_steps(linear, true);
}

/* Of a prediction the pair's item is no secret: histories are whole. */
static void test_predictions(void **state) {
    (void)state;
    fixture f;
    rk_model *model;
    rk_ids features[2];
    rk_batch batch = pairs(features);
    rows r;
    float scores[N];
    rk_real user_vectors[N * DIM], item_vectors[ITEMS * DIM];
    int64_t item_ids[ITEMS];
    pairs_init(&f, whole);
    OK(rk_model_build(&f.options, &model));
    read_rows(model, &r);
    OK(rk_model_predict(model, &batch, scores));
    OK(rk_model_user_vectors(model, &batch, user_vectors));
    for (int64_t i = 0; i < ITEMS; i++) item_ids[i] = i;
    OK(rk_model_item_vectors(model, item_ids, ITEMS, item_vectors)); /* more than a batch */
    assert_int_equal(rk_model_vector_dim(model), DIM);
    assert_true(rk_model_peak_bytes(model, &batch) > rk_model_count_bytes(model).arena);
    assert_true(fabs(rk_retrieval_mean_history_length(model->retrieval) - (9 + 4 + 16 + 1 + 4) / 12.0) <
                1e-12);
    for (int i = 0; i < N; i++) {
        double u[DIM], mean[DIM], shares[ITEMS];
        plain_user(&r, i, -1, u, mean, shares);
        assert_true(fabs((double)scores[i] - dot(u, r.item[items[i]])) < 1e-5);
        for (int d = 0; d < DIM; d++) assert_true(fabs((double)user_vectors[i * DIM + d] - u[d]) < 1e-6);
    }
    for (int i = 0; i < ITEMS * DIM; i++) assert_true((double)item_vectors[i] == r.item[i / DIM][i % DIM]);
    rk_model_free(model);
    fixture_release(&f);
    assert_int_equal(rk_alloc_live(), 0);
}

/* With MLPs, cosines, each loss and kind of draw: the loss falls. */
static void test_learns(void **state) {
    (void)state;
    static const char *const cases[] = {
        "loss: bpr, negatives: 8}}",
        "loss: bpr, negatives: 8, hard: 4}, deep: [6, 3], activation: tanh}",
        "loss: cosine_contrastive, similarity: cosine, margin: 0.1, negative_weight: 2, negatives: 8}}",
        ("similarity: cosine, temperature: 0.2, sampling: popularity, negatives: 8, history: true, "
         "max_history: 1, user_tower: [history]}}"),
        "in_batch: true, negatives: 0}, deep: [5]}",
        "negatives: 8, history: true, history_linear: true, user_tower: [history]}}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        fixture f;
        rk_model *model;
        rk_ids features[2];
        rk_batch batch = pairs(features);
        double first = 0, last = 0, loss;
        snprintf(text, sizeof text,
                 "model: {kind: two_tower, retrieval: {user: user, item: item, %s\nembedding: {dim: 4, "
                 "initializer: {kind: normal, stddev: 0.3}}",
                 cases[i]);
        pairs_init(&f, text);
        use_optimizer(&f, RK_OPTIMIZER_ADAM, 0.02);
        OK(rk_model_build(&f.options, &model));
        for (int step = 0; step < 80; step++) {
            OK(rk_model_train(model, &batch, &loss));
            first += step < 10 ? loss : 0;
            last += step >= 70 ? loss : 0;
        }
        if (!(last < 0.8 * first)) fail_msg("%s: from %g to %g", cases[i], first, last);
        rk_model_free(model);
        fixture_release(&f);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* Without an MLP it is users' vectors that dropout drops of, in training alone. */
static void test_dropout(void **state) {
    (void)state;
    static const char *const kinds[] = {"", "dropout: 0.5, "};
    double losses[2];
    float scores[2][N];
    for (int i = 0; i < 2; i++) {
        char text[512];
        fixture f;
        rk_model *model;
        rk_ids features[2];
        rk_batch batch = pairs(features);
        snprintf(text, sizeof text,
                 "model: {kind: two_tower, %sretrieval: {user: user, item: item}}\nembedding: {dim: 4, "
                 "initializer: {kind: normal, stddev: 0.5}}",
                 kinds[i]);
        pairs_init(&f, text);
        OK(rk_model_build(&f.options, &model));
        OK(rk_model_predict(model, &batch, scores[i]));
        OK(rk_model_train(model, &batch, &losses[i]));
        rk_model_free(model);
        fixture_release(&f);
    }
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    assert_true(fabs(losses[0] - losses[1]) > 1e-3);
    assert_int_equal(rk_alloc_live(), 0);
}

/* Drawn items come as often as they should, and the logarithms are of those chances. */
static void test_sampler(void **state) {
    (void)state;
    enum { DRAWS = 200000 };
    const int64_t counts[5] = {16, 0, 1, 4, 81};
    for (int by_count = 0; by_count < 2; by_count++) {
        rk_negative_sampler *sampler;
        int64_t seen[5] = {0};
        OK(rk_negative_sampler_create(5, by_count ? counts : NULL, 0.5, &sampler));
        for (uint64_t i = 0; i < DRAWS; i++) seen[rk_negative_sampler_draw(sampler, 3, i / 100, i % 100)]++;
        for (int i = 0; i < 5; i++) {
            double chance = by_count ? sqrt((double)counts[i]) / 16 : 0.2;
            assert_true(fabs((double)seen[i] / DRAWS - chance) < 0.004);
            if (chance > 0)
                assert_true(fabs((double)rk_negative_sampler_log_q(sampler, i) - log(chance)) < 1e-6);
        }
        rk_negative_sampler_free(sampler);
    }
    const int64_t none[2] = {0, 0};
    rk_negative_sampler *sampler;
    FAILS(rk_negative_sampler_create(2, none, 1, &sampler), RK_BAD_DATA,
          "no negatives can be sampled: the training data has no pairs");
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_refusals(void **state) {
    (void)state;
#define PAIR "user: user, item: item"
    static const struct {
        const char *model, *message;
    } cases[] = {
        {"{kind: two_tower}",
         "run.yaml:1: key 'model': a two_tower needs 'retrieval.user' and 'retrieval.item'\nhint: they name "
         "the features with a pair's user id and item id"},
        {"{kind: two_tower, retrieval: {user: usr, item: item}}",
         "run.yaml:1: key 'user': there is no categorical feature 'usr'\nhint: did you mean 'user'?"},
        {"{kind: two_tower, retrieval: {" PAIR ", loss: cosine_contrastive}}",
         "run.yaml:1: key 'retrieval': the loss cosine_contrastive needs cosine similarity\nhint: set "
         "similarity to "
         "cosine"},
        {"{kind: two_tower, retrieval: {" PAIR ", negatives: 10, hard: 4}}",
         "run.yaml:1: key 'retrieval': negatives (10) must be a multiple of hard (4)"},
        {"{kind: two_tower, retrieval: {" PAIR ", negatives: 0}}",
         "run.yaml:1: key 'retrieval': a pair needs negatives\nhint: set negatives, or "
         "in_batch: true"},
        {"{kind: two_tower, retrieval: {" PAIR ", history_linear: true}}",
         "run.yaml:1: key 'retrieval': history_linear needs a history\nhint: set history: true"},
        {"{kind: two_tower, deep: [4], retrieval: {" PAIR ", history: true, history_linear: true}}",
         "run.yaml:1: key 'kind': 'history_linear' is not supported with 'deep'\nhint: remove one of them"},
        {"{kind: two_tower, batch_norm: true, deep: [4], retrieval: {" PAIR "}}",
         "run.yaml:1: key 'kind': 'batch_norm' is not supported by model 'two_tower'\nhint: remove "
         "'batch_norm'"},
        {"{kind: dnn, retrieval: {" PAIR "}}",
         "run.yaml:1: key 'retrieval': model 'dnn' does not use 'retrieval'\nhint: 'retrieval' is for "
         "two_tower"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        fixture f;
        rk_model *model = NULL;
        snprintf(text, sizeof text, "model: %s\nembedding: {dim: 4}", cases[i].model);
        pairs_init(&f, text);
        FAILS(rk_model_build(&f.options, &model), RK_CONFIG, cases[i].message);
        fixture_release(&f);
    }
    fixture f;
    rk_model *model;
    rk_ids features[2];
    rk_batch batch = pairs(features);
    double loss;
    pairs_init(&f, whole);
    OK(rk_model_build(&f.options, &model));
    features[1].ids_per_sample = 2;
    FAILS(rk_model_train(model, &batch, &loss), RK_BAD_DATA,
          "row 0: feature 'item' has 2 ids; a pair has one user and one item");
    features[1].ids_per_sample = 1;
    items[2] = ITEMS;
    FAILS(rk_model_train(model, &batch, &loss), RK_BAD_DATA, "row 2: feature 'item': there is no id 9");
    items[2] = 8;
    assert_int_equal(rk_model_n_steps(model), 0);
    rk_model_free(model);
    f.options.step_batch = N - 1; /* and room for more, for predictions */
    OK(rk_model_build(&f.options, &model));
    FAILS(rk_model_train(model, &batch, &loss), RK_INVALID_ARGUMENT,
          "the batch has 5 samples, but the model was created for up to 4");
    rk_model_free(model);
    f.options.interactions = NULL;
    FAILS(rk_model_build(&f.options, &model), RK_INVALID_ARGUMENT,
          "a two_tower with history, popularity, in_batch or items that are keys needs the training data's "
          "pairs");
    fixture_release(&f);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),   cmocka_unit_test(test_predictions), cmocka_unit_test(test_learns),
        cmocka_unit_test(test_dropout), cmocka_unit_test(test_sampler),     cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
