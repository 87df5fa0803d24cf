/* Sessions: four threads that predict at once from memory say what the predictor says of a file, for every
 * preset; unknown values, cancelling, what is refused, memory that runs out. */
#include "serve/session_data.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <reckon/dlpack.h>

#include "base/memory.h"
#include "model/fixture.h"
#include "serve/predictor_internal.h"

enum { N_THREADS = 4 };

#define TWO_LABELS "labels: [{name: click, optional: true}, {name: rating, loss: mse, weight: 0.5}]"
#define ONE_LABEL  "labels: [{name: click, optional: true}]"

typedef struct caller {
    const rk_predictor *predictor;
    const file_predictions *wanted;
    rk_pool *pool;
    int number;
    atomic_int *n_ready;
    bool differs, fails;
} caller;

static bool is_wanted(const caller *c, const float *predictions, int64_t first, int64_t n) {
    const file_predictions *w = c->wanted;
    return memcmp(predictions, w->values + first * w->n_tasks,
                  (size_t)(n * w->n_tasks) * sizeof *predictions) == 0;
}

/* Columns of a batch, then the batch that transforms make of them. */
static void predict_part(caller *c, rk_session *session, rk_transform_workspace *workspace, int64_t first,
                         int64_t n) {
    const rk_transforms *transforms = c->predictor->config->transforms;
    float predictions[N_ROWS * MOST_TASKS];
    const rk_batch *batch;
    memory_rows rows;
    take_rows(&rows, first, n);
    c->fails |= rk_session_run(session, &rows.table.schema, &rows.table.array, predictions) != RK_OK;
    c->differs |= !is_wanted(c, predictions, first, n);
    memset(predictions, 0, sizeof predictions);
    c->fails |=
        rk_transforms_apply(transforms, &rows.table.schema, &rows.table.array, workspace, &batch) != RK_OK;
    c->fails |= rk_session_run_batch(session, batch, predictions) != RK_OK;
    c->differs |= !is_wanted(c, predictions, first, n);
}

/* All rows at once, then in parts that each thread draws: mostly small ones. */
static void *call(void *context) {
    caller *c = context;
    rk_session *session;
    rk_transform_workspace *workspace;
    rk_session_options options = RK_SESSION_OPTIONS_INIT;
    options.pool = c->pool;
    c->fails = rk_session_create(c->predictor, &options, &session) != RK_OK;
    c->fails |= rk_transform_workspace_create(c->predictor->config->transforms, &workspace) != RK_OK;
    atomic_fetch_add(c->n_ready, 1);
    if (c->fails) return NULL;
    while (atomic_load(c->n_ready) < N_THREADS) sched_yield();
    predict_part(c, session, workspace, 0, N_ROWS);
    rk_rng rng = {9, (uint64_t)c->number, 0};
    for (int64_t first = 0, n; first < N_ROWS; first += n) {
        int64_t most = rk_rng_below(&rng, 4) ? 20 : N_ROWS, left = N_ROWS - first;
        n = 1 + (int64_t)rk_rng_below(&rng, (uint64_t)(left < most ? left : most));
        predict_part(c, session, workspace, first, n);
    }
    rk_session_free(session);
    rk_transform_workspace_free(workspace);
    return NULL;
}

/* Two threads share a pool, one has its own, one works alone; the predictor reads the file again meanwhile. A
 * sample's prediction is the same in any batch. */
static void check_run(const char *name) {
    rk_predictor *predictor = open_run();
    static file_predictions wanted, again;
    caller callers[N_THREADS];
    pthread_t threads[N_THREADS];
    atomic_int n_ready = 0;
    rk_pool *shared, *own;
    OK(rk_pool_create(3, &shared));
    OK(rk_pool_create(2, &own));
    rk_pool *const pools[N_THREADS] = {shared, shared, own, NULL};
    predict_file(predictor, &wanted);
    for (int t = 0; t < N_THREADS; t++) {
        callers[t] = (caller){predictor, &wanted, pools[t], t, &n_ready, false, false};
        assert_int_equal(pthread_create(&threads[t], NULL, call, &callers[t]), 0);
    }
    predict_file(predictor, &again);
    for (int t = 0; t < N_THREADS; t++) {
        pthread_join(threads[t], NULL);
        if (callers[t].differs || callers[t].fails) print_error("%s: thread %d\n", name, t);
        assert_false(callers[t].fails);
        assert_false(callers[t].differs);
    }
    assert_memory_equal(wanted.values, again.values, sizeof wanted.values);
    bool varies = false;
    for (int64_t i = 1; i < N_ROWS; i++) varies |= wanted.values[i * wanted.n_tasks] != wanted.values[0];
    assert_true(varies);
    rk_pool_free(shared);
    rk_pool_free(own);
    rk_predictor_free(predictor);
}

static void test_presets(void **state) {
    (void)state;
    for (int c = 0; c < N_USUAL_CASES; c++) {
        train(usual_cases[c].n_tasks > 1 ? TWO_LABELS ", features: [" FEATURES "]"
                                         : ONE_LABEL ", features: [" FEATURES "]",
              usual_cases[c].text);
        check_run(usual_cases[c].text);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* What the usual cases are without: pairs, with histories and deep towers; layers; dense numbers alone; a
 * product of two tasks. */
static void test_others(void **state) {
    (void)state;
#define PAIR "features: [{name: user, identity: 40}, {name: target, identity: 50}"
    static const char *const runs[][3] = {
        {PAIR "]",
         "model: {kind: two_tower, retrieval: {user: user, item: target, history: true, negatives: 16}}\n"
         "embedding: {dim: 4, features: [{name: history, table: target}]}"},
        {PAIR ", {name: x0, dense: true}]",
         "model: {kind: two_tower, deep: [8], dropout: 0.2, retrieval: {user: user, item: target, "
         "similarity: cosine, in_batch: true}}\nembedding: {dim: 4}"},
        {ONE_LABEL ", features: [" FEATURES "]",
         "model: {kind: graph, layers: [{name: x, op: concat, inputs: [vectors, dense]}, {name: deep, op: "
         "mlp, "
         "inputs: x, units: [8]}, {name: score, op: linear, inputs: deep, units: 1}]}\nembedding: {dim: 4}"},
        {ONE_LABEL ", features: [{name: x0, dense: true}, {name: x1, dense: true}]",
         "model: {kind: dnn, deep: [8]}\nembedding: {dim: 4}"},
        {ONE_LABEL ", features: [" FEATURES "]",
         "model: {kind: dnn, deep: [130, 70, 33]}\nembedding: {dim: 24}", "train.dtype=bf16"},
        {ONE_LABEL ", features: [" FEATURES "]",
         "model: {kind: dcn_v2, deep: [600, 70]}\nembedding: {dim: 40}"},
        {"labels: [{name: click, optional: true}, {name: liked, column: rating, threshold: 3}, {name: both, "
         "column: rating, threshold: 3, product_of: [click, liked]}], features: [" FEATURES "]",
         "model: {kind: shared_bottom, deep: [8], towers: [4]}\nembedding: {dim: 4}"},
    };
    for (size_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
        train_with(runs[r][0], runs[r][1], runs[r][2]);
        check_run(runs[r][1]);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* One session of a run with a vocabulary. */
typedef struct opened {
    rk_predictor *predictor;
    rk_session *session;
    float predictions[N_ROWS];
} opened;

static void open_session(opened *o) {
    train(ONE_LABEL
          ", features: [{name: user, vocabulary: {}}, {name: tags, vocabulary: {oov: 3, min_count: 2}, "
          "separator: ' '}, {name: x0, dense: true}]",
          "model: {kind: deepfm, deep: [8]}\nembedding: {dim: 4}");
    o->predictor = open_run();
    OK(rk_session_create(o->predictor, NULL, &o->session));
}

static void close_session(opened *o) {
    rk_session_free(o->session);
    rk_predictor_free(o->predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

static rk_status run(opened *o, memory_rows *rows) {
    return rk_session_run(o->session, &rows->table.schema, &rows->table.array, o->predictions);
}

static void test_unknown(void **state) {
    (void)state;
    opened o;
    memory_rows rows;
    open_session(&o);
    assert_int_equal(rk_session_n_features(o.session), 2);
    assert_string_equal(rk_session_feature_name(o.session, 0), "user");
    assert_string_equal(rk_session_feature_name(o.session, 1), "tags");
    take_rows(&rows, 0, N_ROWS);
    OK(run(&o, &rows));
    assert_int_equal(rk_session_n_unknown(o.session, 0), 0);
    const int64_t strangers[] = {1000, users[0], 1001, 1000};
    const int32_t offsets[] = {0, 4, 4, 9, 13};
    take_rows(&rows, 0, 4);
    arrow_set(&rows.columns[0], "user", "l", 4, NULL, strangers, NULL);
    arrow_set(&rows.columns[5], "tags", "u", 4, NULL, offsets, "1 xx yy zzzz2");
    rows.table.schema_children[0] = &rows.columns[0].schema;
    OK(run(&o, &rows));
    assert_int_equal(rk_session_n_unknown(o.session, 0), 3);
    assert_int_equal(rk_session_n_unknown(o.session, 1), 4); /* xx, "yy", " zzz" and "z2" */
    struct ArrowSchema schema;
    OK(rk_session_input_schema(o.session, &schema));
    assert_int_equal(schema.n_children, 4);
    assert_string_equal(schema.children[0]->name, "user");
    assert_string_equal(schema.children[3]->name, "click"); /* which may be left out: last */
    schema.release(&schema);
    close_session(&o);
}

/* A failure says what is wrong, leaves the caller's memory, and the next run is as ever. */
static void test_refused(void **state) {
    (void)state;
    opened o;
    memory_rows rows;
    file_predictions wanted;
    open_session(&o);
    predict_file(o.predictor, &wanted);
    rk_session_options options = RK_SESSION_OPTIONS_INIT;
    rk_session *none = NULL;
    options.struct_size = 1;
    assert_int_equal(rk_session_create(o.predictor, &options, &none), RK_INVALID_ARGUMENT);
    assert_null(none);
    for (int i = 0; i < N_ROWS; i++) o.predictions[i] = -1;
    take_rows(&rows, 0, N_ROWS);
    rows.columns[2].schema.name = "y0";
    FAILS(run(&o, &rows), RK_BAD_DATA, "there is no column 'x0'");
    float spoiled[N_ROWS];
    memcpy(spoiled, dense[0], sizeof spoiled);
    spoiled[70] = INFINITY;
    take_rows(&rows, 0, N_ROWS);
    arrow_set(&rows.columns[2], "x0", "f", N_ROWS, NULL, spoiled, NULL);
    assert_int_equal(run(&o, &rows), RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), "row 70: "));
    rk_ids ids[] = {{.ids_per_sample = 1, .ids = users}, {.ids_per_sample = 0}};
    rk_batch batch = {.n = N_ROWS, .n_dense = 1, .n_features = 1, .dense = dense[0], .features = ids};
    FAILS(rk_session_run_batch(o.session, &batch, o.predictions), RK_INVALID_ARGUMENT,
          "the batch has 1 features, but the model takes 2");
    int64_t far[N_ROWS] = {[257] = 5000};
    ids[0].ids = far;
    batch.n_features = 2;
    assert_int_equal(rk_session_run_batch(o.session, &batch, o.predictions), RK_BAD_DATA);
    assert_non_null(
        strstr(rk_last_error(), "samples from 256 on: feature 'user': sample 1: id 5000 is beyond"));
    batch.n = -1;
    assert_int_equal(rk_session_run_batch(o.session, &batch, o.predictions), RK_INVALID_ARGUMENT);
    for (int i = 0; i < N_ROWS; i++) assert_true(o.predictions[i] == -1);
    batch.n = 0;
    OK(rk_session_run_batch(o.session, &batch, o.predictions));
    take_rows(&rows, 0, N_ROWS);
    OK(run(&o, &rows));
    assert_memory_equal(o.predictions, wanted.values, sizeof o.predictions);
    close_session(&o);
}

typedef struct canceller {
    rk_session *session;
    atomic_bool over;
} canceller;

static void *cancel(void *context) {
    canceller *c = context;
    while (!atomic_load(&c->over)) {
        rk_session_cancel(c->session);
        sched_yield();
    }
    return NULL;
}

static void test_cancel(void **state) {
    (void)state;
    enum { TRIES = 10000 };
    opened o;
    memory_rows rows;
    file_predictions wanted;
    pthread_t thread;
    open_session(&o);
    predict_file(o.predictor, &wanted);
    canceller c = {o.session, false};
    rk_session_cancel(o.session); /* nothing is under way */
    take_rows(&rows, 0, N_ROWS);
    OK(run(&o, &rows));
    memset(o.predictions, 0, sizeof o.predictions);
    assert_int_equal(pthread_create(&thread, NULL, cancel, &c), 0);
    rk_status status = RK_OK;
    for (int i = 0; i < TRIES && status == RK_OK; i++) {
        memset(o.predictions, 0, sizeof o.predictions);
        status = run(&o, &rows);
    }
    atomic_store(&c.over, true);
    pthread_join(thread, NULL);
    assert_int_equal(status, RK_INTERRUPTED);
    for (int i = 0; i < N_ROWS; i++) assert_true(o.predictions[i] == 0);
    OK(run(&o, &rows));
    assert_memory_equal(o.predictions, wanted.values, sizeof o.predictions);
    close_session(&o);
}

/* Every allocation fails in turn: each failure is told, and nothing is lost. */
static void test_out_of_memory(void **state) {
    (void)state;
    opened o;
    memory_rows rows;
    open_session(&o);
    take_rows(&rows, 0, N_ROWS);
    OK(run(&o, &rows)); /* matrix products are made once, and kept by the model */
    rk_session_free(o.session);
    long live = rk_alloc_live();
    for (long n = 1;; n++) {
        o.session = NULL;
        rk_alloc_fail_after(n, n % 2);
        rk_status status = rk_session_create(o.predictor, NULL, &o.session);
        if (status == RK_OK) status = run(&o, &rows);
        rk_alloc_fail_after(0, false);
        if (status == RK_OK) break;
        assert_int_equal(status, RK_NO_MEMORY);
        rk_session_free(o.session);
        assert_int_equal(rk_alloc_live(), live);
        assert_true(n < 2000);
    }
    close_session(&o);
}

static void count_release(void *owner) {
    ++*(int *)owner;
}

/* Predictions that stay in the session are those that it writes, also where another library reads them. */
static void test_predictions_as_a_tensor(void **state) {
    (void)state;
    opened o;
    memory_rows rows;
    rk_tensor view, there;
    struct DLManagedTensorVersioned *managed;
    int n_released = 0;
    open_session(&o);
    assert_int_equal(rk_session_predictions(o.session, &view), RK_INVALID_ARGUMENT);
    take_rows(&rows, 0, N_ROWS);
    OK(run(&o, &rows));
    OK(rk_session_run(o.session, &rows.table.schema, &rows.table.array, NULL));
    OK(rk_session_predictions(o.session, &view));
    assert_true(view.n_dims == 2 && view.shape[0] == N_ROWS && view.shape[1] == 1 && view.read_only &&
                view.dtype == RK_F32 && rk_tensor_is_contiguous(&view));
    OK(rk_tensor_to_dlpack(&view, count_release, &n_released, &managed));
    OK(rk_tensor_from_dlpack(managed, &there));
    assert_true(there.read_only && there.data == view.data);
    assert_memory_equal(there.data, o.predictions, sizeof o.predictions);
    managed->deleter(managed);
    assert_int_equal(n_released, 1);
    take_rows(&rows, 3, 2);
    OK(rk_session_run(o.session, &rows.table.schema, &rows.table.array, NULL));
    OK(rk_session_predictions(o.session, &view));
    assert_int_equal(view.shape[0], 2);
    assert_memory_equal(view.data, o.predictions + 3, 2 * sizeof(float));
    rows.table.schema_children[0]->name = "nobody";
    assert_int_equal(run(&o, &rows), RK_BAD_DATA);
    assert_int_equal(rk_session_predictions(o.session, &view), RK_INVALID_ARGUMENT);
    close_session(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets),      cmocka_unit_test(test_others),
        cmocka_unit_test(test_unknown),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cancel),       cmocka_unit_test(test_predictions_as_a_tensor),
        cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
