/* The stores over ranks of `comm`, for the contract and for the GPU's. */
#ifndef RK_TESTS_SHARDED_KIND_H
#define RK_TESTS_SHARDED_KIND_H

#include "embedding/store_contract.h"

#include "embedding/sharded/sharded_store.h"

/* A dynamic table cut by its buckets, or whole. */
static inline rk_status place_keyed_table(const store_kind *kind, rk_table_placement *p, int t) {
    int32_t n = rk_comm_size(comm), parts = t == 1 || n == 1 ? 1 : (int32_t)keyed_config(kind).n_buckets;
    RK_TRY(rk_table_placement_init(p, 1, parts));
    for (int i = 0; i < parts; i++) p->owners[i] = (t + n - i) % n;
    return RK_OK;
}

/* A table cut by rows and columns, whole ones, and a replicated one. */
static inline rk_status place_table(const store_kind *kind, rk_table_placement *p, int t) {
    if (kind->keys && t < N_TABLES - 1) return place_keyed_table(kind, p, t);
    int32_t n = rk_comm_size(comm), slices = t == 0 && n > 1 ? 2 : 1, parts = t == 0 ? n : 1;
    RK_TRY(rk_table_placement_init(p, slices, parts));
    p->replicated = t == 2;
    for (int i = 0; i < slices * parts; i++) p->owners[i] = (t + i) % n;
    return RK_OK;
}

static inline rk_status make_sharded_collection(const store_kind *kind, rk_sharded **out) {
    rk_table_placement placements[N_TABLES] = {{0}};
    rk_dynamic_config dynamic[N_TABLES] = {{0}};
    int64_t first_micro_batches[64];
    usual_config usual;
    rk_status status = RK_OK;
    assert_true(rk_comm_size(comm) < 64);
    make_usual_config(NULL, kind->dtype, &usual);
    for (int t = 0; kind->keys && t < N_TABLES - 1; t++) {
        dynamic[t] = keyed_config(kind);
        usual.tables[t].n_rows = dynamic[t].max_capacity;
    }
    for (int32_t r = 0; r <= rk_comm_size(comm); r++) first_micro_batches[r] = first_micro_batch(r);
    for (int t = 0; status == RK_OK && t < N_TABLES; t++) status = place_table(kind, &placements[t], t);
    rk_sharded_options options = {.config = &usual.config,
                                  .placements = placements,
                                  .comm = comm,
                                  .roles = {rk_comm_size(comm), 0},
                                  .first_micro_batches = first_micro_batches,
                                  .micro_batch_samples = MICRO_BATCH,
                                  .wire = RK_F32,
                                  .staleness = kind->late,
                                  .dynamic = dynamic};
    if (status == RK_OK) status = rk_sharded_create(&options, out);
    for (int t = 0; t < N_TABLES; t++) rk_table_placement_release(&placements[t]);
    return status;
}

static inline rk_status make_sharded(const store_kind *kind, rk_store **out) {
    rk_sharded *sharded;
    RK_TRY(make_sharded_collection(kind, &sharded));
    *out = rk_sharded_as_store(sharded);
    return RK_OK;
}

/* Of a contract's kinds, those over ranks. */
// clang-format off
#define SHARDED_KINDS \
    {"sharded", make_sharded, RK_BF16, .of_ranks = true}, \
    {"sharded, dynamic", make_sharded, RK_BF16, .keys = true, .of_ranks = true}, \
    {"sharded, dynamic, shared row", make_sharded, RK_BF16, .keys = true, .oov = true, .of_ranks = true}, \
    {"sharded, dynamic, late", make_sharded, RK_BF16, .keys = true, .oov = true, \
     .of_ranks = true, .late = true}, \
    {"sharded, on a disk", make_sharded, RK_BF16, .keys = true, .oov = true, .on_disk = true, \
     .of_ranks = true}, \
    {"sharded, on a disk, late", make_sharded, RK_BF16, .keys = true, .on_disk = true, \
     .of_ranks = true, .late = true}, \
    {"sharded, dynamic, cold rows", make_sharded, RK_BF16, .keys = true, .cold = true, .of_ranks = true}, \
    {"sharded, dynamic, cold rows, late", make_sharded, RK_BF16, .keys = true, .cold = true, \
     .of_ranks = true, .late = true}, \
    {"sharded, late", make_sharded, RK_BF16, .of_ranks = true, .late = true}
// clang-format on

#endif
