/* What trainers keep back of dense gradients, in checkpoints of as many trainers and of others. */
#include "testing.h"

#include "base/memory.h"
#include "model/step/residual.h"

enum { N = 3, MOST = 4 };

static void open_trainers(rk_residual *trainers, int n) {
    for (int t = 0; t < n; t++) OK(rk_residual_init(&trainers[t], N, t, n));
}

static void close_trainers(rk_residual *trainers, int n) {
    for (int t = 0; t < n; t++) rk_residual_release(&trainers[t]);
}

/* The tensors of `from`, each at an odd byte, to all of `to`. */
static void pass_on(rk_residual *from, int n_from, rk_residual *to, int n_to) {
    rk_state_dict state = {0};
    char bytes[1 + N * sizeof(float)];
    for (int f = 0; f < n_from; f++) OK(rk_residual_state_dict(&from[f], &state));
    assert_int_equal(state.n, n_from);
    for (size_t i = 0; i < state.n; i++) {
        const rk_state_dict_entry *entry = &state.entries[i];
        assert_true(entry->type == RK_F32 && entry->n_dims == 1 && entry->dims[0] == N && !entry->shared);
        memcpy(bytes + 1, entry->data, N * sizeof(float));
        for (int t = 0; t < n_to; t++) OK(rk_residual_read(&to[t], entry->name, N, bytes + 1));
    }
    rk_state_dict_release(&state);
}

static void test_passed_on(void **state) {
    (void)state;
    for (int n_from = 1; n_from <= MOST; n_from++) {
        for (int n_to = 1; n_to <= MOST; n_to++) {
            rk_residual from[MOST], to[MOST];
            open_trainers(from, n_from);
            open_trainers(to, n_to);
            for (int f = 0; f < n_from; f++) {
                for (int i = 0; i < N; i++) from[f].next[i] = (float)(f + 1) * (float)(i + 1) / 4;
                rk_residual_accept(&from[f]);
            }
            pass_on(from, n_from, to, n_to);
            for (int t = 0; t < n_to; t++) {
                for (int i = 0; i < N; i++) {
                    int shares = n_from == n_to ? t + 1 : t == 0 ? n_from * (n_from + 1) / 2 : 0;
                    assert_true(to[t].values[i] == (float)shares * (float)(i + 1) / 4);
                }
            }
            close_trainers(from, n_from);
            close_trainers(to, n_to);
        }
    }
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const names[] = {"residual/",     "residual/2:2", "residual/-1:2",
                                        "residual/0:2x", "residual/0",   "residual/a:b"};
    float values[N] = {1, 2, 3};
    rk_residual residual, none = {0};
    OK(rk_residual_init(&residual, N, 0, 2));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "tensor '%s' names no trainer", names[i]);
        FAILS(rk_residual_read(&residual, names[i], N, values), RK_BAD_DATA, expected);
    }
    FAILS(rk_residual_read(&residual, "residual/0:2", N - 1, values), RK_CONFIG,
          "tensor 'residual/0:2' has 2 values, but the dense part has 3 parameters\n"
          "hint: the configuration changed since the checkpoint was saved");
    OK(rk_residual_read(&residual, "residual/1:2", N, values));
    assert_true(residual.values[0] == 0);
    OK(rk_residual_read(&none, "residual/0:2", N, values));
    rk_residual_release(&residual);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_passed_on), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
