/* Many items beside one context: scores are those of the rows written out in full, bit for bit, for every
 * preset and whatever columns are the context's, though what depends on them alone is computed once. */
#include "serve/session_data.h"

#include "base/memory.h"
#include "model/fixture.h"

enum { CONTEXT = 17, N_ITEMS = 300, N_SUBSETS = 7 };

#define TWO_LABELS "labels: [{name: click, optional: true}, {name: rating, loss: mse, weight: 0.5}]"
#define ONE_LABEL  "labels: [{name: click, optional: true}]"
#define MORE                                            \
    ", {name: of_user, column: user, vocabulary: {}}, " \
    "{name: both, cross: [user, item], hash: 100}"

/* Rows 100 and on, of which some columns have the context's value in each. */
static void full_rows(memory_rows *m, int context, const bool *in_context, int n) {
    static int64_t ids[2][N_ROWS];
    static float numbers[3][N_ROWS];
    static text_column texts[4];
    const text_column *const from[] = {&tags, &weights, &item_lists, &history};
    take_rows(m, 100, n);
    for (int c = 0; c < N_COLUMNS; c++) {
        const char *name = m->columns[c].schema.name;
        for (int i = 0; i < n && in_context[c]; i++) {
            if (c < 2) ids[c][i] = (c ? targets : users)[context];
            if (c >= 2 && c < 5) numbers[c - 2][i] = dense[c - 2][context];
            if (c < 5) continue;
            const text_column *text = from[c - 5];
            int32_t begin = text->offsets[context], length = text->offsets[context + 1] - begin;
            memcpy(texts[c - 5].text + i * length, text->text + begin, (size_t)length);
            texts[c - 5].offsets[i + 1] = (i + 1) * length;
        }
        if (!in_context[c]) continue;
        const void *values = c < 2   ? (const void *)ids[c]
                             : c < 5 ? (const void *)numbers[c - 2]
                                     : texts[c - 5].offsets;
        arrow_set(&m->columns[c], name,
                  c < 2   ? "l"
                  : c < 5 ? "f"
                          : "u",
                  n, NULL, values, c < 5 ? NULL : texts[c - 5].text);
    }
}

typedef struct rows_beside {
    memory_rows context, rows, full;
    int64_t n_ours;
} rows_beside;

static void take_beside(rows_beside *b, const bool *in_context, int64_t n) {
    arrow_column *ours[N_COLUMNS], *theirs[N_COLUMNS];
    int64_t n_theirs = b->n_ours = 0;
    full_rows(&b->full, CONTEXT, in_context, (int)n);
    take_rows(&b->context, CONTEXT, 1);
    take_rows(&b->rows, 100, n);
    for (int c = 0; c < N_COLUMNS; c++) {
        if (in_context[c])
            ours[b->n_ours++] = &b->context.columns[c];
        else
            theirs[n_theirs++] = &b->rows.columns[c];
    }
    arrow_set_table(&b->context.table, ours, b->n_ours, 1);
    arrow_set_table(&b->rows.table, theirs, n_theirs, n);
}

static rk_status score(rk_session *session, rows_beside *b, float *out) {
    return rk_session_score(session, &b->context.table.schema, &b->context.table.array, &b->rows.table.schema,
                            &b->rows.table.array, out);
}

static void check_score(rk_session *session, const bool *in_context, int64_t n, const char *name) {
    static float wanted[N_ITEMS * 2], scores[N_ITEMS * 2];
    rows_beside b;
    take_beside(&b, in_context, n);
    memset(scores, 0, sizeof scores);
    memset(wanted, 0, sizeof wanted);
    rk_status status = rk_session_run(session, &b.full.table.schema, &b.full.table.array, wanted);
    assert_int_equal(score(session, &b, scores), status); /* weights beside other tags than theirs */
    if (memcmp(scores, wanted, sizeof scores) != 0) print_error("%s\n", name);
    assert_memory_equal(scores, wanted, sizeof scores);
}

/* All of the user's columns, which come first, and some that are drawn; weights may stand apart from their
 * tags.
 */
static void draw_context(rk_rng *rng, int number, bool *in_context) {
    static const bool first[N_COLUMNS] = {[0] = true, [5] = true, [6] = true};
    for (int c = 0; c < N_COLUMNS; c++)
        in_context[c] = number == 0 ? first[c] : number == 1 ? c != 3 : rk_rng_below(rng, 2);
}

static void check_predictor(const char *name) {
    rk_predictor *predictor = open_run();
    rk_session *sessions[2];
    rk_session_options options = RK_SESSION_OPTIONS_INIT;
    OK(rk_pool_create(3, &options.pool));
    OK(rk_session_create(predictor, NULL, &sessions[0]));
    OK(rk_session_create(predictor, &options, &sessions[1]));
    rk_rng rng = {11, 1, 0};
    for (int k = 0; k < N_SUBSETS; k++) {
        bool in_context[N_COLUMNS];
        draw_context(&rng, k, in_context);
        check_score(sessions[k % 2], in_context, N_ITEMS, name);
        check_score(sessions[k % 2], in_context, 1 + k, name);
    }
    for (int i = 0; i < 2; i++) rk_session_free(sessions[i]);
    rk_predictor_free(predictor);
    rk_pool_free(options.pool);
}

static void test_presets(void **state) {
    (void)state;
    for (int c = 0; c < N_USUAL_CASES; c++) {
        train(usual_cases[c].n_tasks > 1 ? TWO_LABELS ", features: [" FEATURES MORE "]"
                                         : ONE_LABEL ", features: [" FEATURES MORE "]",
              usual_cases[c].text);
        check_predictor(usual_cases[c].text);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* Layers that read slices, and rows one by one; products in bf16; inputs that are the context's alone. */
static void test_others(void **state) {
    (void)state;
    static const char *const runs[][2] = {
        {"model: {kind: graph, layers: [{name: x, op: concat, inputs: [vectors, dense]}, {name: deep, op: "
         "mlp, "
         "inputs: x, units: [8]}, {name: users, op: slice, inputs: vectors, first: 0, count: 6}, {name: "
         "both, "
         "op: concat, inputs: [users, deep]}, {name: score, op: linear, inputs: both, units: 1}]}\n"
         "embedding: {dim: 4}"},
        {"model: {kind: dnn, deep: [130, 70, 33]}\nembedding: {dim: 24}", "train.dtype=bf16"},
        {"model: {kind: dcn_v2, deep: [600, 70]}\nembedding: {dim: 40}"},
        {"model: {kind: din, deep: [8], feature_dropout: 0.1, attention_deep: [6], attention: [{target: "
         "item, "
         "history: history}]}" SEQUENCE},
        {"model: {kind: final_mlp, deep: [8], feature_dropout: 0.1, gate_context: [history, user], "
         "gate_deep: "
         "[3]}" SEQUENCE},
        {"model: {kind: graph, layers: [{name: all, op: concat, inputs: [dense, vectors]}, {name: users, op: "
         "slice, inputs: all, first: 3, count: 4}, {name: few, op: slice, inputs: users, first: 2, count: "
         "2}, "
         "{name: x, op: concat, inputs: [users, few, all]}, {name: deep, op: mlp, inputs: x, units: [8]}, "
         "{name: score, op: linear, inputs: deep, units: 1}]}\nembedding: {dim: 4}"},
        {"model: {kind: graph, layers: [{name: place, op: constant, units: 4}, {name: row, op: reshape, "
         "inputs: place, rows: 1, cols: 4}, {name: users, op: slice, inputs: vectors, first: 0, count: 4}, "
         "{name: placed, op: add, inputs: [users, row]}, {name: x, op: concat, inputs: [place, vectors, "
         "dense, placed]}, {name: score, op: linear, inputs: x, units: 1}]}\nembedding: {dim: 4}"},
    };
    for (size_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
        train_with(ONE_LABEL ", features: [" FEATURES MORE "]", runs[r][0], runs[r][1]);
        check_predictor(runs[r][0]);
    }
    train(
        "labels: [{name: click, optional: true}], features: [{name: x0, dense: true}, {name: x1, dense: "
        "true}]",
        "model: {kind: dnn, deep: [8]}\nembedding: {dim: 4}");
    check_predictor("dense numbers alone");
    assert_int_equal(rk_alloc_live(), 0);
}

/* What the vocabulary has not counts once for the context, whatever items stand beside. */
static void test_refused(void **state) {
    (void)state;
    static const bool in_context[N_COLUMNS] = {[0] = true, [2] = true, [5] = true, [6] = true, [8] = true};
    static const int64_t stranger[] = {1000};
    float scores[N_ITEMS * 2] = {0}, before[N_ITEMS * 2] = {0};
    rk_session *session;
    rows_beside b;
    train(TWO_LABELS ", features: [" FEATURES MORE "]",
          "model: {kind: mmoe, experts: 2, expert_units: [8], towers: [4]}\nembedding: {dim: 4}");
    rk_predictor *predictor = open_run();
    OK(rk_session_create(predictor, NULL, &session));
    take_beside(&b, in_context, N_ITEMS);
    b.context.columns[0].schema.name = "usr";
    FAILS(score(session, &b, scores), RK_BAD_DATA, "there is no column 'user'\nhint: is 'usr' meant?");
    take_beside(&b, in_context, N_ITEMS);
    b.context.table.array.length = 0;
    FAILS(score(session, &b, scores), RK_INVALID_ARGUMENT, "the context must have 1 row, not 0");
    take_beside(&b, in_context, N_ITEMS);
    arrow_set(&b.context.columns[0], "user", "l", 1, NULL, stranger, NULL);
    FAILS(score(session, &b, scores), RK_BAD_DATA,
          "row 0: column 'user': id 1000 is not within 0 to 39\nhint: set the feature's 'identity' to a "
          "larger number, or use 'hash'");
    assert_memory_equal(scores, before, sizeof scores);
    rk_session_free(session);
    rk_predictor_free(predictor);

    train(ONE_LABEL ", features: [{name: user, vocabulary: {}}, {name: x0, dense: true}]",
          "model: {kind: dnn, deep: [8]}\nembedding: {dim: 4}");
    predictor = open_run();
    OK(rk_session_create(predictor, NULL, &session));
    take_beside(&b, in_context, N_ITEMS);
    arrow_set(&b.context.columns[0], "user", "l", 1, NULL, stranger, NULL);
    OK(score(session, &b, scores));
    assert_int_equal(rk_session_n_unknown(session, 0), 1);
    rk_session_free(session);
    rk_predictor_free(predictor);
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_presets), cmocka_unit_test(test_others),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
