/* Changes of an index and its file: what is read is what was written, whole or not at all, and what was added
 * and removed is as if the index had been built so. */
#include "index/fixture.h"

#include <unistd.h>

#include "base/file/file.h"
#include "base/thread/parallel.h"

static vectors v;
static const char path[] = "test_index_file.rki";
static const rk_index_search_options all_lists = {.struct_size = sizeof all_lists, .n_probe = 1 << 20};

typedef struct kind {
    rk_index_kind kind;
    rk_index_codes codes;
} kind;
static const kind kinds[] = {
    {RK_INDEX_EXACT, RK_INDEX_INT8}, {RK_INDEX_EXACT, RK_INDEX_F32}, {RK_INDEX_IVF, RK_INDEX_INT8}};
enum { N_KINDS = 3 };

static char *saved(const rk_index *index, size_t *n_bytes) {
    OK(rk_index_save(index, path));
    return read_all(path, n_bytes);
}

static void test_round_trip(void **state) {
    (void)state;
    rk_index_open_options o = RK_INDEX_OPEN_OPTIONS_INIT;
    o.verify = true;
    for (int i = 0; i < N_KINDS; i++) {
        rk_index *index = build(&v, N, kinds[i].kind, kinds[i].codes), *opened;
        size_t n_bytes, n_again;
        OK(rk_index_tune(index, v.q, N_QUERIES, K, .8, NULL, NULL));
        char *first = saved(index, &n_bytes);
        OK(rk_index_open(path, &o, &opened));
        check_search(opened, &v, N, K, NULL, &all_lists);
        rk_index_info a = RK_INDEX_INFO_INIT, b = RK_INDEX_INFO_INIT;
        OK(rk_index_get_info(index, &a));
        OK(rk_index_get_info(opened, &b));
        assert_memory_equal(&a, &b, sizeof a);
        assert_true(a.asked_recall == .8 && a.recall > .5 && a.tuned_queries == N_QUERIES / 2);
        char *again = saved(opened, &n_again); /* over the file that it is mapped from */
        assert_int_equal(n_bytes, n_again);
        assert_memory_equal(first, again, n_bytes);
        check_search(opened, &v, N, K, NULL, &all_lists);
        rk_index_free(opened);
        rk_index_free(index);
        free(first);
        free(again);
    }
}

/* The file of any number of threads is the same. */
static void test_threads(void **state) {
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        char *files[2];
        size_t n_bytes[2];
        for (int threads = 0; threads < 2; threads++) {
            rk_index_options o = RK_INDEX_OPTIONS_INIT;
            rk_pool *pool;
            rk_index *index;
            OK(rk_pool_create(1 + 3 * threads, &pool));
            o.kind = kinds[i].kind;
            o.codes = kinds[i].codes;
            o.pool = pool;
            OK(rk_index_build(v.x, v.ids, N, DIM, &o, &index));
            files[threads] = saved(index, &n_bytes[threads]);
            rk_index_free(index);
            rk_pool_free(pool);
        }
        assert_int_equal(n_bytes[0], n_bytes[1]);
        assert_memory_equal(files[0], files[1], n_bytes[0]);
        free(files[0]);
        free(files[1]);
    }
}

/* Half is built, a quarter added, every third removed, from memory and from a file. */
static void change(rk_index *index, bool *wanted) {
    enum { SOME = N / 2, MORE = N / 4 };
    int64_t gone[N / 3 + 1], n_removed;
    int n_gone = 0;
    memset(wanted, 0, N * sizeof *wanted);
    OK(rk_index_add(index, v.x + SOME * DIM, v.ids + SOME, MORE / 2));
    check_search(index, &v, SOME + MORE / 2, K, NULL, &all_lists);
    OK(rk_index_add(index, v.x + (SOME + MORE / 2) * DIM, v.ids + SOME + MORE / 2, MORE / 2));
    for (int i = 0; i < SOME + MORE; i++) wanted[i] = i % 3 != 0;
    for (int i = 0; i < N; i += 3) gone[n_gone++] = v.ids[i];
    OK(rk_index_remove(index, gone, n_gone, &n_removed));
    assert_int_equal(n_removed, (SOME + MORE) / 3);
    check_search(index, &v, N, K, wanted, &all_lists);
    OK(rk_index_remove(index, gone, n_gone, &n_removed));
    assert_int_equal(n_removed, 0);
    OK(rk_index_add(index, v.x, v.ids, 1)); /* what is gone may come again */
    wanted[0] = true;
    check_search(index, &v, N, K, wanted, &all_lists);
    FAILS(rk_index_add(index, v.x, v.ids, 1), RK_INVALID_ARGUMENT, "id 3 is in the index already");
}

static void test_changes(void **state) {
    (void)state;
    static bool wanted[N];
    for (int i = 0; i < N_KINDS; i++)
        for (int mapped = 0; mapped < 2; mapped++) {
            rk_index *index = build(&v, N / 2, kinds[i].kind, kinds[i].codes), *opened;
            if (mapped) {
                OK(rk_index_save(index, path));
                rk_index_free(index);
                OK(rk_index_open(path, NULL, &index));
            }
            change(index, wanted);
            OK(rk_index_save(index, path));
            check_search(index, &v, N, K, wanted, &all_lists);
            OK(rk_index_open(path, NULL, &opened));
            check_search(opened, &v, N, K, wanted, &all_lists);
            rk_index_info info = RK_INDEX_INFO_INIT;
            OK(rk_index_get_info(opened, &info));
            assert_int_equal(info.n, N * 3 / 4 * 2 / 3 + 1);
            assert_int_equal(info.n_added + info.n_removed, 0);
            OK(rk_index_add(opened, v.x + (N - 1) * DIM, v.ids + N - 1, 1)); /* after the file */
            wanted[N - 1] = true;
            check_search(opened, &v, N, K, wanted, &all_lists);
            rk_index_free(opened);
            rk_index_free(index);
        }
}

/* Much that is added is laid out with the rest, and of nothing at all nothing is found. */
static void test_many_added(void **state) {
    (void)state;
    enum { MANY = 5000 };
    static float more[MANY * DIM];
    static int64_t ids[MANY];
    for (int i = 0; i < MANY; i++) {
        ids[i] = 100000 + i;
        for (int d = 0; d < DIM; d++) more[i * DIM + d] = -v.x[(i % N) * DIM + d] / 8 - (float)i * 1e-6f;
    }
    for (int i = 0; i < N_KINDS; i++) {
        rk_index *index = build(&v, N, kinds[i].kind, kinds[i].codes);
        rk_index_info info = RK_INDEX_INFO_INIT;
        int64_t found[K];
        OK(rk_index_add(index, more, ids, MANY));
        OK(rk_index_get_info(index, &info));
        assert_true(info.n == N + MANY && info.n_added == 0);
        static bool wanted[N];
        for (int j = 0; j < N; j++) wanted[j] = true;
        rk_index_search_options o = all_lists;
        o.ids = ids;
        o.n_ids = MANY;
        o.deny = true;
        check_search(index, &v, N, K, wanted, &o);
        OK(rk_index_remove(index, v.ids, N, NULL));
        OK(rk_index_remove(index, ids, MANY, NULL));
        OK(rk_index_save(index, path));
        rk_index_free(index);
        OK(rk_index_open(path, NULL, &index));
        OK(rk_index_search(index, v.q, 1, K, NULL, found, NULL));
        assert_int_equal(found[0], -1);
        OK(rk_index_add(index, v.x, v.ids, N));
        check_search(index, &v, N, K, NULL, &all_lists);
        rk_index_free(index);
    }
}

/* A file that is cut anywhere is none; a byte that is changed is seen, or changes nothing that could harm. */
static void test_damage(void **state) {
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        rk_index *index = build(&v, 60, kinds[i].kind, kinds[i].codes), *opened;
        size_t n_bytes;
        char *data = saved(index, &n_bytes);
        rk_index_open_options verify = RK_INDEX_OPEN_OPTIONS_INIT;
        verify.verify = true;
        for (size_t n = 0; n < n_bytes; n += n < 400 || n > n_bytes - 100 ? 1 : 37) {
            write_all(path, data, n);
            rk_status status = rk_index_open(path, NULL, &opened);
            assert_int_equal(status, RK_BAD_DATA);
        }
        for (size_t at = 0; at < n_bytes; at += at < 400 || at > n_bytes - 100 ? 1 : 37) {
            data[at] ^= 0x41;
            write_all(path, data, n_bytes);
            assert_int_not_equal(rk_index_open(path, &verify, &opened), RK_OK);
            if (rk_index_open(path, NULL, &opened) == RK_OK) {
                int64_t ids[K];
                OK(rk_index_search(opened, v.q, 1, K, NULL, ids, NULL));
                rk_index_free(opened);
            }
            data[at] ^= 0x41;
        }
        free(data);
        rk_index_free(index);
    }
    FAILS(rk_index_open("no-such-file", NULL, &(rk_index *){0}), RK_NOT_FOUND,
          "could not open 'no-such-file': No such file or directory");
}

static void test_full_disk(void **state) {
    (void)state;
    rk_index *index = build(&v, N, RK_INDEX_IVF, RK_INDEX_INT8), *opened;
    OK(rk_index_save(index, path));
    OK(rk_index_remove(index, v.ids, 1, NULL));
    rk_file_fail_after(5000);
    assert_int_equal(rk_index_save(index, path), RK_IO);
    rk_file_fail_after(-1);
    OK(rk_index_open(path, NULL, &opened)); /* the one before */
    check_search(opened, &v, N, K, NULL, &all_lists);
    rk_index_free(opened);
    rk_index_free(index);
}

/* Everything that takes memory, once. */
static rk_status use(rk_index_kind which, rk_index_codes codes) {
    rk_index_options o = RK_INDEX_OPTIONS_INIT;
    rk_index *index = NULL, *opened = NULL;
    rk_status status;
    int64_t ids[N_QUERIES * K];
    o.kind = which;
    o.codes = codes;
    o.n_lists = which == RK_INDEX_IVF ? 8 : 0;
    status = rk_index_build(v.x, v.ids, 200, DIM, &o, &index);
    if (status == RK_OK) status = rk_index_add(index, v.x + 200 * DIM, v.ids + 200, 100);
    if (status == RK_OK) status = rk_index_remove(index, v.ids, 20, NULL);
    if (status == RK_OK) status = rk_index_tune(index, v.q, N_QUERIES, K, .9, NULL, NULL);
    if (status == RK_OK) status = rk_index_save(index, path);
    if (status == RK_OK) status = rk_index_open(path, NULL, &opened);
    if (status == RK_OK) status = rk_index_search(opened, v.q, N_QUERIES, K, NULL, ids, NULL);
    rk_index_free(opened);
    rk_index_free(index);
    return status;
}

static void test_out_of_memory(void **state) {
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        OK(use(kinds[i].kind, kinds[i].codes));
        long live = rk_alloc_live();
        int n_failed = 0;
        for (long n = 1;; n++, n_failed++) {
            rk_alloc_fail_after(n, false);
            rk_status status = use(kinds[i].kind, kinds[i].codes);
            rk_alloc_fail_after(0, false);
            assert_int_equal(rk_alloc_live(), live);
            if (status == RK_OK) break;
            assert_int_equal(status, RK_NO_MEMORY);
            assert_in_range(n, 1, 5000);
        }
        assert_true(n_failed > 30);
    }
}

int main(void) {
    make_vectors(&v);
    OK(rk_parallel_set_threads(1)); /* the n-th allocation is the same one each time */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_threads),
        cmocka_unit_test(test_changes),       cmocka_unit_test(test_many_added),
        cmocka_unit_test(test_damage),        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_out_of_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
