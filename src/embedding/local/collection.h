/* What the layers above need of a collection beyond the public API: its state as named tensors, and
 * regularization. */
#ifndef RK_EMBEDDING_LOCAL_COLLECTION_H
#define RK_EMBEDDING_LOCAL_COLLECTION_H

#include <reckon/embeddings.h>

#include "base/state_dict.h"
#include "base/text/text_list.h"
#include "embedding/local/table_storage.h"
#include "embedding/row_source.h"
#include "embedding/store.h"

/* A model's own lookups, beside those by rk_lookup. In two steps: all ids checked and made ready, in
 * training with the plan of their update; then samples looked up, all of them or a block at a time by any
 * thread. */
rk_status rk_embeddings_dedup(rk_embeddings *embeddings, int64_t n, const rk_ids *ids, bool training);
void rk_embeddings_lookup_all(rk_embeddings *embeddings, bool training, const rk_activation *activations);
/* Looks up features of a training batch, after dedup, one table after the other: those for which that moves
 * fewer bytes. Their tables then stay in the caches, while blocks of samples that go through all tables would
 * read each row from memory at each use. activations[f].data is NULL afterwards for the other features. */
void rk_embeddings_lookup_early(rk_embeddings *embeddings, rk_activation *activations);
/* Samples first .. last-1 of a feature; `to` is where sample `first` goes. */
void rk_embeddings_lookup_samples(const rk_embeddings *embeddings, bool training, int32_t feature,
                                  int64_t first, int64_t last, const rk_activation *to);

/* Updates, in steps. launch gives the gradients of the last batch, which must stay until complete; the next
 * batch's dedup may run. Then each of n_pieces pieces is updated, in any order and by any thread, but not
 * beside lookups. complete ends it when all pieces are done. One update at a time. */
rk_status rk_embeddings_begin_update(rk_embeddings *embeddings, const rk_activation *gradients,
                                     bool known_finite);
size_t rk_embeddings_n_update_pieces(const rk_embeddings *embeddings); /* 0: nothing is launched */
void rk_embeddings_update_piece(const rk_embeddings *embeddings, size_t piece);
void rk_embeddings_end_update(rk_embeddings *embeddings);
void rk_embeddings_update_all(rk_embeddings *embeddings); /* all pieces, and complete */

/* Bytes that lookups and updates of the last training batch move, by the algorithm: rows and activations once
 * each; gradients once a use, rows and slots read and written once a step. Caches are not considered. */
typedef struct rk_memory_traffic {
    uint64_t lookup_bytes, update_bytes;
    int64_t n_ids, n_rows; /* uses of rows; distinct rows */
} rk_memory_traffic;
rk_memory_traffic rk_embeddings_memory_traffic(const rk_embeddings *embeddings);

/* The micro-batches of a feature's samples, whose gradients are the leaves of the tree of sums: sample s is
 * of number first + s / samples (0: all are of the first). By default all features' samples are of one. */
typedef struct rk_micro_batches {
    uint32_t first;
    int64_t samples;
} rk_micro_batches;
void rk_embeddings_set_micro_batches(rk_embeddings *embeddings, int32_t feature,
                                     rk_micro_batches micro_batches);

/* parts [n_tables]: what of each table is here; NULL: all. Their names, where they have any, must outlive the
 * collection. */
rk_status rk_embeddings_create_with_parts(const rk_embeddings_config *config, const rk_table_part *parts,
                                          rk_embeddings **out);
/* Of whole tables that are only looked up, whose rows are in the source, as far as it has them; others begin
 * with their first values. dynamic [n_tables]: max_capacity 0, a static table. Takes the source, once it has
 * gone well. */
rk_status rk_embeddings_create_over_source(const rk_embeddings_config *config,
                                           const rk_dynamic_config *dynamic, rk_row_source *source,
                                           rk_embeddings **out);
/* Whether a table's keys are looked up where the source has them. */
bool rk_embeddings_table_has_sorted_keys(const rk_embeddings *embeddings, const char *table);
rk_row_source *rk_embeddings_row_source(const rk_embeddings *embeddings); /* NULL: none */
rk_embeddings *rk_embeddings_empty(void); /* without tables; nobody frees it */

/* Every table's rows and slots and each table's step, in a fixed order: names "table/<name>/rows",
 * "table/<name>/<slot>", "table/<name>/step". Views into the live arrays; valid while the collection
 * lives. */
rk_status rk_embeddings_state_dict(rk_embeddings *embeddings, rk_state_dict *state);

/* L2 on table t (all features of it): `l2` adds l2 * w to the gradient of each touched row, once a row;
 * `l2_full` is the exact (l2_full/2)*|table|^2: every row takes l2_full * w in its gradient at every step. */
rk_status rk_embeddings_set_l2(rk_embeddings *embeddings, const char *table, double l2, double l2_full);

int32_t rk_embeddings_n_tables(const rk_embeddings *embeddings);
const rk_table_config *rk_embeddings_table_config(const rk_embeddings *embeddings, int32_t table);
/* With its optimizer resolved, for inspect. */
const rk_optimizer *rk_embeddings_table_optimizer(const rk_embeddings *embeddings, int32_t table);
uint64_t rk_embeddings_table_bytes(const rk_embeddings *embeddings, int32_t table); /* rows and slots */
const rk_dynamic_config *rk_embeddings_dynamic_config(const rk_embeddings *embeddings,
                                                      int32_t table); /* NULL: a static table */

/* Of dynamic tables, before their values are read into the state that is made afterwards: NULL empties them;
 * a tensor "table/<name>/keys", or each part of it, gives those of its keys a row that belong here, and
 * "table/<name>/candidate_keys" a count. Other names, and those of other tables, are passed over. loaded: the
 * values are read. Errors: RK_BAD_DATA, a key is there twice; RK_NO_MEMORY. */
rk_status rk_embeddings_load_keys(rk_embeddings *embeddings, const rk_stored_keys *keys);
rk_status rk_embeddings_finish_loading(rk_embeddings *embeddings);
/* Of the batches for training that begin from now on: rk_store_ops. */
void rk_embeddings_set_batch_timestamp(rk_embeddings *embeddings, int64_t timestamp);
/* Before a batch for training begins, samples first .. first+n-1 of the one after it, whose ids may go at
 * once: once the first has begun, rows of them that are on a disk are read beside what the caller does. If it
 * does not come after all, no bit is another one. */
void rk_embeddings_prefetch(rk_embeddings *embeddings, int64_t first, int64_t n, const rk_ids *ids);
/* Rows that are on a disk, into a checkpoint's folder and, after all else of it was read, out of it. */
bool rk_embeddings_have_row_files(const rk_embeddings *embeddings);
rk_status rk_embeddings_save_rows(rk_embeddings *embeddings, const char *directory);
rk_status rk_embeddings_load_rows(rk_embeddings *embeddings, const char *directory);
/* The same, of a table with a tier that has none of its rows yet, as records that a log would have [n]. */
rk_status rk_embeddings_append_row_records(rk_embeddings *embeddings, const char *table, int64_t n,
                                           const void *records);
/* The folders there with logs of a table's rows, whatever the parts that it was cut into. */
rk_status rk_list_row_folders(const char *directory, const char *table, rk_text_list *out);
/* Sets has_row[i] for each of keys [n] that has a row of its own in a part of the dynamic table here. */
void rk_embeddings_find_keys(const rk_embeddings *embeddings, const char *table, const int64_t *keys,
                             int64_t n, bool *has_row);
rk_key_counts rk_embeddings_sum_key_counts(const rk_embeddings *embeddings); /* of all dynamic tables */

#endif
