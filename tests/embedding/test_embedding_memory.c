/* Memory: every allocation may fail, none leaks, and a steady run takes none. */
#include "embedding_fixture.h"

#include "base/thread/parallel.h"

static drawn batch;

/* Creates, looks up for training and for evaluation, updates and lists the state of a collection with every
 * sort of feature. */
static rk_status use(void) {
    rk_embeddings *e;
    rk_optimizer adam;
    RK_TRY(rk_optimizer_init(&adam, RK_OPTIMIZER_ADAM));
    RK_TRY(try_make_usual(&adam, RK_BF16, &e));
    rk_state_dict state = {0};
    rk_lookup *lookup = NULL;
    rk_status status;
    RK_GOTO(rk_lookup_create(e, &lookup));
    for (int64_t n = 5; n < 40 && status == RK_OK; n += 30) { /* the second batch outgrows the first */
        draw(&batch, (uint64_t)n, n);
        RK_GOTO(look_up(e, batch.n, batch.ids, batch.activations));
        RK_GOTO(rk_embeddings_lookup_eval(e, batch.n, batch.ids, lookup, batch.activations));
        draw_gradients(&batch, (uint64_t)n);
        RK_GOTO(apply_gradients(e, batch.activations));
        for (int i = 0; i < 2; i++) {
            RK_GOTO(rk_embeddings_lookup(e, batch.n, batch.ids, lookup, batch.activations));
            draw_gradients(&batch, (uint64_t)n);
            RK_GOTO(rk_lookup_backward(lookup, batch.activations));
            draw(&batch, (uint64_t)(n + i), n);
        }
        RK_GOTO(rk_embeddings_step(e));
        RK_GOTO(rk_embeddings_state_dict(e, &state));
        rk_state_dict_release(&state);
    }
done:
    rk_state_dict_release(&state);
    rk_lookup_free(lookup);
    rk_embeddings_free(e);
    return status;
}

static void test_out_of_memory(void **state) {
    (void)state;
    OK(use());
    long before = rk_alloc_live();
    for (int sticky = 0; sticky < 2; sticky++) {
        rk_status status = RK_NO_MEMORY;
        long n = 0;
        while (status != RK_OK) {
            rk_alloc_fail_after(++n, sticky);
            status = use();
            rk_alloc_fail_after(0, false);
            assert_int_equal(rk_alloc_live(), before);
            if (status == RK_OK) break;
            assert_int_equal(status, RK_NO_MEMORY);
            assert_non_null(strstr(rk_last_error(), "could not allocate"));
        }
        assert_true(n > 100);
    }
}

/* More rows than a process has addresses: the hint says what has rows only for ids that are met. */
static void test_more_rows_than_addresses(void **state) {
    (void)state;
    rk_table_config table = RK_TABLE_CONFIG_INIT;
    rk_feature_config feature = RK_FEATURE_CONFIG_INIT;
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    rk_optimizer adam;
    rk_embeddings *e;
    OK(rk_optimizer_init(&adam, RK_OPTIMIZER_ADAM));
    table.name = feature.name = feature.table = "user";
    table.n_rows = 10000000000000;
    table.dim = 16;
    config.tables = &table;
    config.features = &feature;
    config.n_tables = config.n_features = 1;
    config.optimizer = &adam;
    assert_int_equal(rk_embeddings_create(&config, &e), RK_NO_MEMORY);
    assert_non_null(strstr(rk_last_error(), "table 'user' of 10000000000000 rows: could not allocate"));
    assert_non_null(strstr(rk_last_error(), "that are met (key, max_capacity)"));
    assert_int_equal(rk_alloc_live(), 0);
}

/* A lookup or an update that found no memory has changed nothing, and can be done again. */
static void test_no_half_steps(void **state) {
    (void)state;
    rk_optimizer adam;
    OK(rk_optimizer_init(&adam, RK_OPTIMIZER_ADAM));
    for (long n = 1; n < 60; n++) {
        rk_embeddings *e = make_usual(&adam, RK_F32), *whole = make_usual(&adam, RK_F32);
        draw(&batch, 4, 50);
        rk_alloc_fail_after(n, true);
        rk_status status = look_up(e, batch.n, batch.ids, batch.activations);
        rk_alloc_fail_after(0, false);
        if (status == RK_OK) {
            assert_true(n > 10);
            n = 60;
        } else {
            assert_int_equal(status, RK_NO_MEMORY);
            assert_same_state(e, whole, true);
            OK(look_up(e, batch.n, batch.ids, batch.activations));
        }
        draw_gradients(&batch, 4);
        rk_alloc_fail_after(1, true); /* an update needs no memory that its lookup did not take */
        OK(apply_gradients(e, batch.activations));
        rk_alloc_fail_after(0, false);
        OK(look_up(whole, batch.n, batch.ids, batch.activations));
        draw_gradients(&batch, 4);
        OK(apply_gradients(whole, batch.activations));
        assert_same_state(e, whole, true);
        rk_embeddings_free(e);
        rk_embeddings_free(whole);
    }
}

/* A step from two backwards of one lookup. */
static void accumulate(rk_embeddings *e, rk_lookup *lookup, uint64_t seed, int64_t n) {
    for (uint64_t i = 0; i < 2; i++) {
        draw(&batch, seed, n);
        OK(rk_embeddings_lookup(e, batch.n, batch.ids, lookup, batch.activations));
        draw_gradients(&batch, seed + i);
        OK(rk_lookup_backward(lookup, batch.activations));
    }
    OK(rk_embeddings_step(e));
}

static void test_steady_state_allocates_nothing(void **state) {
    (void)state;
    OK(rk_parallel_set_threads(3));
    rk_embeddings *e = make_usual(NULL, RK_F32);
    draw(&batch, 1, 500);
    rk_lookup *lookup;
    OK(rk_lookup_create(e, &lookup));
    OK(rk_embeddings_lookup_eval(e, batch.n, batch.ids, lookup, batch.activations));
    train_steps(e, &batch, 1, 1, 500);
    for (int i = 0; i < 2; i++) accumulate(e, lookup, 1, 500); /* its two lists take turns */
    rk_alloc_fail_after(1, true);
    train_steps(e, &batch, 1, 3, 450); /* no larger in any way than the first */
    accumulate(e, lookup, 1, 450);
    accumulate(e, lookup, 2, 450);
    draw(&batch, 1, 500);
    OK(rk_embeddings_lookup_eval(e, batch.n, batch.ids, lookup, batch.activations));
    rk_alloc_fail_after(0, false);
    rk_lookup_free(lookup);
    rk_embeddings_free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_more_rows_than_addresses),
        cmocka_unit_test(test_no_half_steps),
        cmocka_unit_test(test_steady_state_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
