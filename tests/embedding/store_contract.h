/* What every store (embedding/store.h) promises, held against a plain collection that is updated step by
 * step: by embedding/test_store.c for stores of this process, by cuda/test_device_store.c for those of a GPU,
 * and by dist/test_stores.c over ranks. A new kind of store is one line in a list of kinds. */
#ifndef RK_TESTS_STORE_CONTRACT_H
#define RK_TESTS_STORE_CONTRACT_H

#include <math.h>
#include <unistd.h>

#include "embedding/embedding_fixture.h"

#include "base/file/file.h"
#include "batch/ids.h"
#include "comm/comm.h"
#include "embedding/local/state/row_before_images.h"
#include "embedding/store.h"

/* Every rank has some of a batch's micro-batches. */
enum { N = 300, N_MICRO_BATCHES = 4, MICRO_BATCH = N / N_MICRO_BATCHES, STEPS = 8, REFUSED = 3, FLUSHED = 5 };

static rk_comm *comm;

typedef struct store_kind store_kind;
struct store_kind {
    const char *name;
    rk_status (*make)(const store_kind *kind, rk_store **out);
    rk_dtype dtype; /* of rows */
    bool late;      /* a batch does not see the update of the one before it */
    bool keys;      /* tables are dynamic, but for the last one: ids are keys, any 64 bits */
    bool oov;       /* keys without a row share one, */
    bool cold;      /* or several; */
    bool on_disk;   /* those that have one are on a disk, but for two or a batch's */
    bool of_ranks;  /* rows are parted over ranks, and gradients are summed by micro-batches */
    bool only_reads;
    double nmse; /* of values, where gradients are summed in another order; 0: equal bits */
};

/* The kinds to test, ended by one without a name. */
static const store_kind *kinds;

/* This rank's samples of a batch. */
typedef struct part {
    int64_t first, n;
} part;

static int64_t first_micro_batch(int32_t rank) {
    return (int64_t)N_MICRO_BATCHES * rank / rk_comm_size(comm);
}

static part part_of_rank(void) {
    int32_t rank = rk_comm_rank(comm);
    int64_t first = first_micro_batch(rank) * MICRO_BATCH;
    return (part){first, first_micro_batch(rank + 1) * MICRO_BATCH - first};
}

/* The part's ids, whose offsets are kept in `memory`, and where its activations are. */
static void take_part(const drawn *b, part p, drawn *memory, rk_ids *ids, rk_activation *activations) {
    for (int f = 0; f < N_FEATURES; f++) {
        ids[f] = rk_ids_slice(&b->ids[f], p.first, p.n, memory->offsets[f]);
        activations[f] = b->activations[f];
        activations[f].data += p.first * b->activations[f].stride;
        activations[f].lengths = NULL;
    }
}

/* One for all ranks: they are children of one process. */
static const char *rows_folder(void) {
    static char path[64];
    snprintf(path, sizeof path, "%s/reckon-stores-%ld", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (long)getppid());
    return path;
}

/* Of a dynamic table, which is crowded. */
static rk_dynamic_config keyed_config(const store_kind *kind) {
    return (rk_dynamic_config){.max_capacity = 40,
                               .n_buckets = 2,
                               .evict_to = 0.9,
                               .ttl = 2,
                               .min_count = 2,
                               .probability = 1,
                               .oov = kind->oov,
                               .n_cold = kind->cold ? 10 : 0,
                               .storage = kind->on_disk ? rows_folder() : NULL,
                               .memory_bytes = 1,
                               .n_pinned = kind->late};
}

static rk_embeddings *make_plain(const store_kind *kind) {
    rk_embeddings *plain;
    rk_dynamic_config keyed = keyed_config(kind);
    keyed.storage = NULL;
    if (kind->keys)
        OK(try_make_usual_dynamic(NULL, kind->dtype, &keyed, &plain));
    else
        plain = make_usual(NULL, kind->dtype);
    for (int32_t f = 0; kind->of_ranks && f < N_FEATURES; f++)
        rk_embeddings_set_micro_batches(plain, f, (rk_micro_batches){0, MICRO_BATCH});
    return plain;
}

/* All of a batch's features, as an engine looks them up: early ones at once, others in pieces. */
static void look_up_batch(rk_store *store, int64_t n, const rk_activation *activations, bool training) {
    rk_activation early[N_FEATURES];
    OK(store->ops->wait(store));
    memcpy(early, activations, sizeof early);
    if (training) store->ops->lookup_early(store, early);
    for (int f = 0; f < N_FEATURES; f++)
        for (int64_t first = 0; first < n && !(training && early[f].data); first += 128) {
            rk_activation to = {activations[f].data + first * activations[f].stride, activations[f].stride,
                                NULL};
            store->ops->lookup(store, training, f, first, first + 128 < n ? first + 128 : n, &to);
        }
    size_t n_pieces = training ? store->ops->n_pieces(store) : 0;
    for (size_t i = n_pieces; i-- > 0;) store->ops->update_piece(store, i);
    if (n_pieces) store->ops->complete(store);
}

static void assert_near(const char *name, const float *have, const float *want, size_t n, double nmse) {
    double error = 0, all = 0;
    if (nmse == 0 && memcmp(have, want, n * sizeof *have) == 0) return;
    for (size_t i = 0; i < n; i++) {
        error += ((double)have[i] - want[i]) * ((double)have[i] - want[i]);
        all += (double)want[i] * want[i];
    }
    if (nmse == 0 || !(error <= nmse * all)) fail_msg("%s: an error of %g of the squares", name, error / all);
}

static void assert_same_activations(const store_kind *kind, part p, const drawn *a, const drawn *b) {
    for (int f = 0; f < N_FEATURES; f++)
        for (int64_t s = p.first, stride = a->activations[f].stride; s < p.first + p.n; s++)
            assert_near(sorts[f].name, &a->out[f][s * stride], &b->out[f][s * stride], (size_t)width_of(f),
                        kind->nmse);
}

static void look_up_eval_plain(rk_embeddings *plain, drawn *b) {
    OK(rk_embeddings_dedup(plain, b->n, b->ids, false));
    rk_embeddings_lookup_all(plain, false, b->activations);
}

/* A batch has a second of the stream. */
static int64_t time_of_step(int step) {
    return step * (int64_t)RK_MICROSECONDS;
}

/* Keys get their rows as they are looked up to be trained. */
static void look_up_plain(const store_kind *kind, rk_embeddings *plain, drawn *b, int step) {
    if (!kind->keys) {
        look_up_eval_plain(plain, b);
        return;
    }
    rk_embeddings_set_batch_timestamp(plain, time_of_step(step));
    OK(rk_embeddings_dedup(plain, b->n, b->ids, true));
    rk_embeddings_lookup_all(plain, true, b->activations);
}

/* Before the next batch's keys are looked up. */
static void launch_plain(const store_kind *kind, rk_embeddings *plain, const drawn *b) {
    if (kind->keys && b) OK(rk_embeddings_begin_update(plain, b->activations, false));
}

static void update_plain(const store_kind *kind, rk_embeddings *plain, const drawn *b) {
    if (!b) return;
    if (!kind->keys) {
        OK(rk_embeddings_dedup(plain, b->n, b->ids, true));
        OK(rk_embeddings_begin_update(plain, b->activations, false));
    }
    rk_embeddings_update_all(plain);
}

/* What evaluation sees of the rows: all updates; it changes nothing. */
static void assert_rows_of(const store_kind *kind, rk_store *store, rk_embeddings *plain) {
    static drawn here, memory, expected;
    rk_ids ids[N_FEATURES];
    rk_activation activations[N_FEATURES];
    part p = part_of_rank();
    draw(&here, 99, N);
    draw(&expected, 99, N);
    take_part(&here, p, &memory, ids, activations);
    OK(store->ops->begin(store, p.n, ids, false));
    look_up_batch(store, p.n, activations, false);
    OK(store->ops->end(store, false));
    look_up_eval_plain(plain, &expected);
    assert_same_activations(kind, p, &here, &expected);
}

/* What of the collection's state an entry is: all of it, or so many rows from *first on. */
static const rk_state_dict_entry *find_wanted(const rk_state_dict *wanted, const char *name, int64_t *first) {
    const char *range = strchr(name, '[');
    long long begin = 0, end, total;
    char whole[128];
    *first = 0;
    if (!range || sscanf(range, "[%lld..%lld:%lld]", &begin, &end, &total) != 3)
        return rk_state_dict_find(wanted, name);
    snprintf(whole, sizeof whole, "%.*s", (int)(range - name), name);
    const rk_state_dict_entry *entry = rk_state_dict_find(wanted, whole);
    if (!entry) fail_msg("'%s' is no state of the collection", whole);
    assert_int_equal(entry->dims[0], total);
    *first = begin;
    return entry;
}

/* The store's state is the collection's; over ranks, where each has parts of tables, those of dynamic tables
 * are, and steps. */
static void assert_state_of(const store_kind *kind, rk_store *store, rk_embeddings *plain) {
    rk_state_dict theirs = {0}, wanted = {0};
    size_t n = 0;
    OK(store->ops->flush(store));
    OK(store->ops->number_keys(store));
    OK(store->ops->state(store, &theirs));
    OK(rk_embeddings_state_dict(plain, &wanted));
    for (size_t i = 0; i < theirs.n; i++) {
        int64_t first;
        const rk_state_dict_entry *have = &theirs.entries[i],
                                  *want = find_wanted(&wanted, have->name, &first);
        if (kind->on_disk && strstr(have->name, "/" RK_DISK_PREFIX)) continue; /* what records have */
        if (strncmp(have->name, RK_BEFORE_IMAGE_PREFIX, strlen(RK_BEFORE_IMAGE_PREFIX)) == 0) continue;
        n++;
        if (!want && rk_comm_size(comm) > 1) continue;
        if (!want) fail_msg("'%s' is no state of the collection", have->name);
        size_t n_bytes = rk_state_dict_entry_bytes(have), all_bytes = rk_state_dict_entry_bytes(want),
               row = want->dims[0] ? all_bytes / (size_t)want->dims[0] : 0;
        RK_AUTOFREE char *ours = NULL, *all = NULL;
        OK(rk_alloc(n_bytes, 1, &ours));
        OK(rk_alloc(all_bytes, 1, &all));
        rk_state_dict_copy_rows(have, 0, have->dims[0], ours);
        rk_state_dict_copy_rows(want, 0, want->dims[0], all);
        char *plains = all + (size_t)first * row;
        assert_true((size_t)first * row + n_bytes <= all_bytes);
        if (!strchr(have->name, '[')) assert_int_equal(n_bytes, all_bytes);
        if (have->type == RK_F32)
            assert_near(have->name, (float *)(void *)ours, (float *)(void *)plains, n_bytes / sizeof(float),
                        kind->nmse);
        else
            assert_memory_equal(ours, plains, n_bytes);
    }
    if (rk_comm_size(comm) == 1 && !kind->on_disk) assert_int_equal(n, wanted.n);
    rk_state_dict_release(&theirs);
    rk_state_dict_release(&wanted);
}

/* Of the batch after a step: the one that comes, another one, or nothing. */
static void prefetch_after(rk_store *store, int step, part p) {
    static drawn next;
    if (step % 3 == 2) return;
    draw(&next, (uint64_t)(step % 3 ? step + 50 : step + 1), N);
    store->ops->prefetch(store, p.first, p.n, next.ids);
}

/* Steps, of which one is not applied; brought up to date in their midst, which changes nothing that the next
 * ones see. */
static void check_steps(const store_kind *kind) {
    static drawn batches[2], memories[2], expected;
    rk_ids ids[N_FEATURES];
    rk_activation activations[2][N_FEATURES];
    part p = part_of_rank();
    rk_store *store;
    rk_embeddings *plain = make_plain(kind);
    const drawn *pending = NULL;
    OK(kind->make(kind, &store));
    for (int step = 0; step < STEPS; step++) {
        drawn *b = &batches[step % 2];
        draw(b, (uint64_t)step, N);
        draw(&expected, (uint64_t)step, N);
        take_part(b, p, &memories[step % 2], ids, activations[step % 2]);
        if (kind->on_disk) prefetch_after(store, step, p);
        store->ops->set_timestamp(store, time_of_step(step));
        OK(store->ops->begin(store, p.n, ids, true));
        look_up_batch(store, p.n, activations[step % 2], true);
        launch_plain(kind, plain, pending);
        if (!kind->late) update_plain(kind, plain, pending);
        look_up_plain(kind, plain, &expected, step);
        if (kind->late) update_plain(kind, plain, pending);
        assert_same_activations(kind, p, b, &expected);
        draw_gradients(b, (uint64_t)step);
        OK(store->ops->backward(store, activations[step % 2], true));
        OK(store->ops->end(store, step != REFUSED));
        pending = step == REFUSED ? NULL : b;
        if (step == FLUSHED) OK(store->ops->flush(store));
    }
    launch_plain(kind, plain, pending);
    update_plain(kind, plain, pending);
    assert_state_of(kind, store, plain);
    assert_true(store->ops->bytes(store) > 0);
    assert_rows_of(kind, store, plain);
    assert_state_of(kind, store, plain);
    store->ops->free(store);
    rk_embeddings_free(plain);
}

/* Ids that are no rows are refused before anything is begun; gradients that are no numbers, by those stores
 * that look for them, before anything is written. */
static void check_refusals(const store_kind *kind) {
    static drawn b, memory;
    rk_ids ids[N_FEATURES];
    rk_activation activations[N_FEATURES];
    part p = part_of_rank();
    rk_store *store;
    rk_embeddings *plain = make_plain(kind);
    OK(kind->make(kind, &store));
    draw(&b, 3, N);
    take_part(&b, p, &memory, ids, activations);
    if (!kind->keys) {
        b.values[0][p.first + 7] = table_rows[0];
        assert_int_equal(store->ops->begin(store, p.n, ids, true), RK_BAD_DATA);
        assert_non_null(strstr(rk_last_error(), "feature 'user': sample 7: id 300"));
    }
    assert_state_of(kind, store, plain);
    draw(&b, 3, N);
    for (int32_t r = 0; r < rk_comm_size(comm); r++) b.values[0][first_micro_batch(r) * MICRO_BATCH] = 1;
    store->ops->set_timestamp(store, time_of_step(1));
    OK(store->ops->begin(store, p.n, ids, true));
    if (kind->keys) look_up_plain(kind, plain, &b, 1);
    look_up_batch(store, p.n, activations, true);
    draw_gradients(&b, 3);
    if (store->ops->find_not_finite) {
        activations[0].data[0] = NAN;
        OK(store->ops->backward(store, activations, false));
        assert_int_equal(store->ops->end(store, true), RK_NOT_FINITE);
    } else {
        OK(store->ops->end(store, false));
    }
    assert_state_of(kind, store, plain);
    assert_rows_of(kind, store, plain);
    store->ops->free(store);
    rk_embeddings_free(plain);
}

/* A store that only reads finds the rows, again and again; training is refused, and so are strays. */
static void check_reading(const store_kind *kind) {
    static drawn b, memory;
    rk_ids ids[N_FEATURES];
    rk_activation activations[N_FEATURES];
    part p = part_of_rank();
    rk_store *store;
    rk_embeddings *plain = make_plain(kind);
    OK(kind->make(kind, &store));
    assert_rows_of(kind, store, plain);
    draw(&b, 3, N);
    take_part(&b, p, &memory, ids, activations);
    assert_int_equal(store->ops->begin(store, p.n, ids, true), RK_INVALID_ARGUMENT);
    b.values[0][p.first + 7] = table_rows[0];
    assert_int_equal(store->ops->begin(store, p.n, ids, false), RK_BAD_DATA);
    assert_non_null(strstr(rk_last_error(), "feature 'user': sample 7: id 300"));
    assert_rows_of(kind, store, plain);
    store->ops->free(store);
    rk_embeddings_free(plain);
}

static void check_all(void (*check)(const store_kind *kind), bool only_read) {
    for (const store_kind *kind = kinds; kind->name; kind++) {
        if (kind->only_reads != only_read) continue;
        if (rk_comm_rank(comm) == 0) print_message("%s\n", kind->name);
        check(kind);
    }
}

static void test_steps(void **state) {
    (void)state;
    check_all(check_steps, false);
}

static void test_refusals(void **state) {
    (void)state;
    check_all(check_refusals, false);
}

static void test_reading(void **state) {
    (void)state;
    check_all(check_reading, true);
}

/* Takes comm. open, close: around all tests; may be NULL. */
static inline int run_store_contract(const store_kind *of, CMFixtureFunction open, CMFixtureFunction close) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_reading)};
    kinds = of;
    int failed = cmocka_run_group_tests(tests, open, close);
    rk_comm_free(comm);
    (void)rk_remove_tree(rows_folder()); /* another rank may be at it */
    if (rk_alloc_live() == 0) return failed;
    print_error("%lld pieces of memory were not freed\n", (long long)rk_alloc_live());
    return 1;
}

#endif
