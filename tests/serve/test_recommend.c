/* Recommendations as files: each user's best items as a plain search over the vectors finds them, by any
 * number of threads; who and what is left out; formats; what is refused; memory and disks that run out. */
#include "serve/session_files.h"

#include <math.h>

#include <reckon/experimental/recommend.h>

#include "base/file/file.h"
#include "base/memory.h"

enum { USERS = 40, ITEMS = 60, DIM = 8, K = 7, MAX_FOUND = USERS * ITEMS };

/* Ten items are in nobody's rows. */
#define PAIR PAIRS_OF("60")
#define NAMES_ONLY \
    "features: [{name: user, vocabulary: {oov: 0}}, {name: item_id, column: target, hash: 400}]"

/* A message that names a file of this test somewhere. */
#define FAILS_WITH(expr, status, part)                                                     \
    do {                                                                                   \
        assert_int_equal(expr, status);                                                    \
        if (!strstr(rk_last_error(), part)) fail_msg("%s: not %s", rk_last_error(), part); \
    } while (0)

static void write_text(const char *name, const char *text) {
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static rk_status recommend(rk_predictor *predictor, rk_recommend_options o, int64_t *n) {
    static char output[340];
    snprintf(output, sizeof output, "%s/found.csv", directory);
    if (!o.output) o.output = output;
    if (!o.k) o.k = K;
    o.struct_size = sizeof o;
    return rk_predictor_recommend(predictor, &o, n);
}

typedef struct found {
    int n;
    struct {
        int user, rank, item;
        double score;
    } lines[MAX_FOUND];
} found;

static void read_found(found *f) {
    char *at = read_text("found.csv");
    assert_memory_equal(at, "user,rank,item,score\n", 21);
    f->n = 0;
    for (at += 21; *at; at = strchr(at, '\n') + 1, f->n++) {
        assert_true(f->n < MAX_FOUND);
        assert_int_equal(sscanf(at, "%d,%d,%d,%lf", &f->lines[f->n].user, &f->lines[f->n].rank,
                                &f->lines[f->n].item, &f->lines[f->n].score),
                         4);
    }
}

typedef struct opened {
    rk_predictor *predictor;
    float items[ITEMS * DIM], users[USERS * DIM]; /* users: of their first rows */
    int order[USERS], n_users;                    /* users as they come */
    bool known[USERS][ITEMS], in_training[ITEMS];
} opened;

static void open_all(opened *o) {
    static float vectors[N_ROWS * DIM];
    memory_rows rows;
    rk_session *session;
    *o = (opened){.predictor = open_run()};
    OK(rk_session_create(o->predictor, NULL, &session));
    take_rows(&rows, 0, N_ROWS);
    OK(rk_session_item_vectors(session, 0, ITEMS, o->items));
    OK(rk_session_user_vectors(session, &rows.table.schema, &rows.table.array, vectors));
    rk_session_free(session);
    bool seen[USERS] = {false};
    for (int row = 0; row < N_ROWS; row++) {
        int user = (int)users[row];
        o->known[user][targets[row]] = o->in_training[targets[row]] = true;
        if (seen[user]) continue;
        seen[user] = true;
        o->order[o->n_users++] = user;
        memcpy(o->users + user * DIM, vectors + row * DIM, DIM * sizeof *vectors);
    }
}

static void close_all(opened *o) {
    read_text(NULL);
    rk_predictor_free(o->predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

static double product(const opened *o, int user, int item) {
    double sum = 0;
    for (int d = 0; d < DIM; d++) sum += (double)o->users[user * DIM + d] * (double)o->items[item * DIM + d];
    return sum;
}

/* allowed: items that may be there; NULL: those of the training data. */
static void check_found(const opened *o, const found *f, const bool *allowed, bool with_known, int k) {
    int line = 0;
    for (int u = 0; u < o->n_users; u++) {
        int user = o->order[u], n_left = 0, n = 0;
        bool taken[ITEMS] = {false};
        double least = INFINITY;
        for (int item = 0; item < ITEMS; item++)
            n_left +=
                (allowed ? allowed[item] : o->in_training[item]) && (with_known || !o->known[user][item]);
        for (; line < f->n && f->lines[line].user == user; line++) {
            int item = f->lines[line].item;
            assert_int_equal(f->lines[line].rank, ++n);
            assert_true(item >= 0 && item < ITEMS && !taken[item]);
            assert_true(allowed ? allowed[item] : o->in_training[item]);
            assert_true(with_known || !o->known[user][item]);
            assert_true(fabs(f->lines[line].score - product(o, user, item)) < 1e-5);
            assert_true(f->lines[line].score <= least);
            least = f->lines[line].score;
            taken[item] = true;
        }
        assert_int_equal(n, n_left < k ? n_left : k);
        for (int item = 0; item < ITEMS; item++) {
            bool may =
                (allowed ? allowed[item] : o->in_training[item]) && (with_known || !o->known[user][item]);
            assert_true(!may || taken[item] || (n == k && product(o, user, item) <= least + 1e-5));
        }
    }
    assert_int_equal(line, f->n);
}

static void test_best_items(void **state) {
    (void)state;
    static opened o;
    static found f;
    bool allowed[ITEMS] = {false};
    char items[340];
    int64_t n;
    train(PAIR, TWO_TOWER("4"));
    open_all(&o);
    OK(recommend(o.predictor, (rk_recommend_options){0}, &n));
    assert_int_equal(n, o.n_users);
    read_found(&f);
    check_found(&o, &f, NULL, false, K);
    OK(recommend(o.predictor, (rk_recommend_options){.with_known = true, .k = 100}, NULL));
    read_found(&f);
    check_found(&o, &f, NULL, true, 100);
    /* Items of a file, less those of another. */
    write_text("items.txt", "7\n49\n3\r\n7\n\n12\n500\nabc\n20");
    write_text("without.txt", "12\n");
    allowed[7] = allowed[49] = allowed[3] = allowed[20] = true;
    snprintf(items, sizeof items, "%s", path_of("items.txt"));
    OK(recommend(o.predictor,
                 (rk_recommend_options){
                     .items = items, .without_items = path_of("without.txt"), .k = 3, .users = "train"},
                 NULL));
    read_found(&f);
    check_found(&o, &f, allowed, false, 3);
    close_all(&o);
}

/* The same bytes by any number of threads, and in both formats the same answers. */
static void test_same_bytes(void **state) {
    (void)state;
    static opened o;
    char *one;
    int threads = rk_threads();
    train(PAIR, TWO_TOWER("4"));
    open_all(&o);
    OK(rk_set_threads(1));
    OK(recommend(o.predictor, (rk_recommend_options){0}, NULL));
    OK(rk_strdup(read_text("found.csv"), &one));
    OK(rk_set_threads(4));
    OK(recommend(o.predictor, (rk_recommend_options){0}, NULL));
    assert_string_equal(read_text("found.csv"), one);
    OK(rk_set_threads(threads));
    OK(recommend(o.predictor, (rk_recommend_options){.format = RK_RECOMMEND_JSONL}, NULL));
    char *json = read_text("found.csv"), *csv = one + 21;
    for (; *json; json = strchr(json, '\n') + 1) { /* the first item of each line and its score */
        char user[20], item[20], wanted[60];
        assert_int_equal(sscanf(json, "{\"user\":\"%19[0-9]\",\"items\":[\"%19[0-9]\"", user, item), 2);
        int length = (int)strcspn(strstr(json, "\"scores\":[") + 10, ",");
        snprintf(wanted, sizeof wanted, "%s,1,%s,%.*s\n", user, item, length,
                 strstr(json, "\"scores\":[") + 10);
        assert_memory_equal(csv, wanted, strlen(wanted));
        for (int i = 0; i < K; i++) csv = strchr(csv, '\n') + 1;
    }
    assert_int_equal(*csv, 0);
    rk_free(one);
    close_all(&o);
}

/* Users of a file, whose names alone the model sees; hashed items are named as the training data does. */
static void test_names(void **state) {
    (void)state;
    static found f;
    char users_file[340];
    train(NAMES_ONLY, TWO_TOWER("4"));
    rk_predictor *predictor = open_run();
    snprintf(users_file, sizeof users_file, "%s", path_of("users.csv"));
    write_text("users.csv", "user\n7\n400\n7\n3\nxy\n");
    OK(recommend(predictor, (rk_recommend_options){.users = users_file}, NULL));
    read_found(&f);
    assert_int_equal(f.n, 2 * K);
    for (int i = 0; i < f.n; i++) {
        assert_int_equal(f.lines[i].user, i < K ? 7 : 3);
        assert_true(f.lines[i].item >= 0 && f.lines[i].item < ITEMS);
        for (int row = 0; row < N_ROWS; row++)
            assert_false(users[row] == f.lines[i].user && targets[row] == f.lines[i].item);
    }
    write_text("users.csv", "user\n400\n401\n402\n403\n404\n405\n406\n");
    FAILS_WITH(
        recommend(predictor, (rk_recommend_options){.users = users_file}, NULL), RK_BAD_DATA,
        "none of the 7 users is in the training data: '400', '401', '402', '403', '404' and 2 more\nhint: "
        "users are named as the column 'user' of the run's data names them");
    read_text(NULL);
    rk_predictor_free(predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_refused(void **state) {
    (void)state;
    static opened o;
    char items[340], other[340];
    train(PAIR, TWO_TOWER("4"));
    open_all(&o);
    unlink(path_of("found.csv"));
    FAILS(recommend(o.predictor, (rk_recommend_options){.k = -1}, NULL), RK_INVALID_ARGUMENT,
          "k must be 1 or more, not -1");
    FAILS(recommend(o.predictor, (rk_recommend_options){.format = (rk_recommend_format)7}, NULL),
          RK_INVALID_ARGUMENT, "there is no format 7 of recommendations");
    FAILS_WITH(recommend(o.predictor, (rk_recommend_options){.users = "valid"}, NULL), RK_NOT_FOUND,
               "the run file has no 'data.valid'");
    write_text("items.txt", "abc\n60\n");
    write_text("empty.txt", "\n\r\n");
    snprintf(items, sizeof items, "%s", path_of("items.txt"));
    snprintf(other, sizeof other, "%s", path_of("empty.txt"));
    FAILS_WITH(
        recommend(o.predictor, (rk_recommend_options){.items = items}, NULL), RK_BAD_DATA,
        "items.txt': the model knows none of the 2 items: 'abc', '60'\nhint: an item a line, as the column "
        "'target' of the run's data has it");
    FAILS_WITH(recommend(o.predictor, (rk_recommend_options){.items = other}, NULL), RK_BAD_DATA,
               "empty.txt' has no items");
    write_text("items.txt", "3\n4\n");
    FAILS(recommend(o.predictor, (rk_recommend_options){.items = items, .without_items = items}, NULL),
          RK_BAD_DATA, "no item is left to recommend");
    write_text("users.csv", "user,x0\n3,0.5\n44,1\n");
    FAILS_WITH(recommend(o.predictor, (rk_recommend_options){.users = path_of("users.csv")}, NULL),
               RK_BAD_DATA, "users.csv': line 3: column 'user': id 44 is not within 0 to 39");
    write_text("users.csv", "user\n3\n");
    FAILS_WITH(recommend(o.predictor, (rk_recommend_options){.users = path_of("users.csv")}, NULL), RK_CONFIG,
               "users.csv' has no column 'x0'");
    FAILS_WITH(recommend(o.predictor, (rk_recommend_options){.output = path_of("no/where.csv")}, NULL), RK_IO,
               "could not create");
    assert_int_equal(access(path_of("found.csv"), F_OK), -1);
    assert_int_equal(access(path_of("found.csv.tmp"), F_OK), -1);
    close_all(&o);
    train("labels: [{name: click, optional: true}], features: [{name: user, identity: 40}]",
          "model: lr\nembedding: {dim: 4}");
    o.predictor = open_run();
    FAILS_WITH(recommend(o.predictor, (rk_recommend_options){0}, NULL), RK_UNSUPPORTED,
               "the model scores rows that it is given");
    close_all(&o);
}

/* Whatever fails leaves the file as it was; only the last allocation, for the directory's sake, is behind the
 * moment in which the new one stands in its place. */
static void sweep_memory(const opened *o, rk_recommend_options wanted) {
    char *whole;
    OK(recommend(o->predictor, wanted, NULL));
    OK(rk_strdup(read_text("found.csv"), &whole));
    for (long n = 1;; n++) {
        write_text("found.csv", "before");
        read_text(NULL);
        long live = rk_alloc_live();
        rk_alloc_fail_after(n, n % 2);
        rk_status status = recommend(o->predictor, wanted, NULL);
        rk_alloc_fail_after(0, false);
        assert_int_equal(rk_alloc_live(), live);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
        const char *text = read_text("found.csv");
        assert_true(strcmp(text, "before") == 0 || strcmp(text, whole) == 0);
        assert_true(n < 5000);
    }
    rk_free(whole);
}

static void test_failures(void **state) {
    (void)state;
    static opened o;
    static const char *const data[] = {PAIR, NAMES_ONLY};
    char items[340];
    write_text("items.txt", "7\n49\n3\n888\n");
    snprintf(items, sizeof items, "%s", path_of("items.txt"));
    for (int i = 0; i < 2; i++) {
        train(data[i], TWO_TOWER("4"));
        o.predictor = open_run();
        sweep_memory(&o, (rk_recommend_options){.k = 2});
        sweep_memory(&o, (rk_recommend_options){.items = items, .format = RK_RECOMMEND_JSONL});
        write_text("found.csv", "before");
        rk_file_fail_after(100);
        FAILS_WITH(recommend(o.predictor, (rk_recommend_options){0}, NULL), RK_IO, "No space left on device");
        rk_file_fail_after(-1);
        assert_string_equal(read_text("found.csv"), "before");
        assert_int_equal(access(path_of("found.csv.tmp"), F_OK), -1);
        close_all(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_best_items), cmocka_unit_test(test_same_bytes),
                                       cmocka_unit_test(test_names), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_failures)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
