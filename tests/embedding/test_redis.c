/* What is known of Redis without one: addresses, slots, redirections, manifests, the cache of rows. */
#include "testing.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "embedding/redis/redis_client.h"
#include "embedding/redis/row_cache.h"
#include "embedding/redis/row_manifest.h"
#include "embedding/redis/redis_slot_map.h"

static void test_urls(void **state) {
    (void)state;
    const struct {
        const char *text, *host, *prefix;
        int port;
    } good[] = {{"redis://localhost/ads", "localhost", "ads", 6379},
                {"redis://127.0.0.1:7001/a/b:c", "127.0.0.1", "a/b:c", 7001},
                {"redis://[::1]:7001/x", "::1", "x", 7001},
                {"redis://[::1]/x", "::1", "x", 6379}};
    static const char *const bad[] = {"",
                                      "localhost/ads",
                                      "rediss://localhost/ads",
                                      "redis://localhost",
                                      "redis://localhost/",
                                      "redis:///ads",
                                      "redis://:1/ads",
                                      "redis://h:0/ads",
                                      "redis://h:65536/ads",
                                      "redis://h:a/ads",
                                      "redis://me:secret@h/ads",
                                      "redis://h/a b",
                                      "redis://h/a\n"};
    rk_redis_url url;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        OK(rk_redis_url_parse(good[i].text, &url));
        assert_string_equal(url.host, good[i].host);
        assert_string_equal(url.prefix, good[i].prefix);
        assert_int_equal(url.port, good[i].port);
        rk_redis_url_release(&url);
    }
    long live = rk_alloc_live();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(rk_redis_url_parse(bad[i], &url), RK_CONFIG);
    assert_int_equal(rk_alloc_live(), live);
}

/* Slots as CLUSTER KEYSLOT of Redis 7.0 says them; "123456789" is CRC16-XMODEM's own test. */
static void test_slots(void **state) {
    (void)state;
    const struct {
        const char *key;
        int32_t slot;
    } known[] = {{"123456789", 0x31c3},
                 {"foo", 12182},
                 {"", 0},
                 {"{user1000}.following", 3443},
                 {"user1000", 3443},
                 {"foo{}{bar}", 8363},
                 {"foo{{bar}}zap", 4015},
                 {"{bar", 4015},
                 {"foo{bar}{zap}", 5061},
                 {"bar", 5061},
                 {"a}b{c}", 7365}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(rk_redis_slot_of_key(known[i].key, strlen(known[i].key)), known[i].slot);
}

static void test_slot_map(void **state) {
    static rk_slot_map map;
    (void)state;
    rk_redis_slot_map_clear(&map);
    rk_redis_slot_map_set_range(&map, -5, 10, 1);
    rk_redis_slot_map_set_range(&map, 11, INT64_MAX, 2);
    rk_redis_slot_map_set_range(&map, 20, 19, 3);
    assert_int_equal(map.nodes[0], 1);
    assert_int_equal(map.nodes[10], 1);
    assert_int_equal(map.nodes[11], 2);
    assert_int_equal(map.nodes[RK_REDIS_SLOTS - 1], 2);
}

static void test_redirects(void **state) {
    (void)state;
    const char *address = NULL;
    assert_int_equal(rk_redis_parse_redirect("MOVED 3999 127.0.0.1:6381", &address), 3999);
    assert_string_equal(address, "127.0.0.1:6381");
    assert_int_equal(rk_redis_parse_redirect("ASK 0 :6381", &address), 0);
    assert_string_equal(address, ":6381");
    static const char *const others[] = {"",
                                         "MOVED",
                                         "MOVED ",
                                         "MOVED x 1:2",
                                         "MOVED 16384 a:1",
                                         "MOVED -1 a:1",
                                         "MOVED 5",
                                         "MOVEDX 5 a:1",
                                         "ERR no",
                                         "ASK 99999999999999999999 a:1"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(rk_redis_parse_redirect(others[i], &address), -1);
}

static void make_manifest(rk_row_manifest *out) {
    OK(rk_row_manifest_init("ads", "7-ab", out));
    OK(rk_row_manifest_add(out, "ads", "user \"x\"", 1000, 16, RK_EXPORT_ROWS_F32));
    OK(rk_row_manifest_add(out, "ads", "item", 50000000000, 64, RK_EXPORT_ROWS_INT8));
    OK(rk_row_manifest_add(out, "ads", "wide", 9, 4096, RK_EXPORT_ROWS_F32));
}

static void test_manifest(void **state) {
    rk_row_manifest written, read;
    rk_buffer text = {0};
    (void)state;
    make_manifest(&written);
    assert_string_equal(written.key, "ads:7-ab:manifest");
    assert_int_equal(written.tables[0].block_rows, 256);
    assert_int_equal(written.tables[1].row_bytes, 72);
    assert_int_equal(written.tables[2].block_rows, 1);
    OK(rk_row_manifest_write(&written, &text));
    OK(rk_row_manifest_parse("ads", "7-ab", text.data, text.n_bytes, &read));
    assert_int_equal(read.n_tables, 3);
    for (size_t t = 0; t < 3; t++) {
        assert_string_equal(read.tables[t].table, written.tables[t].table);
        assert_string_equal(read.tables[t].key, written.tables[t].key);
        assert_int_equal(read.tables[t].n_rows, written.tables[t].n_rows);
        assert_int_equal(read.tables[t].dim, written.tables[t].dim);
        assert_int_equal(read.tables[t].format, written.tables[t].format);
        assert_int_equal(read.tables[t].row_bytes, written.tables[t].row_bytes);
        assert_int_equal(read.tables[t].block_rows, written.tables[t].block_rows);
    }
    assert_ptr_equal(rk_row_manifest_find(&read, "item"), &read.tables[1]);
    assert_null(rk_row_manifest_find(&read, "none"));
    rk_row_manifest_release(&read);

    /* Each cut of it, and each byte that is another one, is refused or is a manifest; nothing is kept. */
    long live = rk_alloc_live();
    for (size_t n = 0; n < text.n_bytes; n++)
        assert_int_not_equal(rk_row_manifest_parse("ads", "7-ab", text.data, n, &read), RK_OK);
    for (size_t i = 0; i < text.n_bytes; i++) {
        char was = text.data[i];
        text.data[i] = (char)(was ^ 5);
        if (rk_row_manifest_parse("ads", "7-ab", text.data, text.n_bytes, &read) == RK_OK)
            rk_row_manifest_release(&read);
        text.data[i] = was;
    }
    assert_int_equal(rk_row_manifest_parse("ads", "8-ab", text.data, text.n_bytes, &read), RK_BAD_DATA);
    assert_int_equal(rk_alloc_live(), live);
    rk_buffer_release(&text);
    rk_row_manifest_release(&written);
}

static void test_bad_manifests(void **state) {
    (void)state;
    const struct {
        const char *tables, *words;
    } bad[] = {
        {"[]", "no tables"},
        {"[{\"name\":\"t\",\"n_rows\":0,\"dim\":4,\"rows\":\"f32\",\"row_bytes\":16,\"block_rows\":4}]",
         "rows"},
        {"[{\"name\":\"t\",\"n_rows\":5,\"dim\":5000,\"rows\":\"f32\",\"row_bytes\":20000,\"block_rows\":4}]",
         "dim"},
        {"[{\"name\":\"t\",\"n_rows\":5,\"dim\":4,\"rows\":\"f64\",\"row_bytes\":32,\"block_rows\":4}]",
         "format"},
        {"[{\"name\":\"t\",\"n_rows\":5,\"dim\":4,\"rows\":\"f32\",\"row_bytes\":17,\"block_rows\":4}]",
         "16 bytes"},
        {"[{\"name\":\"t\",\"n_rows\":5,\"dim\":4,\"rows\":\"f32\",\"row_bytes\":16,\"block_rows\":0}]",
         "0 rows"},
        {"[{\"name\":\"t\",\"n_rows\":5,\"dim\":4,\"rows\":\"f32\",\"row_bytes\":16,\"block_rows\":999999999}"
         "]",
         "999999999"},
        {"[{\"name\":\"t\",\"n_rows\":5,\"dim\":4,\"rows\":\"f32\",\"row_bytes\":16,\"block_rows\":4},"
         "{\"name\":\"t\",\"n_rows\":5,\"dim\":4,\"rows\":\"f32\",\"row_bytes\":16,\"block_rows\":4}]",
         "twice"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[1000];
        rk_row_manifest read;
        int n = snprintf(text, sizeof text,
                         "{\"format\":\"reckon.rows\",\"format_version\":1,\"version\":\"v\",\"tables\":%s}",
                         bad[i].tables);
        assert_int_equal(rk_row_manifest_parse("p", "v", text, (size_t)n, &read), RK_BAD_DATA);
        if (!strstr(rk_last_error(), bad[i].words)) fail_msg("%s: %s", bad[i].words, rk_last_error());
    }
}

enum { CACHE_ROW = 12 };

static void row_of(int64_t row, char out[CACHE_ROW]) {
    memset(out, (int)(row % 251), CACHE_ROW);
    memcpy(out, &row, sizeof row);
}

/* What it has is right, however full it is; what was put last is there; rows that are used stay. */
static void test_cache(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 40, 100, 5000, 100000, 1 << 20};
    char want[CACHE_ROW], have[CACHE_ROW];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        rk_row_cache *cache;
        rk_rng rng = {.seed = 7, .stream = i};
        OK(rk_row_cache_create(sizes[i], 3000, CACHE_ROW, &cache));
        int64_t n = rk_row_cache_n_rows(cache), n_found = 0;
        assert_true(n <= 3000 && rk_row_cache_bytes(n, CACHE_ROW) <= sizes[i]);
        for (int step = 0; step < 20000; step++) {
            int64_t row = (int64_t)rk_rng_below(&rng, 3000);
            bool found = rk_row_cache_get(cache, row, have);
            row_of(row, want);
            if (found) assert_memory_equal(have, want, CACHE_ROW);
            n_found += found;
            if (found) continue;
            rk_row_cache_put(cache, row, want);
            assert_int_equal(rk_row_cache_get(cache, row, have), n > 0);
        }
        if (n == 3000) assert_true(n_found >= 20000 - 3000);
        if (n == 0) assert_int_equal(n_found, 0);
        rk_row_cache_free(cache);
    }
}

/* What has room for all rows keeps all: a scan misses each once. */
static void test_whole_cache(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 511, 513, 2800, 19600};
    char bytes[CACHE_ROW];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        rk_row_cache *cache;
        int64_t n = sizes[i], n_missed = 0;
        OK(rk_row_cache_create(rk_row_cache_bytes(n, CACHE_ROW), n, CACHE_ROW, &cache));
        assert_int_equal(rk_row_cache_n_rows(cache), n);
        for (int64_t step = 0; step < 3 * n; step++) {
            if (rk_row_cache_get(cache, step % n, bytes)) continue;
            n_missed++;
            row_of(step % n, bytes);
            rk_row_cache_put(cache, step % n, bytes);
        }
        assert_int_equal(n_missed, n);
        rk_row_cache_free(cache);
    }
}

static void test_used_rows_stay(void **state) {
    (void)state;
    rk_row_cache *cache;
    char bytes[CACHE_ROW];
    OK(rk_row_cache_create(rk_row_cache_bytes(100, CACHE_ROW), 100000, CACHE_ROW, &cache));
    for (int64_t row = 0; row < 5000; row++) {
        row_of(row, bytes);
        rk_row_cache_put(cache, row, bytes);
        assert_true(rk_row_cache_get(cache, 0, bytes)); /* asked for again and again, while others pass by */
    }
    assert_false(rk_row_cache_get(cache, 1, bytes));
    rk_row_cache_free(cache);
}

static void *use_cache(void *context) {
    rk_row_cache *cache = context;
    char want[CACHE_ROW], have[CACHE_ROW];
    rk_rng rng = {.seed = (uint64_t)(uintptr_t)&cache};
    for (int step = 0; step < 20000; step++) {
        int64_t row = (int64_t)rk_rng_below(&rng, 500);
        row_of(row, want);
        if (!rk_row_cache_get(cache, row, have))
            rk_row_cache_put(cache, row, want);
        else if (memcmp(have, want, CACHE_ROW) != 0)
            return "a row is another one";
    }
    return NULL;
}

static void test_cache_threads(void **state) {
    (void)state;
    rk_row_cache *cache;
    pthread_t threads[4];
    OK(rk_row_cache_create(rk_row_cache_bytes(200, CACHE_ROW), 500, CACHE_ROW, &cache));
    for (int t = 0; t < 4; t++) assert_int_equal(pthread_create(&threads[t], NULL, use_cache, cache), 0);
    for (int t = 0; t < 4; t++) {
        void *wrong;
        pthread_join(threads[t], &wrong);
        assert_null(wrong);
    }
    rk_row_cache_free(cache);
}

static void test_cache_memory(void **state) {
    (void)state;
    long live = rk_alloc_live();
    rk_status status = RK_NO_MEMORY;
    for (long countdown = 1; status != RK_OK; countdown++) {
        rk_row_cache *cache;
        rk_alloc_fail_after(countdown, false);
        status = rk_row_cache_create(100000, 3000, CACHE_ROW, &cache);
        rk_alloc_fail_after(0, false);
        if (status == RK_OK) rk_row_cache_free(cache);
        assert_int_equal(rk_alloc_live(), live);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),           cmocka_unit_test(test_slots),
        cmocka_unit_test(test_slot_map),       cmocka_unit_test(test_redirects),
        cmocka_unit_test(test_manifest),       cmocka_unit_test(test_bad_manifests),
        cmocka_unit_test(test_cache),          cmocka_unit_test(test_whole_cache),
        cmocka_unit_test(test_used_rows_stay), cmocka_unit_test(test_cache_threads),
        cmocka_unit_test(test_cache_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
