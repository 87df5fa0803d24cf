/* Messages that do not say where files stand. */
#include "testing.h"

#include "base/text/shorten_paths.h"

static void check(const char *message, const char *root, const char *expected) {
    rk_buffer out = {0};
    rk_shorten_paths(message, root, &out);
    rk_buffer_append_text(&out, "");
    assert_string_equal(out.data, expected);
    rk_buffer_release(&out);
}

static void test_below_root(void **state) {
    (void)state;
    check("'/srv/ads/8/model.yaml' is truncated", "/srv/ads", "'8/model.yaml' is truncated");
    check("could not open '/srv/ads/8': no", "/srv/ads/", "could not open '8': no");
    check("'/srv/ads' has no version", "/srv/ads", "'ads' has no version");
    check("models/ads/8/config.yaml:3: wrong", "models/ads", "8/config.yaml:3: wrong");
    check("'models/ads'", "models/ads", "'ads'");
    check("/srv/ads", "/srv/ads", "ads");
}

static void test_elsewhere(void **state) {
    (void)state;
    check("/etc/warm up.jsonl:9: wrong", "/srv/ads", "warm up.jsonl:9: wrong");
    check("'/home/some one/train.csv' and \"/x/y\"", "/srv/ads", "'train.csv' and \"y\"");
    check("'/srv/adsx/8'", "/srv/ads", "'8'");
    check("'/srv/folder/' (/a/b)", "/srv/ads", "'folder/' (b)");
    check("no such file: '/'", "/srv/ads", "no such file: '/'");
}

/* What looks like a path and is none. */
static void test_others(void **state) {
    (void)state;
    check("tensor 'table/ads/rows': 3 / 4 of 5/6\nhint: either/or", "/srv",
          "tensor 'table/ads/rows': 3 / 4 of 5/6\nhint: either/or");
    check("redis://host:1/ads", "/srv", "redis://host:1/ads");
    check("", "/srv", "");
    check("/", "", "/");
    check("'", "/", "'");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_below_root), cmocka_unit_test(test_elsewhere),
                                       cmocka_unit_test(test_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
