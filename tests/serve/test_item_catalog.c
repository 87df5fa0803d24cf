/* A two_tower's items in memory: what a catalog finds is what a look at all of its items finds, narrowed by
 * lists or not; by an index file it is what a search of that file finds; what is refused, memory that runs
 * out. */
#include "serve/session_data.h"

#include <reckon/experimental/predictor_index.h>
#include <reckon/experimental/recommend.h>

#include "base/file/file.h"
#include "base/memory.h"

enum { ITEMS = 60, DIM = 8, K = 7, ROWS = 100 };

#define PAIR PAIRS_OF("60")

typedef struct opened {
    rk_predictor *predictor;
    rk_session *session;
    rk_item_catalog *catalog;
    int64_t n_items;
    memory_rows rows;
    char index[320];
} opened;

static void open_all(opened *o) {
    train(PAIR, TWO_TOWER("4"));
    o->predictor = open_run();
    OK(rk_session_create(o->predictor, NULL, &o->session));
    take_rows(&o->rows, 0, ROWS);
    o->rows.columns[1].schema.name = "something";
    snprintf(o->index, sizeof o->index, "%s/items.faiss", directory);
}

static void close_all(opened *o) {
    rk_item_catalog_free(o->catalog);
    rk_session_free(o->session);
    rk_predictor_free(o->predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

static rk_status make_catalog(opened *o, const char *index) {
    rk_recommend_options options = RK_RECOMMEND_OPTIONS_INIT;
    options.index = index;
    RK_TRY(rk_item_catalog_create(o->predictor, &options, &o->catalog));
    o->n_items = rk_item_catalog_n_items(o->catalog);
    return RK_OK;
}

/* Of nine lists, of which a search looks at two. */
static void write_index(opened *o) {
    rk_index_options layout = RK_INDEX_OPTIONS_INIT;
    rk_predictor_index_options options = RK_PREDICTOR_INDEX_OPTIONS_INIT;
    rk_index *index;
    layout.kind = RK_INDEX_IVF;
    layout.n_lists = 9;
    options.index = &layout;
    options.recall = .3;
    OK(rk_predictor_build_index(o->predictor, &options, &index, NULL));
    OK(rk_index_save(index, o->index));
    rk_index_free(index);
}

static rk_status retrieve(const opened *o, const rk_item_search *search, int64_t *items, float *scores) {
    return rk_item_catalog_retrieve(o->catalog, o->session, &o->rows.table.schema, &o->rows.table.array,
                                    search, items, scores);
}

/* Each row's multiples of 2 + row % 4 are not wanted. */
static rk_ids exclude(int64_t n_items, int64_t *offsets, int64_t *ids) {
    offsets[0] = 0;
    for (int row = 0; row < ROWS; row++) {
        offsets[row + 1] = offsets[row];
        for (int64_t item = 0; item < n_items; item += 2 + row % 4) ids[offsets[row + 1]++] = item;
    }
    return (rk_ids){.offsets = offsets, .ids = ids};
}

/* Every third item but the first. */
static int64_t narrow(int64_t n_items, int64_t *only) {
    int64_t n = 0;
    for (int64_t item = 1; item < n_items; item += 3) only[n++] = item;
    return n;
}

/* Whether the search of bits 0 (excluded) and 1 (only) may find an item. */
static bool is_wanted(int search, int row, int64_t item) {
    return (!(search & 1) || item % (2 + row % 4) != 0) && (!(search & 2) || item % 3 == 1);
}

static void set_search(int search, rk_item_search *o, const rk_ids *excluded, const int64_t *only,
                       int64_t n_only) {
    *o = (rk_item_search){.struct_size = sizeof *o, .k = K};
    if (search & 1) o->excluded = excluded;
    if (search & 2) o->only = only, o->n_only = n_only;
}

static void test_exact(void **state) {
    (void)state;
    static opened o;
    static int64_t offsets[ROWS + 1], ids[ROWS * ITEMS], only[ITEMS], all[ROWS * ITEMS], found[ROWS * K];
    static float all_scores[ROWS * ITEMS], scores[ROWS * K];
    open_all(&o);
    OK(make_catalog(&o, NULL));
    const rk_ids excluded = exclude(o.n_items, offsets, ids);
    int64_t n_only = narrow(o.n_items, only);
    rk_item_search search = RK_ITEM_SEARCH_INIT;
    search.k = (int32_t)o.n_items;
    OK(retrieve(&o, &search, all, all_scores));
    for (int how = 0; how < 4; how++) {
        set_search(how, &search, &excluded, only, n_only);
        OK(retrieve(&o, &search, found, scores));
        for (int row = 0; row < ROWS; row++) {
            int n = 0;
            for (int64_t i = row * o.n_items; i < (row + 1) * o.n_items && n < K; i++) {
                if (!is_wanted(how, row, all[i])) continue;
                assert_int_equal(found[row * K + n], all[i]);
                assert_true(scores[row * K + n++] == all_scores[i]);
            }
            assert_true(n == K || how);
            for (; n < K; n++) assert_int_equal(found[row * K + n], -1);
        }
    }
    search.only = only;
    search.n_only = 0;
    OK(retrieve(&o, &search, found, NULL));
    for (int i = 0; i < ROWS * K; i++) assert_int_equal(found[i], -1);
    close_all(&o);
}

/* Items as the data names them, which are ids of the index: the feature is an identity. */
static int64_t id_of(const opened *o, int64_t item) {
    char room[24], digits[24];
    size_t n_bytes;
    const char *name = rk_item_catalog_name(o->catalog, item, room, &n_bytes);
    snprintf(digits, sizeof digits, "%.*s", (int)n_bytes, name);
    return strtoll(digits, NULL, 10);
}

static void test_by_index(void **state) {
    (void)state;
    static opened o;
    static int64_t offsets[ROWS + 1], ids[ROWS * ITEMS], only[ITEMS], found[ROWS * K], wanted[K];
    static float vectors[ROWS * DIM], scores[ROWS * K];
    rk_index *index;
    int n_fewer = 0;
    open_all(&o);
    write_index(&o);
    OK(make_catalog(&o, o.index));
    OK(rk_index_open(o.index, NULL, &index));
    OK(rk_session_user_vectors(o.session, &o.rows.table.schema, &o.rows.table.array, vectors));
    const rk_ids excluded = exclude(o.n_items, offsets, ids);
    int64_t n_only = narrow(o.n_items, only);
    for (int how = 0; how < 4; how++) {
        rk_item_search search;
        set_search(how, &search, &excluded, only, n_only);
        OK(retrieve(&o, &search, found, scores));
        for (int row = 0; row < ROWS; row++) {
            rk_index_search_options options = RK_INDEX_SEARCH_OPTIONS_INIT;
            uint64_t bits = 0;
            float wanted_scores[K], best_scores[K];
            for (int64_t item = 0; item < o.n_items; item++)
                bits |= (uint64_t)is_wanted(how, row, item) << id_of(&o, item);
            options.bits = &bits;
            options.n_bits = 64;
            OK(rk_index_search(index, vectors + row * DIM, 1, K, &options, wanted, wanted_scores));
            for (int i = 0; i < K; i++) {
                int64_t item = found[row * K + i];
                assert_int_equal(item < 0 ? -1 : id_of(&o, item), wanted[i]);
                assert_true(scores[row * K + i] == wanted_scores[i]);
            }
            options.n_probe = 9;
            OK(rk_index_search(index, vectors + row * DIM, 1, K, &options, wanted, best_scores));
            n_fewer += memcmp(best_scores, wanted_scores, sizeof best_scores) != 0;
        }
    }
    assert_true(n_fewer > 0); /* it did not look at all lists */
    rk_index_free(index);
    close_all(&o);
}

static void test_refused(void **state) {
    (void)state;
    static opened o;
    static float vectors[10 * DIM] = {1, 2, 3};
    static int64_t items[ROWS * ITEMS] = {99};
    static const int64_t down[] = {3, 2}, far[] = {2, ITEMS}, offsets[ROWS + 1] = {0, 2};
    char wanted[1000];
    rk_index *other;
    open_all(&o);
    OK(rk_index_build(vectors, NULL, 10, DIM, NULL, &other));
    OK(rk_index_save(other, o.index));
    rk_index_free(other);
    snprintf(wanted, sizeof wanted,
             "'%s' is an index of another model: item 0 has another vector there\nhint: make it anew with "
             "'reckon index'",
             o.index);
    FAILS(make_catalog(&o, o.index), RK_INVALID_ARGUMENT, wanted);
    assert_int_equal(make_catalog(&o, "no-index"), RK_NOT_FOUND);
    write_index(&o);
    for (int by_index = 0; by_index < 2; by_index++) {
        rk_item_search search = RK_ITEM_SEARCH_INIT;
        rk_ids excluded = {.offsets = offsets, .ids = down};
        OK(make_catalog(&o, by_index ? o.index : NULL));
        FAILS(retrieve(&o, &search, items, NULL), RK_INVALID_ARGUMENT, "k must be 1 or more, not 0");
        search.k = (int32_t)o.n_items + 1;
        snprintf(wanted, sizeof wanted, "k must be 1 to %d, the items of the index, not %d", search.k - 1,
                 search.k);
        FAILS(retrieve(&o, &search, items, NULL), RK_INVALID_ARGUMENT, wanted);
        search.k = 1;
        search.excluded = &excluded;
        FAILS(retrieve(&o, &search, items, NULL), RK_INVALID_ARGUMENT,
              "row 0: the excluded items are not in ascending order at item 2");
        search.excluded = NULL;
        search.only = down;
        search.n_only = 2;
        FAILS(retrieve(&o, &search, items, NULL), RK_INVALID_ARGUMENT,
              "the only items are not in ascending order at item 2");
        search.only = far;
        snprintf(wanted, sizeof wanted, "the only items have %d, and the catalog has %lld", ITEMS,
                 (long long)o.n_items);
        FAILS(retrieve(&o, &search, items, NULL), RK_INVALID_ARGUMENT, wanted);
        assert_int_equal(items[0], 99);
        rk_item_catalog_free(o.catalog);
    }
    o.catalog = NULL;
    close_all(&o);
}

static void test_out_of_memory(void **state) {
    (void)state;
    static opened o;
    static int64_t offsets[ROWS + 1], ids[ROWS * ITEMS], only[ITEMS], items[ROWS * K];
    open_all(&o);
    write_index(&o);
    for (int by_index = 0; by_index < 2; by_index++) {
        rk_item_search search;
        OK(make_catalog(&o, by_index ? o.index : NULL)); /* what the model keeps is there */
        const rk_ids excluded = exclude(o.n_items, offsets, ids);
        set_search(3, &search, &excluded, only, narrow(o.n_items, only));
        rk_item_catalog_free(o.catalog);
        rk_session_free(o.session);
        o.session = NULL;
        for (long n = 1;; n++) {
            long live = rk_alloc_live();
            o.catalog = NULL;
            rk_alloc_fail_after(n, n % 2);
            rk_status status = make_catalog(&o, by_index ? o.index : NULL);
            if (status == RK_OK) status = rk_session_create(o.predictor, NULL, &o.session);
            if (status == RK_OK) status = retrieve(&o, &search, items, NULL);
            rk_alloc_fail_after(0, false);
            rk_session_free(o.session);
            rk_item_catalog_free(o.catalog);
            o.session = NULL;
            assert_int_equal(rk_alloc_live(), live);
            if (status == RK_OK) break;
            assert_int_equal(status, RK_NO_MEMORY);
            assert_in_range(n, 1, 5000);
        }
        OK(rk_session_create(o.predictor, NULL, &o.session));
    }
    o.catalog = NULL;
    close_all(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact), cmocka_unit_test(test_by_index),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
