/* An index of a two_tower's items: it has the vectors that sessions give, recommendations by it are those of
 * looking at all items, and what it misses is counted; other models' indexes are refused; memory that runs
 * out. */
#include "serve/session_data.h"

#include <math.h>

#include <reckon/experimental/predictor_index.h>
#include <reckon/experimental/recommend.h>

#include "base/file/file.h"
#include "base/memory.h"

enum { USERS = 40, ITEMS = 60, DIM = 8, K = 7 };

#define PAIR PAIRS_OF("60")

static char paths[4][340];
static const char *path_of(int number, const char *name) {
    snprintf(paths[number], sizeof paths[0], "%s/%s", directory, name);
    return paths[number];
}

static rk_status make_index(rk_predictor *predictor, rk_index_kind kind, double recall, const char *path,
                            rk_index_recall *found) {
    rk_index_options layout = RK_INDEX_OPTIONS_INIT;
    rk_predictor_index_options o = RK_PREDICTOR_INDEX_OPTIONS_INIT;
    rk_index *index;
    layout.kind = kind;
    layout.n_lists = kind == RK_INDEX_IVF ? 9 : 0;
    o.index = &layout;
    o.recall = recall;
    o.k = K;
    rk_status status = rk_predictor_build_index(predictor, &o, &index, found);
    if (status != RK_OK) return status;
    status = rk_index_save(index, path);
    rk_index_free(index);
    return status;
}

static rk_status recommend(rk_predictor *predictor, const char *index, const char *output, double *recall) {
    rk_recommend_options o = RK_RECOMMEND_OPTIONS_INIT;
    o.k = K;
    o.index = index;
    o.index_recall = recall;
    o.output = output;
    return rk_predictor_recommend(predictor, &o, NULL);
}

/* wanted[user * ITEMS + item] */
static int read_pairs(const char *path, bool *wanted) {
    int n = 0, user, rank, item;
    double score;
    char *text;
    size_t n_bytes;
    memset(wanted, 0, USERS * ITEMS * sizeof *wanted);
    OK(rk_file_read(path, &text, &n_bytes));
    for (char *at = strchr(text, '\n') + 1; *at; at = strchr(at, '\n') + 1, n++) {
        assert_int_equal(sscanf(at, "%d,%d,%d,%lf", &user, &rank, &item, &score), 4);
        wanted[user * ITEMS + item] = true;
    }
    rk_free(text);
    return n;
}

static void test_recommendations(void **state) {
    (void)state;
    static bool all[USERS * ITEMS], by_index[USERS * ITEMS];
    train(PAIR, TWO_TOWER("4"));
    rk_predictor *predictor = open_run();
    const char *index = path_of(0, "items.faiss"), *output = path_of(1, "found.csv");
    rk_index_recall found = RK_INDEX_RECALL_INIT;
    double recall = 0;
    OK(recommend(predictor, NULL, output, &recall));
    int n = read_pairs(output, all);
    assert_true(recall == 1 && n > USERS);
    OK(make_index(predictor, RK_INDEX_EXACT, 0, index, &found));
    assert_true(found.recall == 1 && found.n_queries == USERS / 2);
    OK(recommend(predictor, index, output, &recall));
    assert_int_equal(read_pairs(output, by_index), n);
    assert_memory_equal(all, by_index, sizeof all);
    assert_true(recall == 1);
    /* Few lists miss some, which the recall says. */
    OK(make_index(predictor, RK_INDEX_IVF, .6, index, &found));
    assert_true(found.recall > .4 && found.n_probe < 9);
    OK(recommend(predictor, index, output, &recall));
    assert_int_equal(read_pairs(output, by_index), n);
    int n_same = 0;
    for (int i = 0; i < USERS * ITEMS; i++) n_same += all[i] && by_index[i];
    assert_true(n_same < n && fabs((double)n_same / n - recall) < 1e-9);
    /* The vectors are those of the session's. */
    rk_session *session;
    rk_index *opened;
    static float items[ITEMS * DIM];
    rk_index_info info = RK_INDEX_INFO_INIT;
    OK(rk_session_create(predictor, NULL, &session));
    OK(rk_session_item_vectors(session, 0, ITEMS, items));
    OK(rk_index_open(index, NULL, &opened));
    OK(rk_index_get_info(opened, &info));
    assert_true(info.n > 40 && info.n <= ITEMS && info.dim == DIM && info.asked_recall == .6);
    memory_rows rows;
    static float vectors[N_ROWS * DIM];
    take_rows(&rows, 0, N_ROWS);
    OK(rk_session_user_vectors(session, &rows.table.schema, &rows.table.array, vectors));
    for (int row = 0; row < N_ROWS; row += 7) {
        float scores[ITEMS];
        int64_t ids[ITEMS];
        OK(rk_index_search(opened, vectors + row * DIM, 1, (int32_t)info.n, NULL, ids, scores));
        for (int64_t i = 0; i < info.n; i++) {
            double sum = 0;
            for (int d = 0; d < DIM; d++)
                sum += (double)vectors[row * DIM + d] * (double)items[ids[i] * DIM + d];
            assert_true(fabs((double)scores[i] - sum) < 1e-5);
        }
    }
    rk_index_free(opened);
    rk_session_free(session);
    rk_predictor_free(predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

/* An index of vectors, as a file. */
static void write_vectors(const float *vectors, int64_t n, int32_t dim, const char *path) {
    rk_index *index;
    OK(rk_index_build(vectors, NULL, n, dim, NULL, &index));
    OK(rk_index_save(index, path));
    rk_index_free(index);
}

static void test_refused(void **state) {
    (void)state;
    static float vectors[100 * DIM] = {1, 2, 3};
    char wanted[1000];
    train(PAIR, TWO_TOWER("4"));
    rk_predictor *predictor = open_run();
    const char *index = path_of(0, "other.faiss"), *output = path_of(1, "found.csv");
    write_vectors(vectors, 10, DIM, index);
    snprintf(wanted, sizeof wanted,
             "'%s' is an index of another model: item 0 has another vector there\nhint: make it anew with "
             "'reckon index'",
             index);
    FAILS(recommend(predictor, index, output, NULL), RK_INVALID_ARGUMENT, wanted);
    write_vectors(vectors, 10, DIM - 1, index);
    snprintf(wanted, sizeof wanted, "'%s' has vectors of 7 numbers, but the model's have 8", index);
    FAILS(recommend(predictor, index, output, NULL), RK_INVALID_ARGUMENT, wanted);
    OK(rk_file_write(path_of(2, "text.csv"), "user,item\n", 10));
    assert_int_equal(recommend(predictor, path_of(2, "text.csv"), output, NULL), RK_BAD_DATA);
    assert_int_equal(recommend(predictor, "no-index", output, NULL), RK_NOT_FOUND);
    rk_predictor_free(predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_out_of_memory(void **state) {
    (void)state;
    train(PAIR, TWO_TOWER("4"));
    rk_predictor *predictor = open_run();
    const char *index = path_of(0, "items.faiss"), *output = path_of(1, "found.csv");
    OK(make_index(predictor, RK_INDEX_IVF, .9, index, NULL));
    OK(recommend(predictor, index, output, NULL)); /* what the model keeps for other calls is there */
    for (int what = 0; what < 2; what++)
        for (long n = 1;; n++) {
            long live = rk_alloc_live();
            rk_alloc_fail_after(n, n % 2);
            rk_status status = what ? recommend(predictor, index, output, NULL)
                                    : make_index(predictor, RK_INDEX_IVF, .9, index, NULL);
            rk_alloc_fail_after(0, false);
            assert_int_equal(rk_alloc_live(), live);
            if (status == RK_OK) break;
            assert_int_equal(status, RK_NO_MEMORY);
            assert_in_range(n, 1, 5000);
        }
    rk_predictor_free(predictor);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recommendations), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
