/* Two towers on a GPU against the CPU engine: the losses alone, and whole models: steps, predictions,
 * vectors. */
#include "device_training.h"

#include "cuda/dense/candidate_loss.h"
#include "model/retrieval/retrieval.h"
#include "nn/cuda/device_candidate_loss.h"

enum { MAX_N = 150, MAX_DRAWN = 60, MAX_DIM = 17, MAX_ITEMS = MAX_N + MAX_DRAWN };

/* What a loss takes and what the CPU makes of it. */
typedef struct drawn_pairs {
    rk_candidate_loss_config config;
    int64_t n;
    float users[MAX_N * MAX_DIM], items[MAX_ITEMS * MAX_DIM], log_q[MAX_ITEMS], weights[MAX_N];
    int32_t ids[MAX_ITEMS];
    bool corrected;
    float user_gradient[MAX_N * MAX_DIM], item_gradient[MAX_ITEMS * MAX_DIM];
    double scale, loss;
} drawn_pairs;

static void draw_pairs(drawn_pairs *p, uint64_t seed) {
    rk_rng rng = {seed, 2, 0};
    for (int i = 0; i < MAX_N * MAX_DIM; i++) p->users[i] = (float)rk_rng_normal(&rng);
    for (int i = 0; i < MAX_ITEMS * MAX_DIM; i++) p->items[i] = (float)rk_rng_normal(&rng);
    for (int i = 0; i < MAX_ITEMS; i++)
        p->ids[i] = (int32_t)rk_rng_below(&rng, 25); /* so that many are hit by accident */
    for (int i = 0; i < MAX_ITEMS; i++) p->log_q[i] = -1 - (float)rk_rng_uniform(&rng);
    for (int i = 0; i < MAX_N; i++) p->weights[i] = (float)rk_rng_below(&rng, 3);
    p->scale = 1.0 / (double)p->n;
}

static void run_on_cpu(drawn_pairs *p) {
    rk_candidate_loss *loss;
    OK(rk_candidate_loss_create(&p->config, &loss));
    OK(rk_candidate_loss_run(loss,
                             &(rk_candidate_loss_args){.n = p->n,
                                                       .users = p->users,
                                                       .items = p->items,
                                                       .ids = p->ids,
                                                       .log_q = p->corrected ? p->log_q : NULL,
                                                       .weights = p->weights,
                                                       .scale = p->scale,
                                                       .user_gradient = p->user_gradient,
                                                       .item_gradient = p->item_gradient},
                             &p->loss));
    rk_candidate_loss_free(loss);
}

static void compare_with_gpu(const drawn_pairs *p, int64_t scores_at_once, const char *what) {
    rk_device_candidate_loss *loss;
    static float user_gradient[MAX_N * MAX_DIM], item_gradient[MAX_ITEMS * MAX_DIM];
    double found;
    uint32_t stop;
    OK(rk_device_candidate_loss_create(
        device, &p->config, &(rk_device_candidate_loss_options){.scores_at_once = scores_at_once}, &loss));
    void *users = on_device(p->users, sizeof p->users), *items = on_device(p->items, sizeof p->items),
         *ids = on_device(p->ids, sizeof p->ids), *log_q = on_device(p->log_q, sizeof p->log_q),
         *weights = on_device(p->weights, sizeof p->weights), *scale = on_device(&p->scale, sizeof p->scale),
         *users_to = on_device(p->users, sizeof p->users), *items_to = on_device(p->items, sizeof p->items),
         *out = on_device(NULL, sizeof found + sizeof stop);
    rk_device_candidate_loss_run(loss, stream,
                                 &(rk_device_candidate_loss_args){.n = p->n,
                                                                  .last = p->n,
                                                                  .users = users,
                                                                  .items = items,
                                                                  .ids = ids,
                                                                  .log_q = p->corrected ? log_q : NULL,
                                                                  .weights = weights,
                                                                  .scale = scale,
                                                                  .user_gradient = users_to,
                                                                  .item_gradient = items_to,
                                                                  .loss = out,
                                                                  .stop = (uint32_t *)out + 2,
                                                                  .stop_bit = 4});
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, user_gradient, users_to, sizeof user_gradient));
    OK(rk_device_download(device, item_gradient, items_to, sizeof item_gradient));
    OK(rk_device_download(device, &found, out, sizeof found));
    OK(rk_device_download(device, &stop, (uint32_t *)out + 2, sizeof stop));
    assert_int_equal(stop, 0);
    assert_losses_close(found, p->loss, what, (int)p->n);
    if (!(nmse(user_gradient, p->user_gradient, p->n * p->config.dim) <= CLOSE))
        fail_msg("%s: n %d: users' gradients differ", what, (int)p->n);
    if (!(nmse(item_gradient, p->item_gradient, (p->n + p->config.n_sampled) * p->config.dim) <= CLOSE))
        fail_msg("%s: n %d: items' gradients differ", what, (int)p->n);
    void *all[] = {users, items, ids, log_q, weights, scale, users_to, items_to, out};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) rk_device_free(device, all[i]);
    rk_device_candidate_loss_free(loss);
}

static void test_losses(void **state) {
    (void)state;
    static drawn_pairs p;
    static const int64_t sizes[] = {1, 5, 67, MAX_N}, dims[] = {3, 8, MAX_DIM};
    OK(open_device(state) ? RK_INTERNAL : RK_OK);
    for (int kind = 0; kind < 3; kind++)
        for (int shape = 0; shape < 12; shape++) {
            char what[80];
            int64_t hard = shape % 3 == 1 ? 6 : 1;
            p.config = (rk_candidate_loss_config){.kind = (rk_candidate_loss_kind)kind,
                                                  .dim = dims[shape % 3],
                                                  .max_n = MAX_N,
                                                  .n_sampled = shape == 8 ? 0 : MAX_DRAWN,
                                                  .in_batch = shape % 2 == 0,
                                                  .hard = hard,
                                                  .temperature = 0.7,
                                                  .margin = 0.2,
                                                  .negative_weight = 5};
            p.n = sizes[shape % 4];
            p.corrected = shape % 4 > 1;
            draw_pairs(&p, (uint64_t)shape);
            run_on_cpu(&p);
            snprintf(what, sizeof what, "loss %d, shape %d", kind, shape);
            compare_with_gpu(&p, 0, what);
            compare_with_gpu(&p, 3000, what); /* a few samples at a time */
        }
    close_device(state);
}

static void test_not_finite(void **state) {
    (void)state;
    double found[2] = {1, 0};
    OK(open_device(state) ? RK_INTERNAL : RK_OK);
    double *losses = on_device((double[]){1, INFINITY}, 2 * sizeof *losses),
           *out = on_device(found, sizeof found);
    rk_cuda_sum_losses(stream, 2, losses, out, (uint32_t *)(out + 1), 4);
    OK(rk_stream_sync(stream));
    OK(rk_device_download(device, found, out, sizeof found));
    uint32_t stop;
    memcpy(&stop, &found[1], sizeof stop);
    assert_true(isinf(found[0]) && stop == 4);
    rk_device_free(device, losses);
    rk_device_free(device, out);
    close_device(state);
}

enum { USERS = 40, ITEMS = 50, PAIRS = 6, DRAWN = 24 };
static const rk_data_feature_info pair_features[] = {{.name = "user", .cardinality = USERS},
                                                     {.name = "item", .cardinality = ITEMS},
                                                     {.name = "tags", .cardinality = 30, .weighted = true}};
static int64_t known_offsets[USERS + 1], known_items[USERS * PAIRS], known_counts[ITEMS];
static rk_interactions known = {.n_users = USERS,
                                .n_items = ITEMS,
                                .offsets = known_offsets,
                                .items = known_items,
                                .counts = known_counts};

/* User u has been to items u, u + 7, u + 14, ... */
static void make_known(void) {
    memset(known_counts, 0, sizeof known_counts);
    for (int64_t u = 0; u <= USERS; u++) known_offsets[u] = u * PAIRS;
    for (int64_t i = 0; i < USERS * PAIRS; i++) known_items[i] = (i / PAIRS + i % PAIRS * 7) % ITEMS;
    for (int64_t i = 0; i < USERS * PAIRS; i++) known_counts[known_items[i]]++;
    atomic_init(&known.n_refs, 1);
}

typedef struct pair_batch {
    rk_batch batch;
    rk_ids features[3];
    int64_t users[MAX_SAMPLES], items[MAX_SAMPLES], tag_offsets[MAX_SAMPLES + 1], tags[2 * MAX_SAMPLES];
    float tag_weights[2 * MAX_SAMPLES], weights[MAX_SAMPLES];
} pair_batch;

static void draw_pair_batch(pair_batch *b, uint64_t seed, int64_t n, int32_t n_features) {
    rk_rng rng = {seed, 3, 0};
    for (int64_t i = 0; i < n; i++) {
        int64_t pair = (int64_t)rk_rng_below(&rng, USERS * PAIRS);
        b->users[i] = pair / PAIRS;
        b->items[i] = known_items[pair];
        b->weights[i] = (float)rk_rng_uniform(&rng);
        b->tag_offsets[i] = 2 * i;
        for (int k = 0; k < 2; k++) b->tags[2 * i + k] = (int64_t)rk_rng_below(&rng, 30);
        for (int k = 0; k < 2; k++) b->tag_weights[2 * i + k] = 0.5f + (float)rk_rng_uniform(&rng);
    }
    b->tag_offsets[n] = 2 * n;
    b->features[0] = (rk_ids){.ids_per_sample = 1, .ids = b->users};
    b->features[1] = (rk_ids){.ids_per_sample = 1, .ids = b->items};
    b->features[2] = (rk_ids){.offsets = b->tag_offsets, .ids = b->tags, .weights = b->tag_weights};
    b->batch = (rk_batch){.n = n,
                          .n_features = n_features,
                          .features = b->features,
                          .sample_weights = seed % 2 ? b->weights : NULL};
}

static const struct {
    const char *text;
    int32_t n_features;
} models[] = {
    {"model: {kind: two_tower, retrieval: {user: user, item: item, loss: bpr, negatives: 24, hard: "
     "4}}\nembedding: {dim: 7, l2: 0.01}",
     2},
    {"model: {kind: two_tower, dropout: 0.2, retrieval: {user: user, item: item, history: true, max_history: "
     "3, similarity: cosine, loss: cosine_contrastive, margin: 0.2,"
     " negative_weight: 20, negatives: 24}}\nembedding: {dim: 8, features: [{name: history, table: item}]}",
     2},
    {"model: {kind: two_tower, deep: [12, 5], retrieval: {user: user, item: item, history: true, "
     "temperature: 0.5, negatives: 24, in_batch: true, sampling: popularity}}\n"
     "embedding: {dim: 4, features: [{name: history, table: item}]}",
     3},
    {"model: {kind: two_tower, retrieval: {user: user, item: item, user_tower: [history], history: true, "
     "log_q: false, negatives: 24}}\n"
     "embedding: {dim: 6, features: [{name: history, table: item}]}",
     2},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

static void pair_twins(twins *t, int m) {
    memset(t, 0, sizeof *t);
    fixture_init(&t->f, models[m].text, pair_features, models[m].n_features, 0, 0);
    t->f.options.interactions = &known;
    t->device.late = true; /* of which a two_tower makes no use */
    use_optimizer(&t->f, RK_OPTIMIZER_SGD, 0.2);
    twins_build(t);
}

static void assert_rows_close(twins *t, const char *what) {
    static float on_cpu[MAX_SAMPLES * MAX_DIM], on_gpu[MAX_SAMPLES * MAX_DIM];
    static pair_batch b;
    int64_t items[40];
    int32_t dim = rk_model_vector_dim(t->cpu);
    draw_pair_batch(&b, 90, 33, t->cpu->n_features);
    OK(rk_model_predict(t->cpu, &b.batch, on_cpu));
    OK(rk_model_predict(t->gpu, &b.batch, on_gpu));
    if (!(nmse(on_gpu, on_cpu, 33) <= CLOSE)) fail_msg("%s: predictions differ", what);
    OK(rk_model_user_vectors(t->cpu, &b.batch, on_cpu));
    OK(rk_model_user_vectors(t->gpu, &b.batch, on_gpu));
    if (!(nmse(on_gpu, on_cpu, 33 * dim) <= CLOSE)) fail_msg("%s: users' vectors differ", what);
    for (int64_t i = 0; i < 40; i++) items[i] = 3 + i;
    OK(rk_model_item_vectors(t->cpu, items, 40, on_cpu));
    OK(rk_model_item_vectors(t->gpu, items, 40, on_gpu));
    if (!(nmse(on_gpu, on_cpu, 40 * dim) <= CLOSE)) fail_msg("%s: items' vectors differ", what);
}

static void test_models(void **state) {
    (void)state;
    static pair_batch b;
    static const int64_t sizes[] = {48, 48, 48, 31, 48, 1, MAX_SAMPLES, 48};
    make_known();
    for (int m = 0; m < N_MODELS; m++) {
        twins t;
        pair_twins(&t, m);
        for (int i = 0; i < 8; i++) {
            double cpu, gpu;
            draw_pair_batch(&b, (uint64_t)i, sizes[i], models[m].n_features);
            OK(rk_model_train(t.cpu, &b.batch, &cpu));
            OK(rk_model_train(t.gpu, &b.batch, &gpu));
            assert_losses_close(gpu, cpu, models[m].text, i);
            if (i == 3) assert_rows_close(&t, models[m].text);
        }
        assert_states_close(t.gpu, t.cpu, models[m].text, CLOSE);
        assert_rows_close(&t, models[m].text);
        twins_release(&t);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* Refused in the CPU's words, and nothing is changed. */
static void test_refusals(void **state) {
    (void)state;
    static pair_batch b;
    make_known();
    twins t;
    pair_twins(&t, 0);
    for (int i = 0; i < 3; i++) {
        char said[1024];
        double loss = 123;
        draw_pair_batch(&b, 1, 20, 2);
        if (i == 0) b.users[7] = USERS;
        if (i == 1) b.weights[3] = INFINITY;
        if (i == 2) t.cpu->step_batch = t.gpu->step_batch = 19;
        rk_status wanted = rk_model_train(t.cpu, &b.batch, &loss);
        assert_true(wanted != RK_OK);
        snprintf(said, sizeof said, "%s", rk_last_error());
        FAILS(rk_model_train(t.gpu, &b.batch, &loss), wanted, said);
        assert_true(loss == 123 && rk_model_n_steps(t.gpu) == 0);
    }
    assert_states_close(t.gpu, t.cpu, "refusals", 0);
    twins_release(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_refusals),
    };
    need_device();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
