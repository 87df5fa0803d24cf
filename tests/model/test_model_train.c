/* Training steps and predictions: what they change, and what they must not. */
#include "fixture.h"

#include <math.h>

#include "base/thread/parallel.h"
#include "embedding/local/collection_internal.h"
#include "model/model_internal.h"

/* n_steps on batches first, first + 1, ... of n samples; losses [n_steps] or NULL. */
static void train(rk_model *model, uint64_t first, int n_steps, int64_t n, double *losses) {
    static drawn_batch b;
    for (int i = 0; i < n_steps; i++) {
        double loss;
        draw_batch(&b, first + (uint64_t)i, n, rk_model_n_tasks(model));
        OK(rk_model_train(model, &b.batch, &loss));
        if (losses) losses[i] = loss;
    }
}

static int64_t with_staleness; /* of the models that build makes */

static rk_model *build(fixture *f, const usual_case *c) {
    rk_model *model;
    usual_init(f, c);
    f->options.staleness = with_staleness;
    f->options.max_batch = MAX_SAMPLES;
    OK(rk_model_build(&f->options, &model));
    return model;
}

static void test_learns(void **state) {
    (void)state;
    static drawn_batch b;
    for (int c = 0; c < N_USUAL_CASES; c++) {
        fixture f;
        rk_model *model = build(&f, &usual_cases[c]);
        double first = 0, last = 0;
        draw_batch(&b, 4, 50, usual_cases[c].n_tasks);
        for (int i = 0; i < 150; i++) OK(rk_model_train(model, &b.batch, i ? &last : &first));
        if (!(last < 0.8 * first))
            fail_msg("%s: the loss went from %g to %g only", usual_cases[c].text, first, last);
        assert_int_equal(rk_model_n_steps(model), 150);
        rk_model_free(model);
        fixture_release(&f);
    }
}

/* Wide normalized layers, whose products must not be large: a model that knows nothing says about 1/2. */
static void test_first_loss(void **state) {
    (void)state;
    static const usual_case wide = {
        "model: {kind: final_mlp, deep: [400], deep2: [100], fusion_heads: 5, batch_norm: true}" SEQUENCE, 1};
    fixture f;
    rk_model *model = build(&f, &wide);
    double loss;
    train(model, 0, 1, MAX_SAMPLES, &loss);
    if (!(loss > 0.5 && loss < 1.2)) fail_msg("the first loss is %g", loss);
    rk_model_free(model);
    fixture_release(&f);
}

static void check_same_bits(int64_t staleness) {
    static drawn_batch b;
    with_staleness = staleness;
    for (int c = 0; c < N_USUAL_CASES; c++) {
        double losses[4][20];
        float predictions[4][MAX_SAMPLES * MAX_TASKS];
        char *states[4];
        size_t n_bytes[4];
        memset(predictions, 0, sizeof predictions);
        for (int threads = 1; threads <= 3; threads++) {
            fixture f;
            OK(rk_parallel_set_threads(threads));
            rk_model *model = build(&f, &usual_cases[c]);
            train(model, 0, 20, MAX_SAMPLES, losses[threads]);
            draw_batch(&b, 99, MAX_SAMPLES, usual_cases[c].n_tasks);
            OK(rk_model_predict(model, &b.batch, predictions[threads]));
            states[threads] = copy_state(model, &n_bytes[threads]);
            rk_model_free(model);
            fixture_release(&f);
        }
        for (int threads = 2; threads <= 3; threads++) {
            assert_memory_equal(losses[threads], losses[1], sizeof losses[1]);
            assert_memory_equal(predictions[threads], predictions[1], sizeof predictions[1]);
            assert_int_equal(n_bytes[threads], n_bytes[1]);
            assert_memory_equal(states[threads], states[1], n_bytes[1]);
        }
        for (int threads = 1; threads <= 3; threads++) rk_free(states[threads]);
    }
    OK(rk_parallel_set_threads(1));
    with_staleness = 0;
}

static void test_same_bits_at_any_thread_count(void **state) {
    (void)state;
    check_same_bits(0);
    check_same_bits(2);
}

static int count_early(const rk_model *model) {
    int n = 0;
    for (int32_t f = 0; f < model->n_lookups; f++) n += model->activations[f].data != NULL;
    return n;
}

/* Tables that fit the caches one by one, and not together, are looked up before the blocks: the same bits as
 * within them. */
static void test_early_lookups(void **state) {
    (void)state;
    for (int c = 0; c < N_USUAL_CASES; c++) {
        char *states[2];
        size_t n_bytes[2];
        for (int early = 0; early < 2; early++) {
            fixture f;
            rk_model *model = build(&f, &usual_cases[c]);
            model->embeddings->cache_bytes = early ? rk_embeddings_bytes(model->embeddings) - 1 : 0;
            train(model, 0, 4, MAX_SAMPLES, NULL);
            assert_true(early ? count_early(model) > 0 : count_early(model) == 0);
            states[early] = copy_state(model, &n_bytes[early]);
            rk_model_free(model);
            fixture_release(&f);
        }
        assert_int_equal(n_bytes[0], n_bytes[1]);
        assert_memory_equal(states[0], states[1], n_bytes[0]);
        for (int early = 0; early < 2; early++) rk_free(states[early]);
    }
}

/* The rows' part of the state, copied out or back. */
static void copy_tables(rk_model *model, char *copy, bool back) {
    rk_state_dict state = {0};
    OK(rk_model_state_dict(model, &state));
    for (size_t i = 0; i < state.n; i++) {
        if (strncmp(state.entries[i].name, "table/", 6) != 0) continue;
        size_t n_bytes = rk_state_dict_entry_bytes(&state.entries[i]);
        memcpy(back ? state.entries[i].data : copy, back ? copy : state.entries[i].data, n_bytes);
        copy += n_bytes;
    }
    rk_state_dict_release(&state);
}

/* Stale by one: step 2 sees the rows as they were before step 1's update, which a synchronous model sees if
 * they are put back; step 3 sees step 1's. */
static void test_stale_by_one(void **state) {
    (void)state;
    static char first[1 << 20], second[1 << 20];
    for (int c = 0; c < N_USUAL_CASES; c++) {
        fixture f, g;
        double stale[3], exact[3];
        with_staleness = 1;
        rk_model *a = build(&f, &usual_cases[c]);
        with_staleness = 0;
        rk_model *b = build(&g, &usual_cases[c]);
        train(a, 0, 3, 60, stale);
        copy_tables(b, first, false);
        train(b, 0, 1, 60, &exact[0]);
        copy_tables(b, second, false);
        copy_tables(b, first, true);
        train(b, 1, 1, 60, &exact[1]);
        copy_tables(b, second, true);
        train(b, 2, 1, 60, &exact[2]);
        assert_memory_equal(stale, exact, sizeof stale);
        rk_model_free(a);
        rk_model_free(b);
        fixture_release(&f);
        fixture_release(&g);
    }
}

/* A step that must fail as not finite and leave every byte of the state. */
static void assert_refused(rk_model *model, const rk_batch *batch, const char *message) {
    size_t n_before, n_after;
    char *before = copy_state(model, &n_before);
    double loss = 123;
    assert_int_equal(rk_model_train(model, batch, &loss), RK_NOT_FINITE);
    if (message && strcmp(rk_last_error(), message) != 0)
        fail_msg("'%s', not '%s'", rk_last_error(), message);
    char *after = copy_state(model, &n_after);
    assert_true(loss == 123);
    assert_int_equal(n_after, n_before);
    assert_memory_equal(after, before, n_before);
    rk_free(before);
    rk_free(after);
}

static void test_not_finite_changes_nothing(void **state) {
    (void)state;
    static drawn_batch b;
    for (int c = 0; c < N_USUAL_CASES; c++) {
        fixture f;
        rk_model *model = build(&f, &usual_cases[c]);
        int32_t n_tasks = usual_cases[c].n_tasks;
        train(model, 0, 2, 20, NULL);
        draw_batch(&b, 3, 20, n_tasks);
        b.labels[5 * n_tasks] = NAN;
        assert_refused(model, &b.batch, "step 3: row 1005: label 'click' is nan");
        draw_batch(&b, 3, 20, n_tasks);
        b.sample_weights[7] = INFINITY;
        assert_refused(model, &b.batch, "step 3: row 1007: the sample weight is inf");
        draw_batch(&b, 3, 20, n_tasks);
        b.dense[2 * N_USUAL_DENSE + 1] = NAN;
        if (strstr(usual_cases[c].text, "wide_deep") == NULL) assert_refused(model, &b.batch, NULL);
        train(model, 5, 1, 20, NULL); /* and the model goes on */
        assert_int_equal(rk_model_n_steps(model), 3);
        assert_int_equal(rk_model_n_skipped_steps(model), 0);
        rk_model_free(model);
        fixture_release(&f);
    }
}

/* A finite loss whose gradients overflow. */
static void test_gradients_that_overflow(void **state) {
    (void)state;
    static drawn_batch b;
    fixture f;
    rk_model *model =
        build(&f, &(usual_case){"model: {kind: dnn, activation: none, deep: [4]}\nembedding: {dim: 4}", 2});
    draw_batch(&b, 2, 3, 2);
    for (int i = 0; i < 3 * N_USUAL_DENSE; i++) b.dense[i] *= 1e15f;
    for (int i = 0; i < 3; i++) b.labels[2 * i + 1] = 3e30f;
    assert_refused(model, &b.batch, NULL);
    rk_model_free(model);
    fixture_release(&f);
}

static void test_skipped_steps_are_counted(void **state) {
    (void)state;
    static drawn_batch b;
    fixture f;
    usual_init(&f, &usual_cases[5]);
    f.options.skip_not_finite = true;
    rk_model *model, *other;
    OK(rk_model_build(&f.options, &model));
    OK(rk_model_build(&f.options, &other));
    train(model, 0, 3, 30, NULL);
    train(other, 0, 1, 30, NULL);
    for (int i = 0; i < 3; i++) {
        double loss = 0;
        draw_batch(&b, 50, 30, 1);
        b.labels[i] = INFINITY;
        OK(rk_model_train(other, &b.batch, &loss));
        assert_true(isnan(loss));
        assert_int_equal(rk_model_n_skipped_steps(other), i + 1);
        assert_int_equal(rk_model_n_steps(other), 1);
    }
    train(other, 1, 2, 30, NULL);
    rk_state_dict list = {0};
    OK(rk_model_state_dict(other, &list));
    assert_int_equal(*(int64_t *)rk_state_dict_find(&list, "steps_not_finite")->data, 3);
    assert_int_equal(*(int64_t *)rk_state_dict_find(&list, "step")->data, 3);
    rk_state_dict_release(&list);
    other->n_not_finite = 0; /* all else is as if the bad batches had never come */
    size_t n, n_other;
    char *a = copy_state(model, &n), *b_state = copy_state(other, &n_other);
    assert_int_equal(n, n_other);
    assert_memory_equal(a, b_state, n);
    rk_free(a);
    rk_free(b_state);
    rk_model_free(model);
    rk_model_free(other);
    fixture_release(&f);
}

static void test_predict_changes_nothing(void **state) {
    (void)state;
    static drawn_batch b;
    static float whole[MAX_SAMPLES * MAX_TASKS], piece[MAX_SAMPLES * MAX_TASKS];
    for (int c = 0; c < N_USUAL_CASES; c++) {
        fixture f;
        rk_model *model = build(&f, &usual_cases[c]);
        int32_t n_tasks = usual_cases[c].n_tasks;
        train(model, 0, 3, 40, NULL);
        size_t n_before, n_after;
        char *before = copy_state(model, &n_before);
        draw_batch(&b, 77, MAX_SAMPLES, n_tasks);
        b.batch.labels = NULL;
        OK(rk_model_predict(model, &b.batch, whole));
        for (int i = 0; i < MAX_SAMPLES; i++) assert_true(whole[i * n_tasks] > 0 && whole[i * n_tasks] < 1);
        model->max_batch = 64; /* the same in pieces: 64, 64, 64, 8 */
        OK(rk_model_predict(model, &b.batch, piece));
        for (int i = 0; i < MAX_SAMPLES * n_tasks; i++) assert_true(fabsf(whole[i] - piece[i]) < 1e-5f);
        b.batch.n = 0;
        OK(rk_model_predict(model, &b.batch, NULL));
        char *after = copy_state(model, &n_after);
        assert_memory_equal(after, before, n_before);
        rk_free(before);
        rk_free(after);
        rk_model_free(model);
        fixture_release(&f);
    }
}

/* A bad id beyond the first piece: nothing is written, and the message says where. */
static void test_predict_fails_whole(void **state) {
    (void)state;
    static drawn_batch b;
    float predictions[MAX_SAMPLES];
    for (int i = 0; i < MAX_SAMPLES; i++) predictions[i] = -5;
    fixture f;
    rk_model *model = build(&f, &usual_cases[7]);
    model->max_batch = 64;
    draw_batch(&b, 8, MAX_SAMPLES, 1);
    b.ids[0][150] = 40;
    assert_int_equal(rk_model_predict(model, &b.batch, predictions), RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), "samples from 128 on: "));
    assert_non_null(strstr(rk_last_error(), "'user'"));
    for (int i = 0; i < MAX_SAMPLES; i++) assert_true(predictions[i] == -5);
    rk_model_free(model);
    fixture_release(&f);
}

static void restore(rk_model *model, const char *bytes) {
    rk_state_dict state = {0};
    OK(rk_model_state_dict(model, &state));
    for (size_t i = 0; i < state.n; i++) {
        memcpy(state.entries[i].data, bytes, rk_state_dict_entry_bytes(&state.entries[i]));
        bytes += rk_state_dict_entry_bytes(&state.entries[i]);
    }
    rk_state_dict_release(&state);
}

static void test_state_restores_the_run(void **state) {
    (void)state;
    for (int c = 0; c < N_USUAL_CASES; c++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            fixture f;
            double losses[4], again[4];
            usual_init(&f, &usual_cases[c]);
            f.options.dtype = bf16 ? RK_BF16 : RK_F32;
            rk_model *model, *other;
            OK(rk_model_build(&f.options, &model));
            OK(rk_model_build(&f.options, &other));
            train(model, 0, 5, 30, NULL);
            size_t n, n_after, n_again;
            char *saved = copy_state(model, &n);
            train(model, 10, 4, 30, losses);
            char *after = copy_state(model, &n_after);
            train(other, 30, 1, 30, NULL); /* anything else */
            restore(other, saved);
            assert_int_equal(rk_model_n_steps(other), 5);
            train(other, 10, 4, 30, again);
            char *other_after = copy_state(other, &n_again);
            assert_memory_equal(losses, again, sizeof losses);
            assert_int_equal(n_after, n_again);
            assert_memory_equal(after, other_after, n_after);
            rk_free(saved);
            rk_free(after);
            rk_free(other_after);
            rk_model_free(model);
            rk_model_free(other);
            fixture_release(&f);
        }
}

static void test_batches_that_do_not_fit(void **state) {
    (void)state;
    static drawn_batch b;
    fixture f;
    rk_model *model = build(&f, &usual_cases[0]);
    double loss;
    float predictions[MAX_SAMPLES];
    draw_batch(&b, 1, 10, 1);
    rk_batch batch = b.batch;
    batch.n = 0;
    FAILS(rk_model_train(model, &batch, &loss), RK_INVALID_ARGUMENT,
          "invalid number of samples in a batch: 0");
    batch.n = MAX_SAMPLES + 1;
    FAILS(rk_model_train(model, &batch, &loss), RK_INVALID_ARGUMENT,
          "the batch has 201 samples, but the model was created for up to 200");
    batch = b.batch;
    batch.n_dense = 2;
    FAILS(rk_model_predict(model, &batch, predictions), RK_INVALID_ARGUMENT,
          "the batch has 2 dense numbers a sample, but the model takes 3");
    batch = b.batch;
    batch.n_features = 3;
    FAILS(rk_model_train(model, &batch, &loss), RK_INVALID_ARGUMENT,
          "the batch has 3 features, but the model takes 4");
    batch = b.batch;
    batch.dense = NULL;
    FAILS(rk_model_train(model, &batch, &loss), RK_INVALID_ARGUMENT,
          "the batch's dense numbers or features are missing");
    batch = b.batch;
    batch.labels = NULL;
    FAILS(rk_model_train(model, &batch, &loss), RK_INVALID_ARGUMENT, "training needs labels");
    batch = b.batch;
    batch.n_tasks = 2;
    FAILS(rk_model_train(model, &batch, &loss), RK_INVALID_ARGUMENT,
          "the batch has 2 labels a sample, but the model has 1 tasks");
    b.sample_weights[3] = -1;
    FAILS(rk_model_train(model, &b.batch, &loss), RK_BAD_DATA, "row 1003: the sample weight -1 is negative");
    assert_int_equal(rk_model_n_steps(model), 0);
    rk_model_free(model);
    fixture_release(&f);
}

static void test_learning_rate_scales(void **state) {
    (void)state;
    fixture f;
    rk_model *model = build(&f, &usual_cases[8]);
    train(model, 0, 1, 20, NULL);
    rk_state_dict list = {0};
    OK(rk_model_state_dict(model, &list));
    const rk_state_dict_entry *rows = rk_state_dict_find(&list, "table/item/rows"),
                              *bias = rk_state_dict_find(&list, "dense/logits/bias");
    assert_non_null(rows);
    assert_non_null(bias);
    float *kept;
    OK(rk_alloc(rk_state_dict_entry_bytes(rows), 1, &kept));
    memcpy(kept, rows->data, rk_state_dict_entry_bytes(rows));
    float kept_bias = *(float *)bias->data;
    rk_model_scale_learning_rate(model, 0); /* no step at all */
    train(model, 1, 1, 20, NULL);
    assert_memory_equal(rows->data, kept, rk_state_dict_entry_bytes(rows));
    assert_true(*(float *)bias->data == kept_bias);
    rk_model_scale_learning_rate(model, 1);
    train(model, 2, 1, 20, NULL);
    assert_memory_not_equal(rows->data, kept, rk_state_dict_entry_bytes(rows));
    assert_true(*(float *)bias->data != kept_bias);
    rk_free(kept);
    rk_state_dict_release(&list);
    rk_model_free(model);
    fixture_release(&f);
}

/* With no learning, a step's loss on the same batch moves only if units are dropped, others at each step. */
static void test_dropout_is_by_step(void **state) {
    (void)state;
    static drawn_batch b;
    for (int dropout = 0; dropout < 2; dropout++) {
        fixture f;
        rk_model *model =
            build(&f, &(usual_case){dropout ? "model: {kind: dcn, dropout: 0.5}\nembedding: {dim: 4}"
                                            : "model: dcn\nembedding: {dim: 4}",
                                    1});
        rk_model_scale_learning_rate(model, 0);
        draw_batch(&b, 1, 50, 1);
        double first, second;
        OK(rk_model_train(model, &b.batch, &first));
        OK(rk_model_train(model, &b.batch, &second));
        assert_true((first != second) == dropout);
        rk_model_free(model);
        fixture_release(&f);
    }
}

static void predict_at_first(const usual_case *c, rk_dtype dtype, float *predictions) {
    static drawn_batch b;
    fixture f;
    usual_init(&f, c);
    f.options.dtype = dtype;
    f.options.max_batch = MAX_SAMPLES;
    rk_model *model;
    OK(rk_model_build(&f.options, &model));
    draw_batch(&b, 60, MAX_SAMPLES, 1);
    OK(rk_model_predict(model, &b.batch, predictions));
    rk_model_free(model);
    fixture_release(&f);
}

/* In the hidden layers; in the cross layers. */
static void test_bf16_is_near_f32(void **state) {
    (void)state;
    static const usual_case cases[] = {{"model: dnn\nembedding: {dim: 4}", 1},
                                       {"model: {kind: dcn_v2, deep: [2]}\nembedding: {dim: 4}", 1}};
    for (int c = 0; c < 2; c++) {
        float f32[MAX_SAMPLES], bf16[MAX_SAMPLES], most = 0;
        predict_at_first(&cases[c], RK_F32, f32);
        predict_at_first(&cases[c], RK_BF16, bf16);
        for (int i = 0; i < MAX_SAMPLES; i++) most = fmaxf(most, fabsf(f32[i] - bf16[i]));
        if (!(most > 0 && most < 0.01f)) fail_msg("predictions differ by up to %g", most);
    }
}

static int no_leaks(void **state) {
    (void)state;
    return rk_alloc_live() != 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns),
        cmocka_unit_test(test_first_loss),
        cmocka_unit_test(test_same_bits_at_any_thread_count),
        cmocka_unit_test(test_early_lookups),
        cmocka_unit_test(test_stale_by_one),
        cmocka_unit_test(test_not_finite_changes_nothing),
        cmocka_unit_test(test_gradients_that_overflow),
        cmocka_unit_test(test_skipped_steps_are_counted),
        cmocka_unit_test(test_predict_changes_nothing),
        cmocka_unit_test(test_predict_fails_whole),
        cmocka_unit_test(test_state_restores_the_run),
        cmocka_unit_test(test_batches_that_do_not_fit),
        cmocka_unit_test(test_learning_rate_scales),
        cmocka_unit_test(test_dropout_is_by_step),
        cmocka_unit_test(test_bf16_is_near_f32),
    };
    return cmocka_run_group_tests(tests, NULL, no_leaks);
}
