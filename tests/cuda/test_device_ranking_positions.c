/* Items' places on the device against counting them one by one; the same whatever is done at once. */
#include "cuda/device_testing.h"

#include <math.h>

#include "nn/cuda/device_ranking_positions.h"

enum { USERS = 37, ITEMS = 611, DIM = 12, ALL_USERS = 50, MAX_LISTED = ALL_USERS * ITEMS };

typedef struct lists {
    int64_t offsets[ALL_USERS + 1], items[MAX_LISTED];
} lists;

static float items[ITEMS * DIM], users[USERS * DIM];
static int64_t numbers[USERS];
static lists masked, asked;
static uint32_t places[MAX_LISTED];

static bool is_listed(int64_t user) {
    for (int i = 0; i < USERS; i++)
        if (numbers[i] == user) return true;
    return false;
}

/* one_in: an item of each user's; of user 7 nearly all. */
static void draw_list(rk_rng *rng, uint64_t one_in, bool of_all, lists *out) {
    int64_t n = 0;
    for (int64_t u = 0; u < ALL_USERS; u++) {
        out->offsets[u] = n;
        for (int64_t i = 0; i < ITEMS && (of_all || is_listed(u)); i++)
            if (u == 7 ? i % 9 : rk_rng_below(rng, one_in) == 0) out->items[n++] = i;
    }
    out->offsets[ALL_USERS] = n;
}

/* Values of few levels: products are exact, and many of them tie. */
static int make_vectors(void **state) {
    rk_rng rng = {3, 1, 0};
    for (int i = 0; i < ITEMS * DIM; i++) items[i] = (float)rk_rng_below(&rng, 5) - 2;
    for (int i = 0; i < USERS * DIM; i++) users[i] = (float)rk_rng_below(&rng, 5) - 2;
    for (int i = 0, u = 0; i < USERS; i++, u += 1 + (i % 4 == 0)) numbers[i] = u;
    draw_list(&rng, 20, true, &masked);
    draw_list(&rng, 60, false, &asked);
    return open_device(state);
}

static float score_of(int u, int64_t item) {
    float sum = 0;
    for (int k = 0; k < DIM; k++) sum += users[u * DIM + k] * items[item * DIM + k];
    return sum;
}

static bool is_masked(int u, int64_t item, bool with_masked) {
    for (int64_t i = masked.offsets[numbers[u]]; with_masked && i < masked.offsets[numbers[u] + 1]; i++)
        if (masked.items[i] == item) return true;
    return false;
}

static uint32_t count_before(int u, int64_t item, bool with_masked) {
    if (is_masked(u, item, with_masked)) return RK_NO_PLACE;
    float own = score_of(u, item);
    uint32_t n = 0;
    for (int64_t i = 0; i < ITEMS; i++) {
        float score = score_of(u, i);
        n += (score > own || (score == own && i < item)) && !is_masked(u, i, with_masked);
    }
    return n;
}

static rk_ranking_positions args_of(bool with_masked) {
    rk_ranking_positions a = {.n_items = ITEMS,
                              .n_users = USERS,
                              .dim = DIM,
                              .items = items,
                              .users = users,
                              .numbers = numbers,
                              .asked = {asked.offsets, asked.items},
                              .places = places};
    if (with_masked) a.masked = (rk_item_lists){masked.offsets, masked.items};
    return a;
}

static void check(bool with_masked, int64_t scores_at_once) {
    rk_ranking_positions a = args_of(with_masked);
    int64_t n_masked = 0;
    memset(places, 0xAB, sizeof places);
    OK(rk_device_compute_ranking_positions(device, stream, &a, scores_at_once));
    for (int u = 0; u < USERS; u++)
        for (int64_t i = asked.offsets[numbers[u]]; i < asked.offsets[numbers[u] + 1]; i++) {
            uint32_t expected = count_before(u, asked.items[i], with_masked);
            if (places[i] != expected)
                fail_msg("user %d, item %d: %u, not %u", (int)numbers[u], (int)asked.items[i], places[i],
                         expected);
            n_masked += places[i] == RK_NO_PLACE;
        }
    assert_int_equal(n_masked > 0, with_masked);
}

static void test_places(void **state) {
    (void)state;
    check(false, 0);
    check(true, 0);
    check(true, 1);
    check(true, 5 * ITEMS);
}

static void test_no_users(void **state) {
    (void)state;
    rk_ranking_positions a = args_of(true);
    a.n_users = 0;
    OK(rk_device_compute_ranking_positions(device, stream, &a, 0));
}

/* Last, since it spoils the vectors. A masked score may be anything. */
static void test_not_finite(void **state) {
    (void)state;
    static lists everyone;
    rk_ranking_positions a = args_of(false);
    char message[100];
    for (int64_t u = 0; u < ALL_USERS; u++) {
        everyone.items[2 * u] = 100;
        everyone.items[2 * u + 1] = 300;
        everyone.offsets[u + 1] = 2 * u + 2;
    }
    items[100 * DIM] = items[300 * DIM] = INFINITY;
    for (int u = 0; u < USERS; u++) users[u * DIM] = u < 20 ? 0 : -1;
    users[3 * DIM] = 1;
    items[100 * DIM + 1] = items[300 * DIM + 1] = 0;
    a.masked = (rk_item_lists){everyone.offsets, everyone.items};
    OK(rk_device_compute_ranking_positions(device, stream, &a, 0));
    everyone.items[2 * numbers[3]] = 99;
    snprintf(message, sizeof message, "user %d: the score of item 100 is inf", (int)numbers[3]);
    FAILS(rk_device_compute_ranking_positions(device, stream, &a, 5 * ITEMS), RK_NOT_FINITE, message);
    FAILS(rk_device_compute_ranking_positions(device, stream, &a, 0), RK_NOT_FINITE, message);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_no_users),
                                       cmocka_unit_test(test_not_finite)};
    return cmocka_run_group_tests(tests, make_vectors, close_device);
}
