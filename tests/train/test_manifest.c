/* Manifests whose checksum is right and whose content cannot be; logs that became shorter than their
 * checkpoint says. */
#include "testing.h"

#include <inttypes.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "format/protobuf/tfrecord.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/run_log.h"

static char directory[] = "/tmp/reckon-manifest-XXXXXX";

static const char whole[] =
    "{\"format\":\"reckon "
    "checkpoint\",\"version\":1,\"progress\":{\"step\":60,\"epoch\":1,\"row\":0,\"best\":0.7,\"plateau_"
    "best\":null,\"best_step\":20,\"bad\":2,"
    "\"plateau_bad\":0,\"learning_rate_factor\":1,\"n_evaluations\":3,\"loss_sum\":0.5,\"loss_steps\":1,"
    "\"log_bytes\":100,\"events_bytes\":0,\"keep_best\":true,"
    "\"finished\":false},\"files\":[{\"name\":\"run.yaml\",\"bytes\":3,\"crc32c\":5}]}";

static rk_status read_manifest(const char *text) {
    char both[2048], path[300];
    rk_manifest m;
    snprintf(path, sizeof path, "%s/manifest.json", directory);
    snprintf(both, sizeof both, "%s\ncrc32c %08" PRIx32 "\n", text, rk_crc32c(0, text, strlen(text)));
    OK(rk_file_write(path, both, strlen(both)));
    rk_status status = rk_manifest_read(directory, &m);
    if (status == RK_OK) rk_manifest_release(&m);
    return status;
}

/* With another value for a key; NULL: without the key. */
static rk_status read_with(const char *key, const char *value) {
    char quoted[64], text[2048];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(whole, quoted);
    assert_non_null(at);
    const char *end = at + strlen(quoted);
    end += *end == '[' ? strlen(end) - 1 : strcspn(end, ",}");
    if (value)
        snprintf(text, sizeof text, "%.*s%s%s%s", (int)(at - whole), whole, quoted, value, end);
    else
        snprintf(text, sizeof text, "%.*s\"other\":1%s", (int)(at - whole), whole, end);
    return read_manifest(text);
}

static void test_content_that_cannot_be(void **state) {
    (void)state;
    static const char *const counts[] = {"step",      "epoch",        "row",           "best_step",
                                         "bad",       "plateau_bad",  "n_evaluations", "loss_steps",
                                         "log_bytes", "events_bytes", "bytes",         "crc32c"};
    static const char *const no_counts[] = {
        "-1", "-9223372036854775808", "1.5", "\"x\"", "null", "true", "[]", "1e12"};
    static const char *const numbers[] = {"learning_rate_factor", "loss_sum"};
    static const char *const no_numbers[] = {"\"x\"", "null", "false", "{}"};
    char message[200];
    OK(read_manifest(whole));
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        for (size_t v = 0; v <= sizeof no_counts / sizeof *no_counts; v++) {
            snprintf(message, sizeof message, "'%s/manifest.json': invalid value of '%s'", directory,
                     counts[k]);
            FAILS(read_with(counts[k], v ? no_counts[v - 1] : NULL), RK_BAD_DATA, message);
        }
    for (size_t k = 0; k < 10; k++)
        assert_int_equal(read_with(counts[k], "9223372036854775807"), RK_BAD_DATA);
    for (size_t k = 0; k < 2; k++)
        for (size_t v = 0; v <= sizeof no_numbers / sizeof *no_numbers; v++)
            assert_int_equal(read_with(numbers[k], v ? no_numbers[v - 1] : NULL), RK_BAD_DATA);
    assert_int_equal(read_with("learning_rate_factor", "1.5"), RK_BAD_DATA);
    assert_int_equal(read_with("learning_rate_factor", "-0.5"), RK_BAD_DATA);
    assert_int_equal(read_with("best", "\"x\""), RK_BAD_DATA);
    assert_int_equal(read_with("best_step", "61"), RK_BAD_DATA); /* behind the step that it is of */
    assert_int_equal(read_with("loss_steps", "61"), RK_BAD_DATA);
    assert_int_equal(read_with("finished", "1"), RK_BAD_DATA);
    assert_int_equal(read_with("keep_best", "\"no\""), RK_BAD_DATA);
    assert_int_equal(read_with("version", "\"1\""), RK_BAD_DATA);
    assert_int_equal(read_with("version", "2"), RK_UNSUPPORTED);
    assert_int_equal(read_with("name", "\"../run.yaml\""), RK_BAD_DATA);
    assert_int_equal(read_with("name", "7"), RK_BAD_DATA);
    OK(read_with("best", "null"));
    assert_int_equal(read_with("files", "[]"), RK_BAD_DATA);
    assert_int_equal(read_with("files", NULL), RK_BAD_DATA);
    assert_int_equal(read_manifest("[]"), RK_BAD_DATA);
    assert_int_equal(read_manifest("{\"version\":1}"), RK_BAD_DATA);
    assert_int_equal(rk_alloc_live(), 0);
}

static char *path_of(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void open_log(int64_t keep_bytes, int64_t events_bytes) {
    rk_run_log log;
    OK(rk_run_log_open(directory, events_bytes >= 0, keep_bytes, events_bytes, &log));
    rk_run_log_release(&log);
}

/* expected NULL: only so many bytes. */
static void assert_file(const char *name, const void *expected, size_t n_expected) {
    char *text;
    size_t n;
    OK(rk_file_read(path_of(name), &text, &n));
    assert_int_equal(n, n_expected);
    if (n && expected != NULL) assert_memory_equal(text, expected, n);
    rk_free(text);
}

/* A log is cut to whole lines and never made longer. */
static void test_shortened_lines(void **state) {
    (void)state;
    static const char lines[] = "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n";
    static const struct {
        int64_t had, keep, left;
    } cases[] = {{24, 16, 16},
                 {24, 24, 24},
                 {16, 24, 16},
                 {20, 24, 16},
                 {3, 24, 0},
                 {0, 24, 0},
                 {24, 1000000000000, 24},
                 {24, 18, 16},
                 {24, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(rk_file_write(path_of("metrics.jsonl"), lines, (size_t)cases[i].had));
        open_log(cases[i].keep, -1);
        assert_file("metrics.jsonl", lines, (size_t)cases[i].left);
    }
    OK(rk_remove_tree(path_of("metrics.jsonl")));
    open_log(24, -1);
    assert_false(rk_file_exists(path_of("metrics.jsonl")));
}

static void test_shortened_events(void **state) {
    (void)state;
    static const char name[] = "events.out.tfevents.reckon";
    rk_buffer events = {0};
    for (int i = 0; i < 3; i++) rk_tfrecord_write("payload", 7, &events);
    size_t n = events.n_bytes, one = n / 3;
    OK(events.status);
    OK(rk_remove_tree(path_of(name)));
    open_log(0, 0);
    char *begun;
    size_t n_begun;
    OK(rk_file_read(path_of(name), &begun, &n_begun));
    rk_free(begun);
    for (size_t had = 1; had <= n; had += 5)
        for (int64_t keep = 1; keep <= 1000; keep *= 10) {
            size_t least = had < (size_t)keep ? had : (size_t)keep;
            OK(rk_file_write(path_of(name), events.data, had));
            open_log(0, keep);
            if (least >= one)
                assert_file(name, events.data, least / one * one);
            else
                assert_file(name, NULL, n_begun); /* as a new one, but for its time */
        }
    rk_buffer_release(&events);
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int tear_down(void **state) {
    (void)state;
    return rk_remove_tree(directory) != RK_OK;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_content_that_cannot_be),
                                       cmocka_unit_test(test_shortened_lines),
                                       cmocka_unit_test(test_shortened_events)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
