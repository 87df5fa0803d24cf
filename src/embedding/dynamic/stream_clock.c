#include "embedding/dynamic/stream_clock.h"

#include <string.h>

void rk_stream_clock_reset(rk_stream_clock *c) {
    *c = (rk_stream_clock){.now = RK_NO_TIMESTAMP, .begin = RK_NO_TIMESTAMP};
}

static int count_marks(const rk_stream_clock *c) {
    int n = 0;
    while (n < RK_MAX_CLOCK_MARKS && c->marks[n].batch) n++;
    return n;
}

static void drop_oldest_mark(rk_stream_clock *c) {
    memmove(c->marks, c->marks + 1, (RK_MAX_CLOCK_MARKS - 1) * sizeof *c->marks);
    c->marks[RK_MAX_CLOCK_MARKS - 1] = (rk_clock_mark){0};
}

/* Where marks are full, as after a conversion to a longer time to live, the oldest is lost, and its rows are
 * as old as the next one says. */
static void add_mark(rk_stream_clock *c, int64_t batch) {
    int n = count_marks(c);
    if (n == RK_MAX_CLOCK_MARKS) {
        drop_oldest_mark(c);
        n--;
    }
    c->marks[n] = (rk_clock_mark){batch, c->now};
}

void rk_stream_clock_advance(rk_stream_clock *c, int64_t ttl, int64_t batch, int64_t timestamp) {
    if (timestamp <= c->now || timestamp < -RK_MOST_TIMESTAMP || timestamp > RK_MOST_TIMESTAMP) return;
    if (c->now == RK_NO_TIMESTAMP) {
        c->now = c->begin = timestamp;
        return;
    }
    if (timestamp - c->begin >= ttl / RK_MARKS_PER_TTL) {
        add_mark(c, batch - 1);
        c->begin = timestamp;
    }
    c->now = timestamp;
    while (c->marks[1].batch && c->marks[1].time <= c->now - ttl) drop_oldest_mark(c);
}

int64_t rk_stream_clock_expired_batch(const rk_stream_clock *c, int64_t ttl) {
    return c->marks[0].batch && c->marks[0].time <= c->now - ttl ? c->marks[0].batch : 0;
}

void rk_stream_clock_check_loaded(rk_stream_clock *c, int64_t n_batches) {
    int64_t now = c->now;
    bool is_time = now >= -RK_MOST_TIMESTAMP && now <= RK_MOST_TIMESTAMP && c->begin <= now &&
                   c->begin >= -RK_MOST_TIMESTAMP;
    if (!is_time) rk_stream_clock_reset(c);
    rk_clock_mark before = {0, -RK_MOST_TIMESTAMP};
    int n = 0;
    for (; n < RK_MAX_CLOCK_MARKS; n++) {
        const rk_clock_mark *mark = &c->marks[n];
        if (mark->batch <= before.batch || mark->batch > n_batches || mark->time < before.time ||
            mark->time > now)
            break;
        before = *mark;
    }
    memset(c->marks + n, 0, (size_t)(RK_MAX_CLOCK_MARKS - n) * sizeof *c->marks);
}
