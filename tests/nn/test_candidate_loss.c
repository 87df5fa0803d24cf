/* Losses over shared candidates against PyTorch (tests/golden/make_candidate_losses.py), at any number of
 * threads, and where there is nothing to compare. */
#include "testing.h"

#include <math.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "nn/candidate_loss.h"

enum { MAX_N = 300, MAX_ITEMS = 700, MAX_DIM = 70 };

typedef struct trial {
    rk_candidate_loss_config config;
    int64_t n;
    bool has_log_q, weighted;
    rk_real users[MAX_N * MAX_DIM], items[MAX_ITEMS * MAX_DIM], log_q[MAX_ITEMS];
    int32_t ids[MAX_ITEMS];
    float weights[MAX_N];
    double loss, user_gradient[MAX_N * MAX_DIM], item_gradient[MAX_ITEMS * MAX_DIM];
} trial;

static trial golden;
static rk_real user_gradient[2][MAX_N * MAX_DIM], item_gradient[2][MAX_ITEMS * MAX_DIM];

static void run_shards(const trial *t, int out, double *values) {
    rk_candidate_loss *loss;
    rk_candidate_loss_args args = {.n = t->n,
                                   .users = t->users,
                                   .items = t->items,
                                   .ids = t->ids,
                                   .log_q = t->has_log_q ? t->log_q : NULL,
                                   .weights = t->weighted ? t->weights : NULL,
                                   .scale = 0.3,
                                   .user_gradient = user_gradient[out],
                                   .item_gradient = item_gradient[out]};
    OK(rk_candidate_loss_create(&t->config, &loss));
    OK(rk_candidate_loss_run(loss, &args, values));
    rk_candidate_loss_free(loss);
}

static double run(const trial *t, int out) {
    double value = NAN;
    run_shards(t, out, &value);
    return value;
}

static void check(const char *what, int case_number, int64_t i, double got, double wanted) {
    if (!(fabs(got - wanted) <= 2e-5 * (1 + fabs(wanted))))
        fail_msg("case %d: %s[%d] is %.9g, not %.9g", case_number, what, (int)i, got, wanted);
}

/* The next line's values, `name values...`, into any of the arrays. */
static void read_values(char **at, const char *name, int64_t n, double *out) {
    char *line = *at, *end = strchr(line, '\n');
    assert_memory_equal(line, name, strlen(name));
    line += strlen(name);
    for (int64_t i = 0; i < n; i++) out[i] = strtod(line, &line);
    assert_ptr_equal(line, end);
    *at = end + 1;
}

static void read_case(char **at, trial *t) {
    static double values[MAX_ITEMS * MAX_DIM];
    long long kind, in_batch, hard, n, n_sampled, dim, has_log_q, weighted;
    double temperature, margin, negative_weight;
    assert_int_equal(
        sscanf(*at, "case %lld %lld %lld %lld %lld %lld %lf %lf %lf %lld %lld", &kind, &in_batch, &hard, &n,
               &n_sampled, &dim, &temperature, &margin, &negative_weight, &has_log_q, &weighted),
        11);
    *at = strchr(*at, '\n') + 1;
    t->config = (rk_candidate_loss_config){(rk_candidate_loss_kind)kind,
                                           dim,
                                           n + 3,
                                           n_sampled,
                                           in_batch,
                                           hard,
                                           temperature,
                                           margin,
                                           negative_weight,
                                           .n_micro_batches = 1};
    t->n = n;
    t->has_log_q = has_log_q;
    t->weighted = weighted;
    read_values(at, "users", n * dim, values);
    for (int64_t i = 0; i < n * dim; i++) t->users[i] = (rk_real)values[i];
    read_values(at, "items", (n + n_sampled) * dim, values);
    for (int64_t i = 0; i < (n + n_sampled) * dim; i++) t->items[i] = (rk_real)values[i];
    read_values(at, "ids", n + n_sampled, values);
    for (int64_t i = 0; i < n + n_sampled; i++) t->ids[i] = (int32_t)values[i];
    read_values(at, "log_q", n + n_sampled, values);
    for (int64_t i = 0; i < n + n_sampled; i++) t->log_q[i] = (rk_real)values[i];
    read_values(at, "weights", n, values);
    for (int64_t i = 0; i < n; i++) t->weights[i] = (float)values[i];
    read_values(at, "loss", 1, &t->loss);
    read_values(at, "user_gradient", n * dim, t->user_gradient);
    read_values(at, "item_gradient", (n + n_sampled) * dim, t->item_gradient);
}

static void test_against_torch(void **state) {
    (void)state;
    char *text;
    size_t n_bytes;
    int n_cases = 0;
    OK(rk_file_read(RK_SOURCE_DIR "/tests/golden/candidate_losses.txt", &text, &n_bytes));
    for (char *at = text; *at; n_cases++) {
        trial *t = &golden;
        read_case(&at, t);
        check("loss", n_cases, 0, run(t, 0), t->loss);
        for (int64_t i = 0; i < t->n * t->config.dim; i++)
            check("user_gradient", n_cases, i, (double)user_gradient[0][i], t->user_gradient[i]);
        for (int64_t i = 0; i < (t->n + t->config.n_sampled) * t->config.dim; i++)
            check("item_gradient", n_cases, i, (double)item_gradient[0][i], t->item_gradient[i]);
    }
    assert_int_equal(n_cases, 10);
    rk_free(text);
    assert_int_equal(rk_alloc_live(), 0);
}

static void draw(trial *t, rk_candidate_loss_config config, int64_t n, uint64_t n_ids) {
    rk_rng rng = {3, 1, 0};
    t->config = config;
    t->n = n;
    t->has_log_q = t->weighted = false;
    for (int i = 0; i < MAX_N * MAX_DIM; i++) t->users[i] = (rk_real)rk_rng_normal(&rng);
    for (int i = 0; i < MAX_ITEMS * MAX_DIM; i++) t->items[i] = (rk_real)rk_rng_normal(&rng);
    for (int i = 0; i < MAX_ITEMS; i++) t->ids[i] = (int32_t)rk_rng_below(&rng, n_ids);
}

static void test_same_bits_on_any_threads(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        draw(&golden,
             (rk_candidate_loss_config){(rk_candidate_loss_kind)kind, MAX_DIM, MAX_N, 400, true, 4, 0.5, 0.1,
                                        3, .n_micro_batches = 1},
             MAX_N, 500);
        OK(rk_parallel_set_threads(1));
        double alone = run(&golden, 0);
        OK(rk_parallel_set_threads(5));
        assert_true(run(&golden, 1) == alone && isfinite(alone));
        assert_memory_equal(user_gradient[0], user_gradient[1], sizeof user_gradient[0]);
        assert_memory_equal(item_gradient[0], item_gradient[1], sizeof item_gradient[0]);
    }
    OK(rk_parallel_set_threads(0));
}

/* Shards that run apart, added up as their tree has it, are those that run together. */
static void test_shards_apart(void **state) {
    (void)state;
    for (int round = 0; round < 6; round++) {
        int64_t n = round < 3 ? MAX_N : 100,
                n_values = (n + 40) * MAX_DIM; /* the shorter batch leaves shards empty */
        draw(&golden,
             (rk_candidate_loss_config){(rk_candidate_loss_kind)(round % 3), MAX_DIM, MAX_N, 40, round < 3, 4,
                                        0.5, 0.1, 3, .n_micro_batches = 4},
             n, 500);
        static rk_real users[2][MAX_N * MAX_DIM], parts[2][MAX_ITEMS * MAX_DIM];
        double together[4], apart[4];
        run_shards(&golden, 0, together);
        for (int half = 0; half < 2; half++) {
            golden.config.first_micro_batch = 2 * half;
            golden.config.n_here = 2;
            run_shards(&golden, 1, apart + 2 * half);
            memcpy(users[half], user_gradient[1], sizeof users[half]);
            memcpy(parts[half], item_gradient[1], sizeof parts[half]);
        }
        assert_memory_equal(together, apart, sizeof apart);
        int64_t cut = rk_candidate_loss_first_sample(n, 4, 2);
        assert_memory_equal(user_gradient[0], users[0], (size_t)(cut * MAX_DIM) * sizeof(rk_real));
        assert_memory_equal(user_gradient[0] + cut * MAX_DIM, users[1] + cut * MAX_DIM,
                            (size_t)((n - cut) * MAX_DIM) * sizeof(rk_real));
        for (int64_t i = 0; i < n_values; i++) assert_true(item_gradient[0][i] == parts[0][i] + parts[1][i]);
    }
}

/* All candidates are the samples' own item; and scores far apart. */
static void test_edges(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        draw(&golden,
             (rk_candidate_loss_config){(rk_candidate_loss_kind)kind, 4, 8, 16, true, 1, 1, 0.1, 3,
                                        .n_micro_batches = 1},
             8, 1);
        double loss = run(&golden, 0);
        if (kind < RK_CANDIDATES_COSINE_CONTRASTIVE) assert_true(loss == 0);
        for (int i = 8 * 4; i < 24 * 4; i++) assert_true(item_gradient[0][i] == 0);
        draw(&golden,
             (rk_candidate_loss_config){(rk_candidate_loss_kind)kind, 4, 8, 16, true, 1, 1e-4, 0.1, 3,
                                        .n_micro_batches = 1},
             8, 1000);
        assert_true(isfinite(run(&golden, 0)));
    }
    rk_candidate_loss *made;
    double value = -1;
    OK(rk_candidate_loss_create(&golden.config, &made));
    FAILS(rk_candidate_loss_run(made, &(rk_candidate_loss_args){.n = 9}, &value), RK_INVALID_ARGUMENT,
          "a batch of 9 samples, but the loss was created for 1 to 8");
    rk_candidate_loss_free(made);
    for (long countdown = 1;; countdown++) {
        rk_alloc_fail_after(countdown, false);
        rk_status status = rk_candidate_loss_create(&golden.config, &made);
        rk_alloc_fail_after(0, false);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
    }
    rk_candidate_loss_free(made);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_torch),
                                       cmocka_unit_test(test_same_bits_on_any_threads),
                                       cmocka_unit_test(test_shards_apart), cmocka_unit_test(test_edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
