/* Candidates ranked by predictions, as rk_predictor_file gives them; vectors as files; what is refused,
 * memory and disks that run out. */
#include "serve/session_files.h"

#include <math.h>

#include <reckon/experimental/recommend.h>

#include "base/file/file.h"
#include "base/memory.h"

enum { USERS = 40, ITEMS = 50, DIM = 4 };

#define RANKER                                                                                        \
    "labels: [{name: click, optional: true}, {name: high, column: rating, threshold: 3}], features: " \
    "[{name: "                                                                                        \
    "user, identity: 40}, {name: target, hash: 60}]"
#define MODEL "model: {kind: dnn, deep: [8]}\nembedding: {dim: 4}"
#define PAIR  "features: [{name: user, identity: 40}, {name: item_id, column: target, vocabulary: {oov: 0}}]"
#define TOWERS \
    "model: {kind: two_tower, retrieval: {user: user, item: item_id, negatives: 16}}\nembedding: {dim: 4}"

static rk_status rerank(rk_predictor *predictor, rk_rerank_options o, int64_t *n) {
    char rows[340], output[340];
    snprintf(rows, sizeof rows, "%s/rows.csv", directory);
    snprintf(output, sizeof output, "%s/found.csv", directory);
    if (!o.output) o.output = output;
    o.struct_size = sizeof o;
    return rk_predictor_rerank(predictor, rows, &o, n);
}

/* Of each user the k best rows, which all others do not exceed; of equal ones the first. */
static void check_ranked(const file_predictions *f, int32_t task, int k) {
    bool taken[N_ROWS] = {false}, seen[USERS] = {false};
    int user = -1, n = 0, next = 0;
    const char *at = read_text("found.csv");
    assert_memory_equal(at, "group,rank,row,item,score\n", 26);
    for (at += 26; *at; at = strchr(at, '\n') + 1) {
        int group, rank, row, item;
        float score;
        assert_int_equal(sscanf(at, "%d,%d,%d,%d,%f", &group, &rank, &row, &item, &score), 5);
        if (rank == 1) {
            while (seen[users[next]]) next++;
            assert_int_equal(group, users[next]);
            seen[group] = true;
            n = 0;
        } else {
            assert_int_equal(group, user);
        }
        user = group;
        assert_int_equal(rank, ++n);
        assert_true(users[row] == user && targets[row] == item && !taken[row]);
        assert_true(score == f->values[row * f->n_tasks + task]);
        taken[row] = true;
        for (int other = 0; other < N_ROWS; other++)
            if (users[other] == user && !taken[other]) {
                float theirs = f->values[other * f->n_tasks + task];
                assert_true(theirs < score || (theirs == score && other > row));
            }
    }
    for (int u = 0; u < USERS; u++) {
        int n_rows = 0, n_taken = 0;
        for (int row = 0; row < N_ROWS; row++) {
            n_rows += users[row] == u;
            n_taken += users[row] == u && taken[row];
        }
        assert_int_equal(n_taken, n_rows < k ? n_rows : k);
    }
}

static void test_ranked(void **state) {
    (void)state;
    static file_predictions f;
    int64_t n;
    char *one;
    int threads = rk_threads();
    train(RANKER, MODEL);
    rk_predictor *predictor = open_run();
    predict_file(predictor, &f);
    rk_rerank_options o = {.group = "user", .item = "target", .task = "high", .k = 5};
    OK(rerank(predictor, o, &n));
    assert_int_equal(n, USERS);
    check_ranked(&f, 1, 5);
    OK(rk_strdup(read_text("found.csv"), &one));
    for (int i = 1; i < 4; i++) {
        OK(rk_set_threads(i));
        OK(rerank(predictor, o, NULL));
        assert_string_equal(read_text("found.csv"), one);
    }
    rk_free(one);
    OK(rk_set_threads(threads));
    o.task = "click";
    o.k = 0;
    OK(rerank(predictor, o, NULL));
    check_ranked(&f, 0, 100);
    o.format = RK_RECOMMEND_JSONL;
    o.item = NULL;
    OK(rerank(predictor, o, NULL));
    char wanted[40];
    snprintf(wanted, sizeof wanted, "{\"group\":\"%d\",\"rows\":[", (int)users[0]);
    assert_memory_equal(read_text("found.csv"), wanted, strlen(wanted));
    assert_null(strstr(read_text("found.csv"), "items"));
    read_text(NULL);
    rk_predictor_free(predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_refused(void **state) {
    (void)state;
    char message[600];
    train(RANKER, MODEL);
    rk_predictor *predictor = open_run();
    FAILS(rerank(predictor, (rk_rerank_options){.task = "high"}, NULL), RK_INVALID_ARGUMENT,
          "nothing says which candidates belong together\nhint: --group names their column, of users or "
          "queries; by default it is the run's 'data.group'");
    FAILS(rerank(predictor, (rk_rerank_options){.group = "user"}, NULL), RK_INVALID_ARGUMENT,
          "the model has several tasks; candidates are ranked by one of them\nhint: its tasks are click, "
          "high; --task says which");
    FAILS(rerank(predictor, (rk_rerank_options){.group = "user", .task = "low"}, NULL), RK_INVALID_ARGUMENT,
          "the model has no task 'low'\nhint: its tasks are click, high; --task says which");
    FAILS(rerank(predictor, (rk_rerank_options){.group = "user", .task = "high", .k = -2}, NULL),
          RK_INVALID_ARGUMENT, "k must be 1 or more, not -2");
    snprintf(message, sizeof message, "'%s/rows.csv' has no column 'usr'\nhint: did you mean 'user'?",
             directory);
    FAILS(rerank(predictor, (rk_rerank_options){.group = "usr", .task = "high"}, NULL), RK_CONFIG, message);
    const rk_recommend_options o = {.struct_size = sizeof o, .output = "vectors.npy"};
    FAILS(rk_predictor_write_vectors(predictor, true, &o, NULL), RK_UNSUPPORTED,
          "only a two_tower has vectors of users and items");
    rk_predictor_free(predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_vectors(void **state) {
    (void)state;
    static float items[ITEMS * DIM];
    char output[340];
    rk_session *session;
    int64_t n;
    size_t n_bytes;
    train(PAIR, TOWERS);
    rk_predictor *predictor = open_run();
    OK(rk_session_create(predictor, NULL, &session));
    assert_int_equal(rk_session_n_items(session), ITEMS);
    OK(rk_session_item_vectors(session, 0, ITEMS, items));
    rk_session_free(session);
    rk_recommend_options o = RK_RECOMMEND_OPTIONS_INIT;
    o.output = output;
    snprintf(output, sizeof output, "%s", path_of("vectors.csv"));
    snprintf(path, sizeof path, "vectors are written as .npy or .safetensors, not to '%s'", output);
    FAILS(rk_predictor_write_vectors(predictor, true, &o, NULL), RK_INVALID_ARGUMENT, path);
    snprintf(output, sizeof output, "%s", path_of("vectors.npy"));
    OK(rk_predictor_write_vectors(predictor, true, &o, &n));
    assert_int_equal(n, ITEMS);
    char *file;
    OK(rk_file_read(output, &file, &n_bytes));
    assert_int_equal(n_bytes, 128 + sizeof items);
    assert_non_null(strstr(file + 10, "'shape': (50, 4)"));
    assert_memory_equal(file + 128, items, sizeof items);
    rk_free(file);
    /* Users of the training data in the order of their first rows; memory that runs out. */
    snprintf(output, sizeof output, "%s", path_of("users.safetensors"));
    OK(rk_predictor_write_vectors(predictor, false, &o, &n));
    assert_int_equal(n, USERS);
    assert_int_equal(atoi(read_text("users.ids.txt")), users[0]);
    read_text(NULL);
    for (int of_items = 0; of_items < 2; of_items++)
        for (long at = 1;; at++) {
            long live = rk_alloc_live();
            rk_alloc_fail_after(at, at % 2);
            rk_status status = rk_predictor_write_vectors(predictor, of_items, &o, &n);
            rk_alloc_fail_after(0, false);
            assert_int_equal(rk_alloc_live(), live);
            if (status == RK_OK) break;
            assert_int_equal(status, RK_NO_MEMORY);
            assert_true(at < 5000);
        }
    rk_predictor_free(predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_failures(void **state) {
    (void)state;
    const rk_rerank_options wanted = {.group = "user", .item = "target", .task = "high", .k = 3};
    train(RANKER, MODEL);
    rk_predictor *predictor = open_run();
    OK(rerank(predictor, wanted, NULL));
    char *whole;
    OK(rk_strdup(read_text("found.csv"), &whole));
    read_text(NULL);
    unlink(path_of("found.csv"));
    for (long n = 1;; n++) {
        long live = rk_alloc_live();
        rk_alloc_fail_after(n, n % 2);
        rk_status status = rerank(predictor, wanted, NULL);
        rk_alloc_fail_after(0, false);
        assert_int_equal(rk_alloc_live(), live);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
        if (access(path_of("found.csv"), F_OK) == 0) /* only the directory was not synchronized */
            assert_string_equal(read_text("found.csv"), whole);
        read_text(NULL);
        unlink(path_of("found.csv"));
        assert_true(n < 5000);
    }
    unlink(path_of("found.csv"));
    rk_file_fail_after(100);
    assert_int_equal(rerank(predictor, wanted, NULL), RK_IO);
    rk_file_fail_after(-1);
    assert_int_equal(access(path_of("found.csv"), F_OK), -1);
    assert_int_equal(access(path_of("found.csv.tmp"), F_OK), -1);
    rk_free(whole);
    rk_predictor_free(predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranked), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_vectors), cmocka_unit_test(test_failures)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
