/* What a machine reaches, by turns. */
#include "testing.h"

#include "base/memory.h"
#include "train/run/roofline.h"

static void check(rk_roofline *limit) {
    for (int i = 0; i < 3; i++) OK(rk_roofline_measure(limit));
    assert_true(rk_roofline_mean(limit) > 0);
    assert_true(rk_roofline_spread(limit) >= 1);
    rk_roofline_free(limit);
}

static void test_turns(void **state) {
    (void)state;
    rk_roofline *limit;
    OK(rk_roofline_new_gather(16, 1 << 20, &limit));
    check(limit);
    OK(rk_roofline_new_gather(4096, 1, &limit)); /* a table has some rows all the same */
    check(limit);
    OK(rk_roofline_new_gemm(32, 32, &limit));
    check(limit);
    rk_roofline_free(NULL);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
