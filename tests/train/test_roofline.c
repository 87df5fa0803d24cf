/* What a machine reaches, by turns. */
#include "testing.h"

#include "base/memory.h"
#include "train/run/roofline.h"

static void check(rk_roofline *roofline) {
    for (int i = 0; i < 3; i++) OK(rk_roofline_run_turn(roofline));
    assert_true(rk_roofline_mean_rate(roofline) > 0);
    assert_true(rk_roofline_spread(roofline) >= 1);
    rk_roofline_free(roofline);
}

static void test_turns(void **state) {
    (void)state;
    rk_roofline *roofline;
    OK(rk_roofline_create_gather(16, 1 << 20, &roofline));
    check(roofline);
    OK(rk_roofline_create_gather(4096, 1, &roofline)); /* a table has some rows all the same */
    check(roofline);
    OK(rk_roofline_create_gemm(32, 32, &roofline));
    check(roofline);
    rk_roofline_free(NULL);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_turns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
