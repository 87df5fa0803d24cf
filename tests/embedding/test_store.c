/* What every store (embedding/store.h) promises, held against a plain collection that is updated step by
 * step. A new store is one line in `kinds`. */
#include <math.h>

#include "embedding_fixture.h"

#include "embedding/local/local_store.h"
#include "embedding/local/stale_rows.h"
#include "embedding/sharded/sharded_store.h"

enum { N = 300, STEPS = 8, REFUSED = 3, FLUSHED = 5 };

static rk_comm *comm;

static rk_status make_local(bool late, rk_store **out) {
    rk_embeddings *e;
    RK_TRY(try_make_usual(NULL, RK_BF16, &e));
    return rk_local_store_create(e, late, out);
}

static rk_status make_sharded(bool late, rk_store **out) {
    static const int64_t first_micro_batches[] = {0, 1};
    rk_table_placement placements[N_TABLES] = {{0}};
    usual_config usual;
    rk_sharded *sharded;
    rk_status status;
    make_usual_config(NULL, RK_BF16, &usual);
    for (int t = 0; t < N_TABLES; t++) {
        RK_GOTO(rk_table_placement_init(&placements[t], 1, 1));
        placements[t].owners[0] = 0;
    }
    rk_sharded_options options = {.config = &usual.config,
                                  .placements = placements,
                                  .comm = comm,
                                  .roles = {1, 0},
                                  .first_micro_batches = first_micro_batches,
                                  .micro_batch_samples = N,
                                  .wire = RK_F32,
                                  .staleness = late};
    RK_GOTO(rk_sharded_create(&options, &sharded));
    status = rk_sharded_store_create(sharded, false, out);
done:
    for (int t = 0; t < N_TABLES; t++) rk_table_placement_release(&placements[t]);
    return status;
}

static const struct {
    const char *name;
    rk_status (*make)(bool late, rk_store **out);
    bool late; /* a batch does not see the update of the one before it */
} kinds[] = {{"local", make_local, false},
             {"local, late", make_local, true},
             {"sharded", make_sharded, false},
             {"sharded, late", make_sharded, true}};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* All of a batch's features, as an engine looks them up: early ones at once, others in pieces. */
static void look_up(rk_store *store, drawn *b, bool training) {
    rk_activation early[N_FEATURES];
    OK(store->ops->wait(store));
    memcpy(early, b->activations, sizeof early);
    if (training) store->ops->lookup_early(store, early);
    for (int f = 0; f < N_FEATURES; f++)
        for (int64_t first = 0; first < b->n && !(training && early[f].data); first += 128) {
            rk_activation to = {b->activations[f].data + first * b->activations[f].stride,
                                b->activations[f].stride, NULL};
            store->ops->lookup(store, training, f, first, first + 128 < b->n ? first + 128 : b->n, &to);
        }
    size_t n_pieces = store->ops->n_pieces(store);
    for (size_t i = n_pieces; i-- > 0 && training;) store->ops->update_piece(store, i);
    if (n_pieces && training) store->ops->complete(store);
}

static void assert_same_activations(const drawn *a, const drawn *b) {
    for (int f = 0; f < N_FEATURES; f++)
        for (int64_t s = 0; s < a->n; s++)
            assert_memory_equal(a->out[f] + s * a->activations[f].stride,
                                b->out[f] + s * b->activations[f].stride,
                                (size_t)width_of(f) * sizeof(float));
}

static void peek_plain(rk_embeddings *plain, drawn *b) {
    OK(rk_embeddings_dedup(plain, b->n, b->ids, false));
    rk_embeddings_look_up_all(plain, false, b->activations);
}

static void update_plain(rk_embeddings *plain, const drawn *b) {
    if (!b) return;
    OK(rk_embeddings_dedup(plain, b->n, b->ids, true));
    OK(rk_embeddings_launch(plain, b->activations, false));
    rk_embeddings_update_all(plain);
}

static const rk_state_entry *find(const rk_state *state, const char *name) {
    for (size_t i = 0; i < state->n; i++)
        if (strcmp(state->entries[i].name, name) == 0) return &state->entries[i];
    fail_msg("no '%s' in the state", name);
    return NULL;
}

static void assert_state_of(rk_store *store, rk_embeddings *plain) {
    rk_state theirs = {0}, wanted = {0};
    size_t n = 0;
    OK(store->ops->flush(store));
    OK(store->ops->state(store, &theirs));
    OK(rk_embeddings_state(plain, &wanted));
    for (size_t i = 0; i < theirs.n; i++) {
        const char *name = theirs.entries[i].name;
        if (strncmp(name, RK_STALE_PREFIX, strlen(RK_STALE_PREFIX)) == 0) continue;
        const rk_state_entry *entry = find(&wanted, name);
        assert_int_equal(rk_state_entry_bytes(&theirs.entries[i]), rk_state_entry_bytes(entry));
        assert_memory_equal(theirs.entries[i].data, entry->data, rk_state_entry_bytes(entry));
        n++;
    }
    assert_int_equal(n, wanted.n);
    rk_state_release(&theirs);
    rk_state_release(&wanted);
}

/* Steps, of which one is not applied; brought up to date in their midst, which changes nothing that the next
 * ones see. */
static void test_steps(void **state) {
    (void)state;
    static drawn batches[2], expected, gradients;
    for (int k = 0; k < N_KINDS; k++) {
        rk_store *store;
        rk_embeddings *plain = make_usual(NULL, RK_BF16);
        const drawn *pending = NULL;
        OK(kinds[k].make(kinds[k].late, &store));
        for (int step = 0; step < STEPS; step++) {
            drawn *b = &batches[step % 2];
            draw(b, (uint64_t)step, N);
            draw(&expected, (uint64_t)step, N);
            OK(store->ops->begin(store, b->n, b->ids, true));
            look_up(store, b, true);
            if (!kinds[k].late) update_plain(plain, pending);
            peek_plain(plain, &expected);
            if (kinds[k].late) update_plain(plain, pending);
            assert_same_activations(b, &expected);
            draw_gradients(b, (uint64_t)step);
            OK(store->ops->backward(store, b->activations, true));
            OK(store->ops->end(store, step != REFUSED));
            pending = step == REFUSED ? NULL : b;
            if (step == FLUSHED) OK(store->ops->flush(store));
        }
        update_plain(plain, pending);
        assert_state_of(store, plain);
        assert_true(store->ops->bytes(store) > 0);
        draw(&gradients, 99, N);
        OK(store->ops->begin(store, N, gradients.ids, false)); /* evaluation sees all, and changes nothing */
        look_up(store, &gradients, false);
        OK(store->ops->end(store, false));
        draw(&expected, 99, N);
        peek_plain(plain, &expected);
        assert_same_activations(&gradients, &expected);
        assert_state_of(store, plain);
        store->ops->free(store);
        rk_embeddings_free(plain);
    }
}

/* Ids that are no rows are refused before anything is begun; gradients that are no numbers, by those stores
 * that look for them, before anything is written. */
static void test_refused(void **state) {
    (void)state;
    static drawn b;
    for (int k = 0; k < N_KINDS; k++) {
        rk_store *store;
        rk_embeddings *plain = make_usual(NULL, RK_BF16);
        OK(kinds[k].make(kinds[k].late, &store));
        draw(&b, 3, N);
        b.values[0][7] = table_rows[0];
        assert_int_equal(store->ops->begin(store, N, b.ids, true), RK_BAD_DATA);
        assert_non_null(strstr(rk_last_error(), "'user'"));
        assert_state_of(store, plain);
        draw(&b, 3, N);
        b.values[0][0] = 1;
        OK(store->ops->begin(store, N, b.ids, true));
        look_up(store, &b, true);
        draw_gradients(&b, 3);
        if (store->ops->find_not_finite) {
            float kept = b.out[0][0];
            b.out[0][0] = NAN;
            OK(store->ops->backward(store, b.activations, false));
            assert_int_equal(store->ops->end(store, true), RK_NOT_FINITE);
            b.out[0][0] = kept;
        } else {
            OK(store->ops->end(store, false));
        }
        assert_state_of(store, plain);
        store->ops->free(store);
        rk_embeddings_free(plain);
    }
}

static int open_comm(void **state) {
    (void)state;
    return rk_comm_self(&comm) == RK_OK ? 0 : -1;
}

static int close_comm(void **state) {
    (void)state;
    rk_comm_free(comm);
    return rk_alloc_live() == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, open_comm, close_comm);
}
