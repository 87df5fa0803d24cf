/* What a machine reaches, by turns. */
#include "testing.h"

#include "base/memory.h"
#include "train/run/machine_limits.h"

static void check(rk_limit *limit) {
    for (int i = 0; i < 3; i++) OK(rk_limit_turn(limit));
    assert_true(rk_limit_mean(limit) > 0);
    assert_true(rk_limit_spread(limit) >= 1);
    rk_limit_free(limit);
}

static void test_turns(void **state) {
    (void)state;
    rk_limit *limit;
    OK(rk_limit_open_gather(16, 1 << 20, &limit));
    check(limit);
    OK(rk_limit_open_gather(4096, 1, &limit)); /* a table has some rows all the same */
    check(limit);
    OK(rk_limit_open_gemm(32, 32, &limit));
    check(limit);
    rk_limit_free(NULL);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
