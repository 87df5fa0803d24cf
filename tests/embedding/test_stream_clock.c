/* The clock of a dynamic table's stream against the times of all batches. */
#include "testing.h"

#include "base/rng.h"
#include "embedding/dynamic/stream_clock.h"

enum { BATCHES = 3000 };

/* Batches of which the last one is `ttl` ago or longer; 0: there is none. times [0 .. n]: the clock after
 * each batch. */
static int64_t find_expired(const int64_t *times, int64_t n, int64_t ttl) {
    int64_t expired = 0;
    for (int64_t b = 1; b <= n; b++)
        if (times[b] != RK_NO_TIMESTAMP && times[n] - times[b] >= ttl) expired = b;
    return expired;
}

/* No batch is expired before its time, and each is a 64th of `ttl` after it. */
static void follow_clock(int64_t ttl, int64_t most_step, double backwards) {
    static int64_t times[BATCHES + 1];
    rk_stream_clock clock;
    rk_rng rng = {(uint64_t)ttl, (uint64_t)most_step, 0};
    int64_t time = 1700000000ll * RK_MICROSECONDS, n_marks = 0;
    rk_stream_clock_reset(&clock);
    times[0] = RK_NO_TIMESTAMP;
    for (int64_t b = 1; b <= BATCHES; b++) {
        time += (int64_t)rk_rng_below(&rng, (uint64_t)most_step + 1);
        bool is_early = rk_rng_uniform(&rng) < backwards, is_none = b < 4;
        int64_t given = is_none ? RK_NO_TIMESTAMP : is_early ? time - 5 * ttl : time;
        rk_stream_clock_advance(&clock, ttl, b, given);
        times[b] = rk_later_timestamp(times[b - 1], given);
        assert_int_equal(clock.now, times[b]);
        int64_t expired = rk_stream_clock_expired_batch(&clock, ttl);
        assert_true(expired <= find_expired(times, b, ttl));
        assert_true(expired >= find_expired(times, b, ttl + ttl / RK_MARKS_PER_TTL));
        n_marks = 0;
        while (n_marks < RK_MAX_CLOCK_MARKS && clock.marks[n_marks].batch) n_marks++;
        assert_true(n_marks < RK_MAX_CLOCK_MARKS);
        rk_stream_clock same = clock; /* a checkpoint's is taken as it is */
        rk_stream_clock_check_loaded(&same, b);
        assert_memory_equal(&same, &clock, sizeof clock);
    }
    assert_true(rk_stream_clock_expired_batch(&clock, ttl) > 0);
}

static void test_batches_that_expire(void **state) {
    (void)state;
    follow_clock(1000, 1, 0);
    follow_clock(1000, 40, 0);
    follow_clock(1000, 40, 0.5);
    follow_clock(1000000, 3000, 0.1);
    follow_clock(100, 1000, 0.1); /* most batches are further apart */
    follow_clock(10, 3, 0.9);
}

/* A stream that stands still for long, and times that are none. */
static void test_odd_times(void **state) {
    (void)state;
    rk_stream_clock clock;
    rk_stream_clock_reset(&clock);
    static const int64_t none[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX, RK_MOST_TIMESTAMP + 1,
                                   -RK_MOST_TIMESTAMP - 1};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) rk_stream_clock_advance(&clock, 10, 1, none[i]);
    assert_true(clock.now == RK_NO_TIMESTAMP);
    rk_stream_clock_advance(&clock, 10, 2, -RK_MOST_TIMESTAMP);
    assert_int_equal(rk_stream_clock_expired_batch(&clock, 10), 0);
    rk_stream_clock_advance(&clock, 10, 3, RK_MOST_TIMESTAMP);
    assert_int_equal(rk_stream_clock_expired_batch(&clock, 10), 2);
    rk_stream_clock_advance(&clock, 10, 4, RK_MOST_TIMESTAMP);
    assert_int_equal(rk_stream_clock_expired_batch(&clock, 10), 2);
}

/* With a longer time to live than before there are more marks than fit: the oldest rows wait. */
static void test_longer_time_to_live(void **state) {
    (void)state;
    rk_stream_clock clock;
    rk_stream_clock_reset(&clock);
    int64_t batch = 0, ttl = 64 * RK_MICROSECONDS, time = 0;
    for (; batch < 64; time += RK_MICROSECONDS) rk_stream_clock_advance(&clock, ttl, ++batch, time);
    for (; batch < 300; time += 5 * RK_MICROSECONDS) {
        rk_stream_clock_advance(&clock, 5 * ttl, ++batch, time);
        int64_t expired = rk_stream_clock_expired_batch(&clock, 5 * ttl);
        assert_true(expired < 64 || 64 + 5 * (batch - 64) - (expired - 64) * 5 >= 5 * 64);
    }
    assert_true(rk_stream_clock_expired_batch(&clock, 5 * ttl) > 64);
}

/* Of a checkpoint of others, what cannot be is forgotten. */
static void test_clocks_that_are_none(void **state) {
    (void)state;
    rk_stream_clock clock, reset;
    rk_stream_clock_reset(&reset);
    rk_stream_clock_reset(&clock);
    clock.now = INT64_MAX;
    rk_stream_clock_check_loaded(&clock, 9);
    assert_memory_equal(&clock, &reset, sizeof clock);
    clock = (rk_stream_clock){100, 200, {{0, 0}}};
    rk_stream_clock_check_loaded(&clock, 9);
    assert_memory_equal(&clock, &reset, sizeof clock);
    clock = (rk_stream_clock){100, 50, {{3, 20}, {5, 30}, {4, 40}, {7, 45}}};
    rk_stream_clock_check_loaded(&clock, 9);
    assert_memory_equal(&clock, (&(rk_stream_clock){100, 50, {{3, 20}, {5, 30}}}), sizeof clock);
    clock = (rk_stream_clock){100, 50, {{3, 20}, {50, 30}}};
    rk_stream_clock_check_loaded(&clock, 9);
    assert_int_equal(clock.marks[1].batch, 0);
    clock = (rk_stream_clock){100, 50, {{3, 20}, {5, 101}}};
    rk_stream_clock_check_loaded(&clock, 9);
    assert_int_equal(clock.marks[1].batch, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_that_expire), cmocka_unit_test(test_odd_times),
        cmocka_unit_test(test_longer_time_to_live), cmocka_unit_test(test_clocks_that_are_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
