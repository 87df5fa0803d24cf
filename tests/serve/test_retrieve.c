/* Retrieval by sessions of a two_tower: vectors as the model gives them, the best items as a plain search
 * over all finds them, from four threads at once; what is refused, memory that runs out. */
#include "serve/session_data.h"

#include <math.h>
#include <pthread.h>

#include "base/memory.h"
#include "serve/predictor_internal.h"

enum { N_THREADS = 4, DIM = 8, ITEMS = 50, K = 7 };

#define PAIR PAIRS_OF("50")

typedef struct opened {
    rk_predictor *predictor;
    rk_session *session;
    rk_item_index *index;
    float items[ITEMS * DIM], users[N_ROWS * DIM];
} opened;

/* The columns without the item's, which nobody knows who asks for items. */
static void take_users(memory_rows *rows, int64_t first, int64_t n) {
    take_rows(rows, first, n);
    rows->columns[1].schema.name = "something";
}

static void open_session(opened *o) {
    train(PAIR, TWO_TOWER("4"));
    o->predictor = open_run();
    OK(rk_session_create(o->predictor, NULL, &o->session));
    assert_int_equal(rk_session_vector_dim(o->session), DIM);
    assert_int_equal(rk_session_n_items(o->session), ITEMS);
    OK(rk_session_item_vectors(o->session, 0, 20, o->items));
    OK(rk_session_item_vectors(o->session, 20, ITEMS - 20, o->items + 20 * DIM));
    OK(rk_item_index_create(o->items, ITEMS, DIM, &o->index));
    memory_rows rows;
    take_users(&rows, 0, N_ROWS);
    OK(rk_session_user_vectors(o->session, &rows.table.schema, &rows.table.array, o->users));
}

static void close_session(opened *o) {
    rk_item_index_free(o->index);
    rk_session_free(o->session);
    rk_predictor_free(o->predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

static void test_vectors(void **state) {
    (void)state;
    static opened o;
    static float wanted[N_ROWS * DIM];
    int64_t ids[ITEMS];
    const rk_batch *batch;
    rk_transform_workspace *workspace;
    memory_rows rows;
    open_session(&o);
    for (int64_t i = 0; i < ITEMS; i++) ids[i] = i;
    OK(rk_model_item_vectors(o.predictor->model, ids, ITEMS, wanted));
    for (int i = 0; i < ITEMS * DIM; i++) assert_true(fabsf(o.items[i] - wanted[i]) < 1e-6f);
    OK(rk_transform_workspace_create(o.predictor->config->transforms, &workspace));
    take_rows(&rows, 0, N_ROWS);
    OK(rk_transforms_apply(o.predictor->config->transforms, &rows.table.schema, &rows.table.array, workspace,
                           &batch));
    OK(rk_model_user_vectors(o.predictor->model, batch, wanted));
    assert_memory_equal(o.users, wanted, sizeof wanted);
    rk_transform_workspace_free(workspace);
    close_session(&o);
}

static double product(const opened *o, int user, int64_t item) {
    double sum = 0;
    for (int d = 0; d < DIM; d++) sum += (double)o->users[user * DIM + d] * (double)o->items[item * DIM + d];
    return sum;
}

/* Of each user's items, those left out are the multiples of 2 + row % 4. */
static rk_ids exclude(int64_t *offsets, int64_t *ids) {
    offsets[0] = 0;
    for (int row = 0; row < N_ROWS; row++) {
        offsets[row + 1] = offsets[row];
        for (int item = 0; item < ITEMS; item += 2 + row % 4) ids[offsets[row + 1]++] = item;
    }
    return (rk_ids){.offsets = offsets, .ids = ids};
}

static void check_found(const opened *o, const int64_t *items, const float *scores, bool excludes) {
    for (int row = 0; row < N_ROWS; row++) {
        bool found[ITEMS] = {false};
        double least = INFINITY;
        for (int i = 0; i < K; i++) {
            int64_t item = items[row * K + i];
            assert_true(item >= 0 && item < ITEMS && !found[item]);
            found[item] = true;
            assert_true(fabs((double)scores[row * K + i] - product(o, row, item)) < 1e-5);
            assert_true(i == 0 || scores[row * K + i] <= scores[row * K + i - 1]);
            least = scores[row * K + i];
        }
        for (int item = 0; item < ITEMS; item++) {
            bool is_out = excludes && item % (2 + row % 4) == 0;
            assert_false(is_out && found[item]);
            assert_true(is_out || found[item] || product(o, row, item) <= least + 1e-5);
        }
    }
}

typedef struct caller {
    const opened *o;
    const rk_ids *excluded;
    int64_t items[N_ROWS * K];
    float scores[N_ROWS * K];
    rk_status status;
} caller;

static void *call(void *context) {
    caller *c = context;
    rk_session *session;
    memory_rows rows;
    take_users(&rows, 0, N_ROWS);
    c->status = rk_session_create(c->o->predictor, NULL, &session);
    if (c->status != RK_OK) return NULL;
    for (int round = 0; round < 3 && c->status == RK_OK; round++)
        c->status = rk_session_retrieve(session, &rows.table.schema, &rows.table.array, c->o->index, K,
                                        c->excluded, c->items, c->scores);
    rk_session_free(session);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    static opened o;
    static int64_t offsets[N_ROWS + 1], ids[N_ROWS * ITEMS];
    static caller callers[N_THREADS];
    pthread_t threads[N_THREADS];
    open_session(&o);
    const rk_ids excluded = exclude(offsets, ids);
    for (int t = 0; t < N_THREADS; t++) {
        callers[t] = (caller){.o = &o, .excluded = t % 2 ? &excluded : NULL};
        assert_int_equal(pthread_create(&threads[t], NULL, call, &callers[t]), 0);
    }
    for (int t = 0; t < N_THREADS; t++) {
        pthread_join(threads[t], NULL);
        OK(callers[t].status);
        check_found(&o, callers[t].items, callers[t].scores, t % 2 == 1);
        assert_memory_equal(callers[t].items, callers[t % 2].items, sizeof callers[t].items);
        assert_memory_equal(callers[t].scores, callers[t % 2].scores, sizeof callers[t].scores);
    }
    close_session(&o);
}

static void test_refused(void **state) {
    (void)state;
    static opened o;
    memory_rows rows;
    int64_t items[ITEMS] = {99}, one[] = {3, 2}, all[ITEMS - 2], offsets[] = {0, 2};
    float scores[ITEMS] = {99};
    open_session(&o);
    take_users(&rows, 0, 1);
#define RETRIEVE(k, excluded) \
    rk_session_retrieve(o.session, &rows.table.schema, &rows.table.array, o.index, k, excluded, items, scores)
    FAILS(RETRIEVE(0, NULL), RK_INVALID_ARGUMENT, "k must be 1 to 50, the items of the index, not 0");
    FAILS(RETRIEVE(51, NULL), RK_INVALID_ARGUMENT, "k must be 1 to 50, the items of the index, not 51");
    rk_ids excluded = {.offsets = offsets, .ids = one};
    FAILS(RETRIEVE(2, &excluded), RK_INVALID_ARGUMENT,
          "row 0: the excluded items are not in ascending order at item 2");
    FAILS(rk_session_item_vectors(o.session, 49, 2, scores), RK_INVALID_ARGUMENT,
          "items 49 to 50 are not among the 50 items");
    assert_true(items[0] == 99 && scores[0] == 99);
    for (int i = 0; i < ITEMS - 2; i++) all[i] = i;
    offsets[1] = ITEMS - 2;
    excluded.ids = all;
    OK(RETRIEVE(3, &excluded));
    assert_true(items[0] >= ITEMS - 2 && items[1] >= ITEMS - 2 && items[2] == -1);
    assert_true(isinf(scores[2]) && scores[2] < 0);
    rk_item_index *narrow, *none = NULL;
    OK(rk_item_index_create(o.items, 4, 3, &narrow));
    FAILS(rk_session_retrieve(o.session, &rows.table.schema, &rows.table.array, narrow, 1, NULL, items, NULL),
          RK_INVALID_ARGUMENT, "the index has vectors of 3 numbers, but the model's have 8");
    rk_item_index_free(narrow);
    assert_int_equal(rk_item_index_create(o.items, 0, 3, &none), RK_INVALID_ARGUMENT);
    rows.columns[0].schema.name = "usr";
    FAILS(RETRIEVE(1, NULL), RK_BAD_DATA, "there is no column 'user'\nhint: is 'usr' meant?");
    close_session(&o);
    train("labels: [{name: click, optional: true}], features: [{name: user, identity: 40}]",
          "model: lr\nembedding: {dim: 4}");
    o.predictor = open_run();
    OK(rk_session_create(o.predictor, NULL, &o.session));
    assert_int_equal(rk_session_vector_dim(o.session), 0);
    assert_int_equal(rk_session_n_items(o.session), 0);
    FAILS(rk_session_item_vectors(o.session, 0, 0, scores), RK_INVALID_ARGUMENT,
          "only model 'two_tower' retrieves items");
    o.index = NULL;
    close_session(&o);
}

static void test_out_of_memory(void **state) {
    (void)state;
    static opened o;
    memory_rows rows;
    int64_t items[20 * 2];
    open_session(&o);
    take_users(&rows, 0, 20);
    OK(rk_session_retrieve(o.session, &rows.table.schema, &rows.table.array, o.index, 2, NULL, items, NULL));
    rk_session_free(o.session);
    long live = rk_alloc_live();
    for (long n = 1;; n++) {
        o.session = NULL;
        rk_alloc_fail_after(n, n % 2);
        rk_status status = rk_session_create(o.predictor, NULL, &o.session);
        if (status == RK_OK)
            status = rk_session_retrieve(o.session, &rows.table.schema, &rows.table.array, o.index, 2, NULL,
                                         items, NULL);
        rk_alloc_fail_after(0, false);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
        rk_session_free(o.session);
        assert_int_equal(rk_alloc_live(), live);
        assert_true(n < 2000);
    }
    live = rk_alloc_live();
    for (long n = 1;; n++) {
        rk_item_index *index = NULL;
        rk_alloc_fail_after(n, n % 2);
        rk_status status = rk_item_index_create(o.items, ITEMS, DIM, &index);
        rk_alloc_fail_after(0, false);
        rk_item_index_free(index);
        assert_int_equal(rk_alloc_live(), live);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
        assert_true(n < 2000);
    }
    close_session(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors), cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
