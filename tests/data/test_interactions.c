/* Adjacency lists as rows, and pairs by user: what is kept of them, and what is refused. */
#include "testing.h"

#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "data/dataset/interactions.h"
#include "data/section.h"

static char directory[] = "/tmp/reckon-interactions-XXXXXX";

#include "data/written_file.h"

static void open_train(opened *o, const char *text) {
    OK(open_section(o, directory, text));
    OK(rk_dataset_create(&o->section, o->transforms,
                         &(rk_dataset_options){.directory = directory, .split = "train", .batch_size = 3},
                         &o->dataset));
}

#define FEATURES "features: [{name: user, identity: 4}, {name: item, identity: 6}]\n"

static void assert_lists(const rk_interactions *x, const int64_t *offsets, const int64_t *items,
                         const int64_t *counts) {
    assert_int_equal(x->n_users, 4);
    assert_int_equal(x->n_items, 6);
    assert_memory_equal(x->offsets, offsets, 5 * sizeof *offsets);
    assert_memory_equal(x->items, items, (size_t)offsets[4] * sizeof *items);
    assert_memory_equal(x->counts, counts, 6 * sizeof *counts);
}

static void test_lists(void **state) {
    (void)state;
    static const int64_t offsets[] = {0, 3, 3, 4, 5}, items[] = {1, 3, 5, 0, 5},
                         counts[] = {1, 1, 0, 1, 0, 2};
    static const int64_t both_offsets[] = {0, 4, 5, 6, 7}, both_items[] = {1, 2, 3, 5, 4, 0, 5},
                         both_counts[] = {1, 1, 1, 1, 1, 2};
    static const char *const texts[] = {
        "format: adjacency\ntrain: a\n" FEATURES, "format: csv\ntrain: b.csv\n" FEATURES,
        "format: adjacency\ncolumns: [who, what]\ntrain: a\nfeatures: [{name: user, column: who, identity: "
        "4}, {name: item, column: what, identity: 6}]\n"};
    write_file("a", "0 5 1\t3  1\r\n\n2 0\n1\n3 5");
    write_file("b.csv", "item,user\n5,0\n1,0\n3,0\n1,0\n0,2\n5,3\n");
    write_file("more", "1 4\n0 2 5\n");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        opened o;
        rk_interactions *x, *more, *both;
        open_train(&o, texts[i]);
        OK(rk_interactions_collect(o.dataset, (rk_pair_features){0, 1}, &x));
        assert_lists(x, offsets, items, counts);
        close_section(&o);
        open_train(&o, "format: adjacency\ntrain: more\n" FEATURES);
        OK(rk_interactions_collect(o.dataset, (rk_pair_features){0, 1}, &more));
        close_section(&o);
        OK(rk_interactions_merge(x, more, &both));
        assert_lists(both, both_offsets, both_items, both_counts);
        rk_interactions_unref(rk_interactions_ref(x));
        rk_interactions_unref(x);
        rk_interactions_unref(more);
        rk_interactions_unref(both);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

static void assert_keys(const int64_t *keys, int64_t n, const int64_t *wanted, int64_t n_wanted) {
    assert_int_equal(n, n_wanted);
    assert_memory_equal(keys, wanted, (size_t)n * sizeof *keys);
}

/* Keys are numbered in an order of their low 63 bits; merged pairs have numbers of both, by which each of
 * them can be told. */
static void test_keys(void **state) {
    (void)state;
    static const char features[] =
        "train: keys.csv\nfeatures: [{name: user, key: true}, {name: item, key: true}]\n",
                      text[] =
                          "train: keys.csv\nfeatures: [{name: user, identity: 4}, {name: item, key: true}]\n";
    static const int64_t users[] = {3, INT64_MAX, -1}, items[] = {INT64_MIN, 7, 9, -2},
                         all_users[] = {2, 3, INT64_MAX, -1}, all_items[] = {INT64_MIN, 7, 8, 9, -2},
                         offsets[] = {0, 2, 3, 5}, pairs[] = {1, 3, 2, 0, 2}, renumbered[] = {0, 0, 2, 3, 5},
                         by_all[] = {1, 4, 3, 0, 3}, counts[] = {1, 1, 2, 1};
    opened o;
    rk_interactions *x, *more, *all, *again;
    write_file("keys.csv",
               "user,item\n3,7\n-1,9\n18446744073709551615,-9223372036854775808\n3,-2\n3,7\n"
               "9223372036854775807,9\n");
    open_train(&o, features);
    OK(rk_interactions_collect(o.dataset, (rk_pair_features){0, 1}, &x));
    close_section(&o);
    assert_keys(x->user_keys, x->n_users, users, 3);
    assert_keys(x->item_keys, x->n_items, items, 4);
    assert_memory_equal(x->offsets, offsets, sizeof offsets);
    assert_memory_equal(x->items, pairs, sizeof pairs);
    assert_memory_equal(x->counts, counts, sizeof counts);
    for (int64_t i = 0; i < 4; i++) assert_int_equal(rk_interactions_item(x, items[i]), i);
    assert_int_equal(rk_interactions_item(x, 8), -1);
    assert_int_equal(rk_interactions_user(x, 2), -1);
    write_file("keys.csv", "user,item\n2,8\n3,8\n");
    open_train(&o, features);
    OK(rk_interactions_collect(o.dataset, (rk_pair_features){0, 1}, &more));
    close_section(&o);
    OK(rk_interactions_merge(x, more, &all));
    assert_keys(all->user_keys, all->n_users, all_users, 4);
    assert_keys(all->item_keys, all->n_items, all_items, 5);
    assert_int_equal(all->offsets[4], 7);
    OK(rk_interactions_renumber(x, all, &again));
    assert_keys(again->item_keys, again->n_items, all_items, 5);
    assert_memory_equal(again->offsets, renumbered, sizeof renumbered);
    assert_memory_equal(again->items, by_all, sizeof by_all);
    rk_interactions_unref(x);
    rk_interactions_unref(more);
    rk_interactions_unref(all);
    rk_interactions_unref(again);
    open_train(&o, text);
    OK(rk_interactions_collect(o.dataset, (rk_pair_features){0, 1}, &x));
    close_section(&o);
    assert_null(x->user_keys);
    assert_int_equal(x->n_users, 4);
    assert_int_equal(rk_interactions_item(x, 8), 0);
    assert_int_equal(rk_interactions_item_id(x, 0), 8);
    rk_interactions_unref(x);
    assert_int_equal(rk_alloc_live(), 0);
}

static void fails(const char *text, rk_status status, const char *message) {
    opened o;
    rk_interactions *x = NULL;
    char wanted[512];
    open_train(&o, text);
    snprintf(wanted, sizeof wanted, message, directory);
    FAILS(rk_interactions_collect(o.dataset, (rk_pair_features){0, 1}, &x), status, wanted);
    close_section(&o);
}

static void test_refusals(void **state) {
    (void)state;
    write_file("word", "0 1\n2 x 3\n");
    write_file("user", "0 1\nme 3\n");
    write_file("beyond", "0 1 2\n1 6\n");
    write_file("none.csv", "user,item\n0,1\n1,\n");
    fails("format: adjacency\ntrain: word\n" FEATURES, RK_BAD_DATA,
          "'%s/word': line 2: the item 'x' is not a whole number");
    fails("format: adjacency\ntrain: user\n" FEATURES, RK_BAD_DATA,
          "'%s/user': line 2: the user 'me' is not a whole number");
    fails("train: none.csv\n" FEATURES, RK_BAD_DATA,
          "row 1: feature 'item' has 0 ids; a pair has one user and one item");
    fails("format: adjacency\ncolumns: [a]\ntrain: word\n" FEATURES, RK_CONFIG,
          "'%s/word' has the two columns of an adjacency list, but 'columns' names 1");
    opened o;
    rk_interactions *x;
    open_train(&o, "format: adjacency\non_bad_row: skip\ntrain: word\n" FEATURES);
    OK(rk_interactions_collect(o.dataset, (rk_pair_features){0, 1}, &x));
    assert_int_equal(x->offsets[4], 2); /* the line's other pair stays */
    assert_int_equal(rk_dataset_n_skipped(o.dataset), 1);
    rk_interactions_unref(x);
    close_section(&o);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_keys),
                                       cmocka_unit_test(test_refusals)};
    if (!mkdtemp(directory)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) || failed;
}
