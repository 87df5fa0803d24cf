/* A sequence's padding takes no part in a model: a longer max_sequence_length changes no prediction. */
#include "fixture.h"

#include <math.h>

enum {
    N = 60,
    SHORT = 4,
    LONG = 9,
    MAX_TEXT = 1024
}; /* samples have 0 to SHORT ids: some have no padding, some nothing else */

static const char *const kinds[] = {
    "autoint, attention_layers: 3, attention_dim: 5",
    "autoint, attention_layers: 2, attention_heads: 1, attention_dim: 4",
    "din, deep: [6], attention: [{target: item, history: history}]",
    "din, deep: [6], attention_softmax: true, attention: [{target: item, history: history}]",
    "fm",
    "dnn, deep: [6, 5]",
    "wide_deep, deep: [6]",
    "deepfm, deep: [6]",
    "dlrm, deep: [6]",
    "final_mlp, deep: [6], deep2: [5]",
    "shared_bottom, deep: [6]",
    "mmoe, expert_units: [6]",
    "ple, expert_units: [6]",
};

static void build(const char *kind, int length, bool training, fixture *f, rk_model **out) {
    char text[MAX_TEXT];
    snprintf(text, sizeof text,
             "model: {kind: %s}\nembedding: {dim: 4, features: [{name: history, table: item, "
             "max_sequence_length: %d}, {name: item}]}",
             kind, length);
    fixture_init(f, text, usual_features, N_USUAL, 0, 1);
    f->options.training = training;
    OK(rk_model_build(&f->options, out));
}

static void draw(drawn_batch *b) {
    draw_batch(b, 2, N, 1);
    b->batch.n_dense = 0;
}

static void fill(float *values, size_t first, size_t n) {
    rk_rng rng = {5, n, 0};
    for (size_t i = first; i < n; i++) values[i] = (float)rk_rng_normal(&rng);
}

static const rk_state_dict_entry *find(const rk_state_dict *state, const char *name) {
    size_t i = 0;
    while (i < state->n && strcmp(state->entries[i].name, name) != 0) i++;
    if (i == state->n) fail_msg("no '%s'", name);
    return &state->entries[i];
}

/* The history stands last, so what is the padding's comes after the rest of each parameter: anything. */
static void give_parameters(rk_model *from, rk_model *to) {
    rk_state_dict a = {0}, b = {0};
    OK(rk_model_state_dict(from, &a));
    OK(rk_model_state_dict(to, &b));
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        const rk_state_dict_entry *other = find(&b, a.entries[i].name);
        size_t n_bytes = rk_state_dict_entry_bytes(&a.entries[i]);
        assert_true(n_bytes <= rk_state_dict_entry_bytes(other));
        if (strncmp(a.entries[i].name, "dense/", 6) == 0) {
            fill(a.entries[i].data, 0, n_bytes / sizeof(float));
            fill(other->data, n_bytes / sizeof(float), rk_state_dict_entry_bytes(other) / sizeof(float));
        }
        memcpy(other->data, a.entries[i].data, n_bytes);
    }
    rk_state_dict_release(&a);
    rk_state_dict_release(&b);
    OK(rk_model_reload(from));
    OK(rk_model_reload(to));
}

static void test_longer(void **state) {
    (void)state;
    static drawn_batch b;
    draw(&b);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        fixture fixtures[2];
        rk_model *models[2];
        float p[2][N];
        build(kinds[k], SHORT, false, &fixtures[0], &models[0]);
        build(kinds[k], LONG, false, &fixtures[1], &models[1]);
        give_parameters(models[0], models[1]);
        for (int i = 0; i < 2; i++) OK(rk_model_predict(models[i], &b.batch, p[i]));
        for (int s = 0; s < N; s++) /* sums of other lengths round otherwise */
            if (!(fabsf(p[0][s] - p[1][s]) <= 1e-5F))
                fail_msg("%s: %g, padded %g", kinds[k], (double)p[0][s], (double)p[1][s]);
        for (int i = 0; i < 2; i++) {
            rk_model_free(models[i]);
            fixture_release(&fixtures[i]);
        }
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* What layer norm has learned for positions beyond the sequences' ends. */
static void test_masknet(void **state) {
    (void)state;
    static const char *const structures[] = {"parallel", "stacked"};
    static drawn_batch b;
    draw(&b);
    for (int i = 0; i < 2; i++) {
        char kind[64];
        fixture f;
        rk_model *model;
        rk_state_dict parameters = {0};
        float before[N], after[N];
        snprintf(kind, sizeof kind, "masknet, mask_blocks: [6, 5], structure: %s", structures[i]);
        build(kind, LONG, false, &f, &model);
        OK(rk_model_predict(model, &b.batch, before));
        OK(rk_model_state_dict(model, &parameters));
        static const char *const names[] = {"dense/norm/gamma", "dense/norm/beta"};
        for (int k = 0; k < 2; k++) { /* [3 features and LONG, 4] */
            const rk_state_dict_entry *e = find(&parameters, names[k]);
            assert_int_equal(rk_state_dict_entry_bytes(e), (3 + LONG) * 4 * sizeof(float));
            fill(e->data, (3 + SHORT) * 4, (3 + LONG) * 4);
        }
        rk_state_dict_release(&parameters);
        OK(rk_model_reload(model));
        OK(rk_model_predict(model, &b.batch, after));
        assert_memory_equal(before, after, sizeof before);
        rk_model_free(model);
        fixture_release(&f);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

/* Nothing but a sequence, which some samples, or all of them, have none of. */
static void test_nothing_but_padding(void **state) {
    (void)state;
    static const char *const texts[] = {
        "model: {kind: autoint, attention_layers: 3}\nembedding: {dim: 4, features: [{name: history, "
        "max_sequence_length: 3}]}",
        "model: {kind: masknet, mask_blocks: [6]}\nembedding: {dim: 4, features: [{name: history, "
        "max_sequence_length: 3}]}"};
    static drawn_batch b;
    for (int k = 0; k < 4; k++) {
        fixture f;
        rk_model *model;
        double loss;
        float p[N];
        draw(&b);
        if (k % 2) memset(b.offsets[3], 0, sizeof b.offsets[3]);
        b.batch.n_features = 1;
        b.batch.features = &b.features[3];
        fixture_init(&f, texts[k / 2], &usual_features[3], 1, 0, 1);
        OK(rk_model_build(&f.options, &model));
        for (int step = 0; step < 3; step++) {
            OK(rk_model_train(model, &b.batch, &loss));
            assert_true(isfinite(loss));
        }
        OK(rk_model_predict(model, &b.batch, p));
        for (int s = 0; s < N; s++) assert_true(isfinite(p[s]));
        rk_model_free(model);
        fixture_release(&f);
    }
    assert_int_equal(rk_alloc_live(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longer),
        cmocka_unit_test(test_masknet),
        cmocka_unit_test(test_nothing_but_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
