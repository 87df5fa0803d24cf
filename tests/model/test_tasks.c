/* Several tasks: samples that some have no label for, weights that decay or are learned, products. */
#include "fixture.h"

#include <math.h>

#include "model/model_internal.h"

static const char *const text =
    "model: {kind: mmoe, experts: 2, expert_units: [6], towers: [4]}\nembedding: {dim: 4}";

static rk_model *build_with(fixture *f, const char *model_text, int32_t n_tasks, void (*change)(fixture *f)) {
    rk_model *model;
    fixture_init(f, model_text, usual_features, N_USUAL, N_USUAL_DENSE, n_tasks);
    if (change) change(f);
    OK(rk_model_build(&f->options, &model));
    return model;
}

static void make_optional(fixture *f) {
    f->tasks[1].optional = true;
}

static void lose_second(fixture *f) {
    f->tasks[1].weight = 0;
}

static void end(fixture *f, rk_model *model) {
    rk_model_free(model);
    fixture_release(f);
}

/* A task without a sample in the batch is as one of weight 0, in loss, rows and dense parameters. */
static void test_no_sample(void **state) {
    (void)state;
    static drawn_batch b;
    fixture f, g;
    rk_model *absent = build_with(&f, text, 2, make_optional),
             *weightless = build_with(&g, text, 2, lose_second);
    for (uint64_t seed = 0; seed < 4; seed++) {
        double loss, wanted;
        draw_batch(&b, seed, 60, 2);
        OK(rk_model_train(weightless, &b.batch, &wanted));
        for (int i = 0; i < 60; i++) b.labels[2 * i + 1] = NAN;
        OK(rk_model_train(absent, &b.batch, &loss));
        assert_true(loss == wanted && isfinite(loss));
    }
    size_t n, n_wanted;
    char *got = copy_state(absent, &n), *wanted = copy_state(weightless, &n_wanted);
    assert_int_equal(n, n_wanted);
    assert_memory_equal(got, wanted, n);
    rk_free(got);
    rk_free(wanted);
    end(&f, absent);
    end(&g, weightless);
}

/* The mean is over the task's own samples: those that have no label might as well have other weights. */
static void test_own_mean(void **state) {
    (void)state;
    static drawn_batch b;
    fixture f;
    rk_model *model = build_with(&f, text, 2, make_optional);
    double weights[2];
    draw_batch(&b, 3, 60, 2);
    for (int i = 0; i < 60; i += 2) b.labels[2 * i + 1] = NAN;
    double all = 0, odd = 0;
    for (int i = 0; i < 60; i++) {
        all += (double)b.sample_weights[i];
        odd += i % 2 ? (double)b.sample_weights[i] : 0;
    }
    rk_rank_batch whole = rk_rank_batch_from_batch(&b.batch, RK_NO_TIMESTAMP);
    rk_model_sum_sample_weights(model, &whole, weights);
    assert_true(weights[0] == all && weights[1] == odd);
    end(&f, model);
    model = build_with(&f, text, 2, NULL); /* without `optional` a label that is none is an error, as ever */
    double loss;
    FAILS(rk_model_train(model, &b.batch, &loss), RK_NOT_FINITE, "step 1: row 1000: label 'rating' is nan");
    end(&f, model);
    model = build_with(&f, text, 2, make_optional);
    b.labels[1] = INFINITY;
    FAILS(rk_model_train(model, &b.batch, &loss), RK_NOT_FINITE, "step 1: row 1000: label 'rating' is inf");
    end(&f, model);
}

static void make_product(fixture *f) {
    static char click[] = "click", then[] = "then", both[] = "both";
    static char *factors[] = {click, both};
    f->tasks[1] = (rk_label_section){.name = then, .weight = 0.7, .product_of = factors, .n_product_of = 2};
    f->tasks[2] = (rk_label_section){.name = both, .weight = 0};
}

/* A product stands where its label does, between its factors here. */
static void test_product(void **state) {
    (void)state;
    static drawn_batch b;
    fixture f;
    float predictions[3 * 60];
    double loss;
    rk_model *model = build_with(&f, text, 3, make_product);
    draw_batch(&b, 4, 60, 3);
    for (int i = 0; i < 60; i++) {
        b.labels[3 * i + 1] = b.labels[3 * i] * (float)(i % 2);
        b.labels[3 * i + 2] = (float)(i % 2);
    }
    for (int i = 0; i < 20; i++) OK(rk_model_train(model, &b.batch, &loss));
    OK(rk_model_predict(model, &b.batch, predictions));
    for (int i = 0; i < 60; i++)
        assert_true(fabsf(predictions[3 * i + 1] - predictions[3 * i] * predictions[3 * i + 2]) < 1e-6f);
    end(&f, model);
}

static rk_parameter *log_variances(rk_model *model) {
    for (int32_t p = 0; p < rk_graph_n_parameters(model->graph); p++)
        if (strcmp(rk_graph_parameter(model->graph, p)->name, "task_log_variances/value") == 0)
            return rk_graph_parameter(model->graph, p);
    return NULL;
}

/* Learned weights: no decay of theirs, and none for a task without samples or of weight 0. */
static void test_uncertainty(void **state) {
    (void)state;
    static drawn_batch b;
    fixture f;
    fixture_init(&f,
                 "model: {kind: mmoe, experts: 2, expert_units: [6], towers: [4], task_weights: "
                 "uncertainty}\nembedding: {dim: 4}",
                 usual_features, N_USUAL, N_USUAL_DENSE, 2);
    make_optional(&f);
    use_optimizer(&f, RK_OPTIMIZER_SGD, 0.1);
    f.options.dense_optimizer.optimizer.weight_decay = 0.1;
    f.options.dense_optimizer.l2 = 0.5;
    rk_model *model;
    double loss, before;
    OK(rk_model_build(&f.options, &model));
    rk_parameter *s = log_variances(model);
    s->value[0] = 0.25f;
    s->value[1] = -0.5f;
    draw_batch(&b, 2, 60, 2);
    for (int i = 0; i < 60; i++) b.labels[2 * i + 1] = NAN;
    OK(rk_model_train(model, &b.batch, &before));
    /* loss = exp(-s) l + s/2, and its slope in s is 1/2 - exp(-s) l */
    double first = 0.25 - 0.1 * (0.5 - (before - 0.125));
    assert_true(fabs((double)s->value[0] - first) < 1e-6 && s->value[1] == -0.5f);
    draw_batch(&b, 2, 60, 2);
    OK(rk_model_train(model, &b.batch, &loss));
    assert_true(s->value[1] >
                -0.4f); /* ratings of about 3 against predictions of about 0: a large loss, a small weight */
    end(&f, model);
}

static void make_fading(fixture *f) {
    use_optimizer(f, RK_OPTIMIZER_SGD, 1e-30); /* nothing but the weight changes */
    f->tasks[0].weight_decay_rate = 0.25;
}

static void test_decay(void **state) {
    (void)state;
    static drawn_batch b;
    fixture f;
    double losses[3];
    rk_model *model = build_with(&f, text, 1, make_fading);
    draw_batch(&b, 2, 60, 1);
    for (int i = 0; i < 3; i++) OK(rk_model_train(model, &b.batch, &losses[i]));
    assert_true(fabs(losses[1] - 0.75 * losses[0]) < 1e-6 && fabs(losses[2] - 0.5625 * losses[0]) < 1e-6);
    end(&f, model);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_sample), cmocka_unit_test(test_own_mean),
                                       cmocka_unit_test(test_product), cmocka_unit_test(test_uncertainty),
                                       cmocka_unit_test(test_decay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
