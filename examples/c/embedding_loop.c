/* A training loop of one's own around the embedding collection: clicks of users who each prefer one kind of
 * items (made here), and BPR's loss, which wants a clicked item to score above one drawn at random.
 *
 *     cc embedding_loop.c $(pkg-config --cflags --libs reckon) -lm -o embedding_loop && ./embedding_loop
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <reckon/embeddings.h>

enum { USERS = 2000, ITEMS = 1000, KINDS = 8, HISTORY = 4, DIM = 8, BATCH = 256, STEPS = 400, EPOCHS = 5 };

/* The features, in the order in which the collection is told of them. */
enum { USER, CLICKED_BEFORE, ITEM, FEATURES };

/* A batch of (user, some of the user's earlier clicks, item), and what is looked up for it; then its
 * gradients in the same place. */
typedef struct side {
    int64_t users[BATCH], history[BATCH * HISTORY], items[BATCH];
    float values[FEATURES][BATCH][DIM];
} side;

static void check(rk_status status) {
    if (status == RK_OK) return;
    fprintf(stderr, "embedding_loop: %s\n", rk_last_error());
    exit(1);
}

static int64_t draw(uint64_t *random, int64_t below) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*random >> 33) % (uint64_t)below);
}

/* Nine clicks of ten are of the user's kind: user and item of a kind have the same remainder. */
static int64_t draw_click(uint64_t *random, int64_t user) {
    int64_t item = draw(random, ITEMS);
    return draw(random, 10) == 0 ? item : item - item % KINDS + user % KINDS;
}

/* The same users twice: beside an item that they clicked, and beside one drawn at random. */
static void draw_batch(uint64_t *random, side *clicked, side *other) {
    for (int i = 0; i < BATCH; i++) {
        int64_t user = draw(random, USERS);
        clicked->users[i] = other->users[i] = user;
        for (int k = i * HISTORY; k < (i + 1) * HISTORY; k++)
            clicked->history[k] = other->history[k] = draw_click(random, user);
        clicked->items[i] = draw_click(random, user);
        other->items[i] = draw(random, ITEMS);
    }
}

static void describe(side *s, rk_ids ids[FEATURES], rk_activation values[FEATURES]) {
    ids[USER] = (rk_ids){.ids_per_sample = 1, .ids = s->users};
    ids[CLICKED_BEFORE] = (rk_ids){.ids_per_sample = HISTORY, .ids = s->history};
    ids[ITEM] = (rk_ids){.ids_per_sample = 1, .ids = s->items};
    for (int f = 0; f < FEATURES; f++) values[f] = (rk_activation){.data = s->values[f][0], .stride = DIM};
}

static float score(const side *s, int i) {
    float sum = 0;
    for (int k = 0; k < DIM; k++)
        sum += (s->values[USER][i][k] + s->values[CLICKED_BEFORE][i][k]) * s->values[ITEM][i][k];
    return sum;
}

/* From the slope of the loss by the score to those by what was looked up. */
static void score_backward(side *s, int i, float slope) {
    for (int k = 0; k < DIM; k++) {
        float user = s->values[USER][i][k] + s->values[CLICKED_BEFORE][i][k], item = s->values[ITEM][i][k];
        s->values[USER][i][k] = s->values[CLICKED_BEFORE][i][k] = slope * item;
        s->values[ITEM][i][k] = slope * user;
    }
}

/* Both lookups wait for their backwards at once; one step then updates each row that either has used. */
static double train(rk_embeddings *embeddings, rk_lookup *lookups[2], side sides[2]) {
    rk_ids ids[FEATURES];
    rk_activation values[2][FEATURES];
    double loss = 0;
    for (int i = 0; i < 2; i++) {
        describe(&sides[i], ids, values[i]);
        check(rk_embeddings_lookup(embeddings, BATCH, ids, lookups[i], values[i]));
    }
    for (int i = 0; i < BATCH; i++) {
        float ahead = score(&sides[0], i) - score(&sides[1], i), slope = -1 / (1 + expf(ahead));
        loss += log1p(exp(-ahead)) / BATCH;
        score_backward(&sides[0], i, slope / BATCH);
        score_backward(&sides[1], i, -slope / BATCH);
    }
    for (int i = 0; i < 2; i++) check(rk_lookup_backward(lookups[i], values[i]));
    check(rk_embeddings_step(embeddings));
    return loss;
}

/* The fraction of pairs whose clicked item scores higher. Nothing is trained: the collection is const. */
static double evaluate(const rk_embeddings *embeddings, rk_lookup *lookup, side sides[2]) {
    rk_ids ids[FEATURES];
    rk_activation values[FEATURES];
    double n_ahead = 0;
    for (int i = 0; i < 2; i++) {
        describe(&sides[i], ids, values);
        check(rk_embeddings_lookup_eval(embeddings, BATCH, ids, lookup, values));
    }
    for (int i = 0; i < BATCH; i++) n_ahead += score(&sides[0], i) > score(&sides[1], i);
    return n_ahead / BATCH;
}

/* Two tables. Items that were clicked before are averaged rows of the table that the item is in too. */
static rk_embeddings *create(void) {
    rk_table_config tables[2] = {RK_TABLE_CONFIG_INIT, RK_TABLE_CONFIG_INIT};
    rk_feature_config features[FEATURES] = {RK_FEATURE_CONFIG_INIT, RK_FEATURE_CONFIG_INIT,
                                            RK_FEATURE_CONFIG_INIT};
    rk_embeddings_config config = RK_EMBEDDINGS_CONFIG_INIT;
    rk_optimizer optimizer;
    rk_embeddings *embeddings;
    check(rk_optimizer_init(&optimizer, RK_OPTIMIZER_ADAGRAD));
    optimizer.learning_rate = 0.05;
    optimizer.initial_accumulator = 1e-6;
    tables[0].name = "users", tables[0].n_rows = USERS;
    tables[1].name = "items", tables[1].n_rows = ITEMS;
    tables[0].dim = tables[1].dim = DIM;
    features[USER].name = "user", features[USER].table = "users";
    features[CLICKED_BEFORE].name = "clicked_before", features[CLICKED_BEFORE].table = "items";
    features[ITEM].name = "item", features[ITEM].table = "items";
    config.seed = 1;
    config.tables = tables, config.n_tables = 2;
    config.features = features, config.n_features = FEATURES;
    config.optimizer = &optimizer;
    check(rk_embeddings_create(&config, &embeddings));
    return embeddings;
}

int main(void) {
    static side sides[2];
    uint64_t clicks = 1, held_out = 2;
    rk_embeddings *embeddings = create();
    rk_lookup *lookups[2], *reader; /* as many as are in use at once */
    for (int i = 0; i < 2; i++) check(rk_lookup_create(embeddings, &lookups[i]));
    check(rk_lookup_create(embeddings, &reader));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double loss = 0, in_order = 0;
        for (int step = 0; step < STEPS; step++) {
            draw_batch(&clicks, &sides[0], &sides[1]);
            loss += train(embeddings, lookups, sides) / STEPS;
        }
        for (int i = 0; i < 20; i++) {
            draw_batch(&held_out, &sides[0], &sides[1]);
            in_order += evaluate(embeddings, reader, sides) / 20;
        }
        printf("epoch %d: loss %.4f, held-out pairs in order %.3f\n", epoch + 1, loss, in_order);
    }
    for (int i = 0; i < 2; i++) rk_lookup_free(lookups[i]);
    rk_lookup_free(reader);
    rk_embeddings_free(embeddings);
    return 0;
}
