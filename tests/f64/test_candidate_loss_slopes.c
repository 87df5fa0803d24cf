/* Losses over shared candidates, in double: gradients against finite differences. */
#include "testing.h"

#include <math.h>

#include "base/rng.h"
#include "nn/candidate_loss.h"

enum { N = 6, DRAWN = 20, DIM = 3 };
static double users[N * DIM], items[(N + DRAWN) * DIM], log_q[N + DRAWN], user_gradient[N * DIM],
    item_gradient[(N + DRAWN) * DIM];
static int32_t ids[N + DRAWN];
static const float weights[N] = {1, 0.5f, 2, 0, 1, 3};

static double loss_of(rk_candidate_loss *loss, bool corrected) {
    double value = NAN;
    OK(rk_candidate_loss_run(loss,
                             &(rk_candidate_loss_args){N, users, items, ids, corrected ? log_q : NULL,
                                                       weights, 0.7, user_gradient, item_gradient},
                             &value));
    return value;
}

static void check(rk_candidate_loss *loss, bool corrected, double *at, double slope) {
    double before = *at;
    *at = before + 1e-6;
    double up = loss_of(loss, corrected);
    *at = before - 1e-6;
    double down = loss_of(loss, corrected);
    *at = before;
    double numeric = (up - down) / 2e-6;
    if (!(fabs(numeric - slope) <= 1e-7 * (1 + fabs(slope))))
        fail_msg("slope %.12g, by differences %.12g", slope, numeric);
}

static void test_slopes(void **state) {
    (void)state;
    rk_rng rng = {4, 0, 0};
    for (int i = 0; i < N * DIM; i++) users[i] = rk_rng_normal(&rng);
    for (int i = 0; i < (N + DRAWN) * DIM; i++) items[i] = rk_rng_normal(&rng);
    for (int i = 0; i < N + DRAWN; i++)
        log_q[i] = -rk_rng_uniform(&rng), ids[i] = (int32_t)rk_rng_below(&rng, 12);
    for (int variant = 0; variant < 12; variant++) {
        bool in_batch = variant / 3 % 2, hard = variant / 6;
        rk_candidate_loss_config config = {(rk_candidate_loss_kind)(variant % 3),
                                           DIM,
                                           N,
                                           DRAWN,
                                           in_batch,
                                           hard ? 4 : 1,
                                           0.4,
                                           0.2,
                                           5,
                                           .n_micro_batches = 1};
        double user_slopes[N * DIM], item_slopes[(N + DRAWN) * DIM];
        rk_candidate_loss *loss;
        OK(rk_candidate_loss_create(&config, &loss));
        loss_of(loss, in_batch);
        memcpy(user_slopes, user_gradient, sizeof user_slopes);
        memcpy(item_slopes, item_gradient, sizeof item_slopes);
        for (int i = 0; i < N * DIM; i++) check(loss, in_batch, &users[i], user_slopes[i]);
        for (int i = 0; i < (N + DRAWN) * DIM; i++) check(loss, in_batch, &items[i], item_slopes[i]);
        rk_candidate_loss_free(loss);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slopes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
