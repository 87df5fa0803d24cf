/* Several ids of each value (hash_functions, quotient_remainder): those that plain loops find, a column at a
 * time and value by value, whatever stands before them in a window. */
#include "testing.h"

#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/section.h"

enum { ROWS = 700, USERS = 90, WORDS = 23, MAX_TAGS = 4, BUCKETS = 101, DIVISOR = 7 };
static char directory[] = "/tmp/reckon-composed-XXXXXX";

/* The file's rows. */
static int64_t users[ROWS], n_tags[ROWS], tags[ROWS][MAX_TAGS];

static void write_rows(void) {
    rk_rng rng = {5, 1, 0};
    rk_buffer out = {0};
    char path[300];
    rk_buffer_append_text(&out, "y,user,tags,weights\n");
    for (int row = 0; row < ROWS; row++) {
        users[row] = (int64_t)rk_rng_below(&rng, USERS);
        n_tags[row] = (int64_t)rk_rng_below(&rng, MAX_TAGS + 1);
        rk_buffer_printf(&out, "%d,%lld,", row % 2, (long long)users[row]);
        for (int64_t k = 0; k < n_tags[row]; k++) {
            tags[row][k] = (int64_t)rk_rng_below(&rng, WORDS);
            rk_buffer_printf(&out, "%sw%lld", k ? "|" : "", (long long)tags[row][k]);
        }
        rk_buffer_append_text(&out, ",");
        for (int64_t k = 0; k < n_tags[row]; k++)
            rk_buffer_printf(&out, "%s%lld", k ? "|" : "", (long long)k);
        rk_buffer_append_text(&out, "\n");
    }
    OK(out.status);
    snprintf(path, sizeof path, "%s/t.csv", directory);
    OK(rk_file_write(path, out.data, out.n_bytes));
    rk_buffer_release(&out);
}

static int64_t hashed(const char *feature, uint64_t seed, uint64_t whole, int j, uint64_t n) {
    uint64_t own = rk_hash_combine(rk_hash_bytes(feature, strlen(feature), seed), (uint64_t)j);
    return (int64_t)rk_hash_bucket(rk_hash_combine(whole, own), n);
}

static uint64_t text_hash(const char *prefix, int64_t number, uint64_t seed) {
    char text[32];
    int n = snprintf(text, sizeof text, "%s%lld", prefix, (long long)number);
    return rk_hash_bytes(text, (size_t)n, seed);
}

static const char features_text[] =
    "train: t.csv\nlabels: [{name: y}]\nshuffle: false\nreader_threads: 3\nfeatures:\n"
    "  - {name: user, hash: 101, hash_functions: 3, hash_seed: 9, compose: multiply}\n"
    "  - {name: again, column: user, hash: 101, hash_functions: 1}\n"
    "  - {name: parts, column: user, identity: 90, quotient_remainder: 7, compose: concat}\n"
    "  - {name: tags, separator: \"|\", vocabulary: {oov: 2}, quotient_remainder: 4, weights: weights}\n"
    "  - {name: some, column: tags, separator: \"|\", hash: 50, hash_functions: 2, max_length: 2}\n"
    "  - {name: both, cross: [parts, again], hash: 33, hash_functions: 2}\n";

/* The ids that the row has by plain loops. */
static int64_t expected(const rk_transforms *t, int feature, int64_t row, int64_t *ids) {
    int64_t n = 0, user = users[row];
    switch (feature) {
        case 0:
            for (int j = 0; j < 3; j++) ids[n++] = hashed("user", 9, text_hash("", user, 9), j, BUCKETS);
            return n;
        case 1:
            ids[n++] = hashed("again", 0, text_hash("", user, 0), 0, BUCKETS);
            return n;
        case 2:
            ids[n++] = user / DIVISOR;
            ids[n++] = 13 + user % DIVISOR; /* behind ceil(90 / 7) quotients */
            return n;
        case 3:
            for (int64_t k = 0; k < n_tags[row]; k++) {
                char text[32];
                int size = snprintf(text, sizeof text, "w%lld", (long long)tags[row][k]);
                int64_t id;
                assert_true(rk_transforms_id_of_value(t, rk_transforms_find_feature(t, "tags"),
                                                      (rk_span){text, (size_t)size}, &id));
                ids[n++] = id / 4;
                ids[n++] = 7 + id % 4; /* 2 + 23 ids: ceil(25 / 4) quotients */
            }
            return n;
        case 4:
            for (int64_t k = 0; k < n_tags[row] && k < 2; k++)
                for (int j = 0; j < 2; j++)
                    ids[n++] = hashed("some", 0, text_hash("w", tags[row][k], 0), j, 50);
            return n;
        default: {
            uint64_t whole = rk_hash_combine(rk_hash_combine(0, (uint64_t)user), text_hash("", user, 0));
            for (int j = 0; j < 2; j++) ids[n++] = hashed("both", 0, whole, j, 33);
            return n;
        }
    }
}

static void test_ids(void **state) {
    (void)state;
    static const int64_t rows[] = {101, 101, 13 + 7, 7 + 4, 50, 33};
    opened o;
    const rk_batch *b;
    int64_t row = 0;
    OK(open_section(&o, directory, features_text));
    OK(rk_dataset_create(&o.section, o.transforms,
                         &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 64},
                         &o.dataset));
    for (int f = 0; f < 6; f++)
        assert_int_equal(rk_transforms_schema(o.transforms)->features[f].cardinality, rows[f]);
    while (rk_dataset_next(o.dataset, &b) == RK_OK) {
        assert_null(b->features[0].offsets); /* as many ids in each sample: no offsets are kept */
        for (int64_t i = 0; i < b->n; i++, row++)
            for (int f = 0; f < 6; f++) {
                const rk_ids *ids = &b->features[f];
                int64_t wanted[3 * MAX_TAGS], n = expected(o.transforms, f, row, wanted);
                int64_t begin = ids->offsets ? ids->offsets[i] : i * ids->ids_per_sample;
                int64_t end = ids->offsets ? ids->offsets[i + 1] : begin + ids->ids_per_sample;
                assert_int_equal(end - begin, n);
                assert_memory_equal(ids->ids + begin, wanted, (size_t)n * sizeof *wanted);
                for (int64_t k = 0; f == 3 && k < n; k++)
                    assert_true(ids->weights[begin + k] ==
                                (float)(k / 2)); /* the value's, for both its ids */
            }
    }
    assert_int_equal(row, ROWS);
    close_section(&o);
}

static void check_refused(const char *feature, const char *message) {
    opened o;
    char text[400];
    snprintf(text, sizeof text, "train: t.csv\nlabels: [{name: y}]\nfeatures: [%s]\n", feature);
    rk_status status = open_section(&o, directory, text);
    if (status == RK_OK) /* what only the rows show */
        status = rk_dataset_create(
            &o.section, o.transforms,
            &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 64}, &o.dataset);
    const rk_batch *b;
    while (status == RK_OK) status = rk_dataset_next(o.dataset, &b);
    if (!strstr(rk_last_error(), message)) fail_msg("'%s' has no '%s'", rk_last_error(), message);
    close_section(&o);
}

static void test_refused(void **state) {
    (void)state;
    check_refused("{name: user, identity: 90, hash_functions: 2}",
                  "hash_functions belong to features with a");
    check_refused("{name: user, hash: 9, hash_functions: 17}", "hash_functions");
    check_refused("{name: user, identity: 90, quotient_remainder: 1}", "must be 2 or more");
    check_refused("{name: user, key: true, quotient_remainder: 5}", "a last id");
    check_refused("{name: user, hash: 9, hash_functions: 2, quotient_remainder: 5}", "not both");
    check_refused("{name: user, hash: 9, compose: multiply}", "several rows a value");
    check_refused("{name: user, hash: 9, hash_functions: 1, compose: concat}", "several rows a value");
    check_refused("{name: tags, hash: 9, hash_functions: 2, compose: concat, separator: \"|\"}",
                  "one value a sample");
}

/* Rows of several values that no separator announces: a column that is there twice is a list of two. */
static void test_lists_refused(void **state) {
    (void)state;
    char path[300];
    snprintf(path, sizeof path, "%s/l.libsvm", directory);
    OK(rk_file_write(path, "1 3:1\n0 5:1 6:1\n1 4:1\n", 22));
    opened o;
    OK(open_section(&o, directory,
                    "train: l.libsvm\nlabels: [{name: y, column: label}]\n"
                    "features: [{name: ids, hash: 9, hash_functions: 2, compose: multiply}]\n"));
    const rk_batch *b;
    rk_status status = rk_dataset_create(
        &o.section, o.transforms,
        &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 64}, &o.dataset);
    while (status == RK_OK) status = rk_dataset_next(o.dataset, &b);
    assert_int_equal(status, RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), "feature 'ids': 2 values in one row"));
    close_section(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ids), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_lists_refused)};
    if (!mkdtemp(directory)) return 1;
    write_rows();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char path[300];
    snprintf(path, sizeof path, "%s/t.csv", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/l.libsvm", directory);
    unlink(path);
    rmdir(directory);
    return failed;
}
