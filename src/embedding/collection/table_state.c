/* A dynamic table's state as tensors that stand by themselves: read out of a collection, over ranks on all of
 * them, and written into one. Names and shapes are those of a checkpoint (docs/dynamic_tables.md). */
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "base/tensor/tensor_part.h"
#include "embedding/collection/sharded_embeddings.h"
#include "embedding/dynamic/key_sketch.h"

enum { MAX_NAME = 64, MAX_TENSORS = 2 * (RK_MAX_SLOTS + 1) + 9 };

/* What a tensor has one row for. */
typedef enum row_kind {
    PER_KEY,
    PER_CANDIDATE,
    PER_BUCKET,
    PER_SHARED_ROW,
    PER_TABLE,
    PER_TOTAL,
    PER_CLOCK_VALUE,
    ROW_KINDS
} row_kind;

/* A tensor that the table has: `width` values a row, or one and no dimension for it (0). */
typedef struct wanted_tensor {
    char name[MAX_NAME];
    rk_dtype type;
    int64_t width;
    row_kind kind;
} wanted_tensor;

typedef struct wanted_tensors {
    int n;
    wanted_tensor list[MAX_TENSORS];
} wanted_tensors;

static void expect_tensor(wanted_tensors *w, const char *prefix, const char *name, rk_dtype type,
                          int64_t width, row_kind kind) {
    wanted_tensor *to = &w->list[w->n++];
    *to = (wanted_tensor){.type = type, .width = width, .kind = kind};
    snprintf(to->name, sizeof to->name, "%s%s", prefix, name);
}

/* Rows and slots. Over ranks the table here has no slots: its optimizer tells them. */
static void expect_row_tensors(wanted_tensors *w, const rk_table *table, const char *prefix, row_kind kind) {
    rk_slot slots[RK_MAX_SLOTS];
    int n_slots = rk_optimizer_list_slots(&table->optimizer, slots);
    expect_tensor(w, prefix, "rows", table->config.dtype, table->config.dim, kind);
    for (int s = 0; s < n_slots; s++)
        expect_tensor(w, prefix, slots[s].name, RK_F32, slots[s].per_row ? 0 : table->config.dim, kind);
}

static void expect_count_tensors(wanted_tensors *w, const rk_dynamic_config *d) {
    bool is_bloom = d->counter == RK_COUNTER_BLOOM;
    if (rk_dynamic_has_sketches(d)) {
        uint64_t width = rk_sketch_width(is_bloom, rk_dynamic_capacity_of_buckets(d, 1));
        expect_tensor(w, is_bloom ? "bloom_" : "count_min_", "sketch", RK_U8,
                      (int64_t)rk_sketch_bytes(is_bloom, width), PER_BUCKET);
        expect_tensor(w, is_bloom ? "bloom_" : "count_min_", "loads", RK_I64, 0, PER_BUCKET);
    } else if (d->min_count > 1) {
        expect_tensor(w, "", "candidate_keys", RK_I64, 0, PER_CANDIDATE);
        expect_tensor(w, "", "candidate_counts", RK_I32, 0, PER_CANDIDATE);
    }
}

static wanted_tensors list_expected_tensors(const rk_table *table) {
    wanted_tensors w = {0};
    expect_tensor(&w, "", "keys", RK_I64, 0, PER_KEY);
    expect_row_tensors(&w, table, "", PER_KEY);
    expect_tensor(&w, "", "last_batches", RK_I32, 0, PER_KEY);
    expect_tensor(&w, "", "counts", RK_I32, 0, PER_KEY);
    if (table->dynamic_config.oov || table->dynamic_config.n_cold)
        expect_row_tensors(&w, table, "oov_", PER_SHARED_ROW);
    expect_count_tensors(&w, &table->dynamic_config);
    expect_tensor(&w, "", "batches", RK_I64, 0, PER_TABLE);
    expect_tensor(&w, "", "totals", RK_I64, 0, PER_TOTAL);
    if (table->dynamic_config.ttl) expect_tensor(&w, "", RK_STREAM_CLOCK_TENSOR, RK_I64, 0, PER_CLOCK_VALUE);
    expect_tensor(&w, "", "step", RK_I64, 0, PER_TABLE);
    return w;
}

static size_t tensor_row_bytes(const wanted_tensor *w) {
    return rk_dtype_bytes(w->type) * (size_t)(w->width ? w->width : 1);
}

struct rk_table_state {
    int32_t n;
    wanted_tensors wanted;
    rk_tensor tensors[MAX_TENSORS];
    void *data[MAX_TENSORS];
};

void rk_table_state_free(rk_table_state *state) {
    if (!state) return;
    for (int32_t i = 0; i < state->n; i++) rk_free(state->data[i]);
    rk_free(state);
}

int32_t rk_table_state_n_tensors(const rk_table_state *state) {
    return state->n;
}

const char *rk_table_state_name(const rk_table_state *state, int32_t i) {
    return i >= 0 && i < state->n ? state->wanted.list[i].name : NULL;
}

const rk_tensor *rk_table_state_tensor(const rk_table_state *state, int32_t i) {
    return i >= 0 && i < state->n ? &state->tensors[i] : NULL;
}

/* A tensor of a state, or a part of it: the rows of `entry` are `total`'s from `first` on. */
typedef struct state_part {
    char name[MAX_NAME];
    int64_t first, total;
    rk_state_dict_entry entry; /* whose name and memory are another's */
} state_part;

typedef struct state_parts {
    state_part *list;
    size_t n, capacity;
} state_parts;

/* entry: "table/<table>/<tensor>", as a whole or as rows of it that follow each other. */
static rk_status parse_tensor_name(const rk_state_dict_entry *entry, const char *table, state_part *out) {
    rk_tensor_part part;
    size_t n_prefix = strlen("table/") + strlen(table) + 1;
    RK_TRY(rk_tensor_part_parse(entry->name, entry->n_dims, entry->dims, &part));
    size_t n = part.name_bytes - n_prefix;
    RK_FAIL_IF(part.name_bytes < n_prefix || n >= MAX_NAME, RK_INTERNAL, "'%s' is no tensor of table '%s'",
               entry->name, table);
    memcpy(out->name, part.name + n_prefix, n);
    out->name[n] = '\0';
    out->first = part.is_block ? part.first : 0;
    out->total = part.is_block ? part.n_rows : entry->dims[0];
    return RK_OK;
}

static rk_status add_parts_of_table(const rk_state_dict *state, const char *table, state_parts *parts) {
    for (size_t i = 0; i < state->n; i++) {
        const rk_state_dict_entry *entry = &state->entries[i];
        state_part part = {.entry = *entry};
        RK_TRY(parse_tensor_name(entry, table, &part));
        RK_TRY(rk_reserve_one_more(&parts->list, parts->n, &parts->capacity, sizeof *parts->list));
        parts->list[parts->n++] = part;
    }
    return RK_OK;
}

/* A tensor of its own, put together from the parts of it. */
static rk_status join_parts_of_tensor(const state_parts *parts, rk_table_state *state) {
    const wanted_tensor *w = &state->wanted.list[state->n];
    size_t row_bytes = tensor_row_bytes(w);
    int64_t total = 0, n = 0;
    for (size_t i = 0; i < parts->n; i++)
        if (strcmp(parts->list[i].name, w->name) == 0) total = parts->list[i].total;
    char *data;
    RK_TRY(rk_alloc((size_t)total * row_bytes + 1, 1, &data));
    state->data[state->n] = data;
    for (size_t i = 0; i < parts->n; i++) {
        const state_part *part = &parts->list[i];
        if (strcmp(part->name, w->name) != 0) continue;
        int64_t n_here = part->entry.dims[0];
        RK_FAIL_IF(part->total != total || part->first < 0 || n_here > total - part->first ||
                       rk_state_dict_row_bytes(&part->entry) != row_bytes,
                   RK_INTERNAL, "the ranks' parts of tensor '%s' do not fit together", w->name);
        rk_state_dict_copy_rows(&part->entry, 0, n_here, data + (size_t)part->first * row_bytes);
        n += n_here;
    }
    RK_FAIL_IF(n != total, RK_INTERNAL, "the ranks have %lld rows of tensor '%s', not %lld", (long long)n,
               w->name, (long long)total);
    const int64_t shape[] = {total, w->width};
    return rk_tensor_init(&state->tensors[state->n], data, w->type, w->width ? 2 : 1, shape);
}

static rk_status join_all_tensors(const state_parts *parts, const rk_table *table, rk_table_state **out) {
    rk_table_state *state;
    rk_status status = RK_OK;
    RK_TRY(rk_alloc(1, sizeof *state, &state));
    state->wanted = list_expected_tensors(table);
    while (state->n < state->wanted.n && status == RK_OK) {
        status = join_parts_of_tensor(parts, state);
        state->n++; /* whose data is there */
    }
    if (status == RK_OK)
        *out = state;
    else
        rk_table_state_free(state);
    return status;
}

/* ---- Where a table's parts are: all of it in this process, or some of it on each rank. */

static rk_embeddings *local_tables_of(rk_embeddings *e) {
    return e->ranks ? rk_sharded_embeddings_store(e)->store : e;
}

/* The next part of table t that is here, after number *at; NULL: there is none. */
static rk_table *next_local_part(const rk_embeddings *e, int32_t t, int32_t *at) {
    const rk_sharded *s = rk_sharded_embeddings_store(e);
    if (!s) return (*at)++ ? NULL : &e->tables[t];
    while (*at < s->n_shards) {
        const rk_table_shard *shard = &s->shards[(*at)++];
        if (shard->table == t && shard->stored >= 0) return &s->store->tables[shard->stored];
    }
    return NULL;
}

/* What one rank cannot do, none does. */
static rk_status agree_on_status(const rk_embeddings *e, rk_status status) {
    return e->ranks ? rk_comm_agree_on_status(rk_sharded_embeddings_store(e)->comm, status) : status;
}

static rk_status number_keys_over_ranks(const rk_embeddings *e) {
    if (!e->ranks) return RK_OK;
    rk_store *store = rk_sharded_as_store(rk_sharded_embeddings_store(e));
    return store->ops->number_keys(store);
}

static rk_status find_dynamic_table(const rk_embeddings *e, const char *name, int32_t *out) {
    rk_table *table;
    RK_TRY(rk_embeddings_find_table(e, name, &table));
    RK_FAIL_IF(!rk_table_is_dynamic(table), RK_INVALID_ARGUMENT,
               "table '%s' is static: its ids have their rows\n"
               "hint: read and write them by rk_embeddings_read_rows, _read_slot and _read_step",
               name);
    RK_FAIL_IF(!e->pins_rows, RK_UNSUPPORTED, "the state of table '%s' is a model's", name);
    *out = (int32_t)(table - e->tables);
    return RK_OK;
}

/* ---- Counts. */

static void add_key_totals(rk_key_totals *sum, const rk_key_totals *more) {
    sum->n_rows += more->n_rows;
    sum->n_admitted += more->n_admitted;
    sum->n_evicted += more->n_evicted;
    sum->n_refused += more->n_refused;
    sum->n_missing += more->n_missing;
}

static rk_key_totals sum_local_key_totals(const rk_embeddings *e, int32_t t) {
    rk_key_totals sum = RK_KEY_TOTALS_INIT;
    const rk_table *part;
    for (int32_t at = 0; (part = next_local_part(e, t, &at));) {
        const rk_dynamic_table *d = part->dynamic;
        const rk_key_totals own = {sizeof own,          d->n_keys,           d->totals.n_admitted,
                                   d->totals.n_evicted, d->totals.n_refused, atomic_load(&d->n_missing)};
        add_key_totals(&sum, &own);
    }
    return sum;
}

static rk_status sum_key_totals_over_ranks(const rk_embeddings *e, rk_key_totals *totals) {
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    const rk_key_totals own = *totals;
    if (!e->ranks) return RK_OK;
    *totals = (rk_key_totals)RK_KEY_TOTALS_INIT;
    RK_TRY(rk_comm_all_gather(rk_sharded_embeddings_store(e)->comm, RK_CHANNEL_VALUES, &own, sizeof own,
                              &all_to_all));
    for (int32_t r = 0; r < rk_sharded_embeddings_store(e)->size; r++) {
        rk_key_totals theirs;
        RK_TRY(rk_all_to_all_copy_message(all_to_all, r, sizeof theirs, &theirs));
        add_key_totals(totals, &theirs);
    }
    return RK_OK;
}

rk_status rk_embeddings_count_keys(const rk_embeddings *e, const char *table, rk_key_totals *out) {
    int32_t t;
    RK_TRY(find_dynamic_table(e, table, &t));
    rk_key_totals totals = sum_local_key_totals(e, t);
    RK_TRY(sum_key_totals_over_ranks(e, &totals));
    return rk_options_copy_out(out, out ? out->struct_size : 0, &totals, sizeof totals,
                               RK_SIZE_WITH(rk_key_totals, n_missing), "rk_key_totals");
}

/* ---- Reading. */

/* A part on its way to other ranks: this, and then its bytes. */
typedef struct part_header {
    char name[MAX_NAME];
    int64_t first, n, total;
    uint64_t n_bytes;
} part_header;

static const wanted_tensor *find_expected_tensor(const wanted_tensors *wanted, const char *name) {
    for (int i = 0; i < wanted->n; i++)
        if (strcmp(wanted->list[i].name, name) == 0) return &wanted->list[i];
    return NULL;
}

static rk_status pack_state_part(const wanted_tensors *wanted, const state_part *part, rk_buffer *out) {
    const wanted_tensor *w = find_expected_tensor(wanted, part->name);
    RK_FAIL_IF(!w || rk_state_dict_row_bytes(&part->entry) != tensor_row_bytes(w), RK_INTERNAL,
               "tensor '%s' is unknown", part->name);
    int64_t n = part->entry.dims[0];
    size_t n_bytes = (size_t)n * tensor_row_bytes(w);
    part_header header = {.first = part->first, .n = n, .total = part->total, .n_bytes = n_bytes};
    RK_AUTOFREE char *bytes = NULL;
    RK_TRY(rk_alloc(n_bytes, 1, &bytes));
    memcpy(header.name, part->name, sizeof header.name);
    rk_state_dict_copy_rows(&part->entry, 0, n, bytes);
    rk_buffer_append(out, &header, sizeof header);
    rk_buffer_append(out, bytes, n_bytes);
    return out->status;
}

static rk_status unpack_state_parts(const wanted_tensors *wanted, const rk_message *from,
                                    state_parts *parts) {
    for (size_t at = 0; at < from->n_bytes;) {
        part_header header;
        RK_FAIL_IF(from->n_bytes - at < sizeof header, RK_INTERNAL, "a rank's part of a state is cut off");
        memcpy(&header, (const char *)from->data + at, sizeof header);
        at += sizeof header;
        header.name[MAX_NAME - 1] = '\0';
        const wanted_tensor *w = find_expected_tensor(wanted, header.name);
        RK_FAIL_IF(!w || header.n < 0 || header.n_bytes > from->n_bytes - at ||
                       header.n_bytes / tensor_row_bytes(w) != (uint64_t)header.n,
                   RK_INTERNAL, "a rank's part of tensor '%s' has a wrong size", header.name);
        state_part part = {.first = header.first,
                           .total = header.total,
                           .entry = {.type = w->type,
                                     .n_dims = w->width ? 2 : 1,
                                     .dims = {header.n, w->width},
                                     .data = (char *)(size_t)from->data + at}};
        memcpy(part.name, header.name, sizeof part.name);
        at += header.n_bytes;
        RK_TRY(rk_reserve_one_more(&parts->list, parts->n, &parts->capacity, sizeof *parts->list));
        parts->list[parts->n++] = part;
    }
    return RK_OK;
}

/* Of all parts that are here. */
static rk_status read_local_state(const rk_embeddings *e, int32_t t, rk_state_dict *state,
                                  state_parts *parts) {
    rk_table *part;
    for (int32_t at = 0; (part = next_local_part(e, t, &at));) RK_TRY(rk_table_state_dict(part, state));
    return add_parts_of_table(state, e->tables[t].config.name, parts);
}

/* The parts of all ranks; *all_to_all has their bytes. */
static rk_status all_gather_state_parts(const rk_embeddings *e, const wanted_tensors *wanted,
                                        const state_parts *here, rk_all_to_all **all_to_all,
                                        state_parts *out) {
    RK_AUTO(rk_buffer_release) rk_buffer message = {0};
    rk_status status = RK_OK;
    for (size_t i = 0; i < here->n && status == RK_OK; i++)
        status = pack_state_part(wanted, &here->list[i], &message);
    RK_TRY(agree_on_status(e, status));
    RK_TRY(rk_comm_all_gather(rk_sharded_embeddings_store(e)->comm, RK_CHANNEL_VALUES, message.data,
                              message.n_bytes, all_to_all));
    for (int32_t r = 0; r < rk_sharded_embeddings_store(e)->size; r++)
        RK_TRY(unpack_state_parts(wanted, &rk_all_to_all_received_messages(*all_to_all)[r], out));
    return RK_OK;
}

rk_status rk_embeddings_read_state(rk_embeddings *e, const char *table, rk_table_state **out) {
    int32_t t;
    RK_TRY(find_dynamic_table(e, table, &t));
    RK_TRY(number_keys_over_ranks(e));
    RK_AUTO(rk_all_to_all_auto_free) rk_all_to_all *all_to_all = NULL;
    rk_state_dict state = {0};
    state_parts here = {0}, all = {0};
    const wanted_tensors wanted = list_expected_tensors(&e->tables[t]);
    rk_status status = agree_on_status(e, read_local_state(e, t, &state, &here));
    if (status == RK_OK && e->ranks) status = all_gather_state_parts(e, &wanted, &here, &all_to_all, &all);
    if (status == RK_OK) status = join_all_tensors(e->ranks ? &all : &here, &e->tables[t], out);
    rk_state_dict_release(&state);
    RK_FREE_ALL(here.list, all.list);
    return status;
}

/* ---- Writing. */

/* What a caller gives, in the order of what is wanted. */
typedef struct given_state {
    wanted_tensors wanted;
    const rk_tensor *tensors[MAX_TENSORS];
} given_state;

static const rk_tensor *find_given_tensor(const given_state *given, const char *name) {
    for (int i = 0; i < given->wanted.n; i++)
        if (strcmp(given->wanted.list[i].name, name) == 0) return given->tensors[i];
    return NULL;
}

static rk_status check_given_tensor(const wanted_tensor *w, const rk_tensor *tensor, int64_t n_rows) {
    RK_TRY(rk_tensor_check(tensor));
    int32_t n_dims = w->width ? 2 : 1;
    RK_FAIL_IF(tensor->dtype != w->type, RK_INVALID_ARGUMENT, "it is of %s, not %s",
               rk_dtype_name(tensor->dtype), rk_dtype_name(w->type));
    RK_FAIL_IF(tensor->device != RK_DEVICE_CPU || !rk_tensor_is_contiguous(tensor), RK_INVALID_ARGUMENT,
               "it must be contiguous and on the CPU");
    RK_FAIL_IF(tensor->n_dims != n_dims, RK_INVALID_ARGUMENT, "it has %d dimensions, not %d",
               (int)tensor->n_dims, (int)n_dims);
    RK_FAIL_IF(tensor->shape[0] != n_rows || (w->width && tensor->shape[1] != w->width), RK_INVALID_ARGUMENT,
               "it has %lld rows of %lld values, not %lld of %lld", (long long)tensor->shape[0],
               (long long)(w->width ? tensor->shape[1] : 1), (long long)n_rows,
               (long long)(w->width ? w->width : 1));
    return RK_OK;
}

/* A state may lack the clock, which begins anew then, or have one that the table does not need. */
static wanted_tensors list_accepted_tensors(const rk_table *table) {
    wanted_tensors w = list_expected_tensors(table);
    if (!table->dynamic_config.ttl) expect_tensor(&w, "", RK_STREAM_CLOCK_TENSOR, RK_I64, 0, PER_CLOCK_VALUE);
    return w;
}

static bool is_optional(const wanted_tensor *w) {
    return w->kind == PER_CLOCK_VALUE;
}

static rk_status match_given_tensors(int32_t n, const char *const *names, const rk_tensor *tensors,
                                     given_state *given) {
    for (int32_t i = 0; i < n; i++) {
        const wanted_tensor *w = names[i] ? find_expected_tensor(&given->wanted, names[i]) : NULL;
        RK_FAIL_IF(!w, RK_INVALID_ARGUMENT, "the table has no tensor '%s'", names[i] ? names[i] : "");
        given->tensors[w - given->wanted.list] = &tensors[i];
    }
    for (int i = 0; i < given->wanted.n; i++)
        RK_FAIL_IF(!given->tensors[i] && !is_optional(&given->wanted.list[i]), RK_NOT_FOUND,
                   "the state has no tensor '%s'", given->wanted.list[i].name);
    return RK_OK;
}

/* Rows that a tensor of a kind has: of keys and candidates as many as the tensor that names them. */
static int64_t expected_rows_of_kind(const given_state *given, const rk_dynamic_config *d, row_kind kind) {
    static const char *const namers[ROW_KINDS] = {[PER_KEY] = "keys", [PER_CANDIDATE] = "candidate_keys"};
    const rk_tensor *namer = namers[kind] ? find_given_tensor(given, namers[kind]) : NULL;
    if (namer) return namer->n_dims ? namer->shape[0] : 0;
    if (kind == PER_SHARED_ROW) return d->oov ? 1 : d->n_cold;
    if (kind == PER_CLOCK_VALUE) return RK_STREAM_CLOCK_VALUES;
    return kind == PER_BUCKET ? d->n_buckets : kind == PER_TOTAL ? 3 : 1;
}

static rk_status check_given_shapes(const given_state *given, const rk_dynamic_config *d) {
    for (int i = 0; i < given->wanted.n; i++) {
        const wanted_tensor *w = &given->wanted.list[i];
        if (!given->tensors[i]) continue;
        rk_status status = check_given_tensor(w, given->tensors[i], expected_rows_of_kind(given, d, w->kind));
        if (status != RK_OK) return rk_error_context(status, "tensor '%s'", w->name);
    }
    return RK_OK;
}

static rk_status check_given_totals(const given_state *given) {
    const int64_t *totals = find_given_tensor(given, "totals")->data,
                  *step = find_given_tensor(given, "step")->data;
    long long n_keys = find_given_tensor(given, "keys")->shape[0];
    RK_FAIL_IF(totals[0] < 0 || totals[1] < 0 || totals[0] - totals[1] != n_keys, RK_INVALID_ARGUMENT,
               "the state has %lld keys, but by its totals %lld were admitted and %lld evicted", n_keys,
               (long long)totals[0], (long long)totals[1]);
    RK_FAIL_IF(*step < 0, RK_INVALID_ARGUMENT, "a table cannot have taken %lld steps", (long long)*step);
    return RK_OK;
}

static rk_status check_given_state(const rk_embeddings *e, int32_t t, int32_t n, const char *const *names,
                                   const rk_tensor *tensors, given_state *given) {
    RK_FAIL_IF(n < 0 || (n && (!names || !tensors)), RK_INVALID_ARGUMENT, "a state needs tensors");
    RK_FAIL_IF(atomic_load(&e->n_waiting) || e->pending.n_backwards, RK_INVALID_ARGUMENT,
               "lookups wait for a backward, or backwards for a step\n"
               "hint: finish or free them before a state is written");
    RK_TRY(match_given_tensors(n, names, tensors, given));
    RK_TRY(check_given_shapes(given, &e->tables[t].dynamic_config));
    return check_given_totals(given);
}

/* Keys that belong here get their rows, or counts. */
static rk_status load_given_keys(rk_embeddings *e, int32_t t, const given_state *given, const char *tensor) {
    RK_AUTO(rk_buffer_release) rk_buffer name = {0};
    const rk_tensor *keys = find_given_tensor(given, tensor);
    if (!keys) return RK_OK;
    rk_buffer_printf(&name, "table/%s/%s", e->tables[t].config.name, tensor);
    RK_TRY(name.status);
    const rk_stored_keys all = {
        .name = name.data, .n = keys->shape[0], .total = keys->shape[0], .keys = keys->data};
    return rk_embeddings_load_keys(local_tables_of(e), &all);
}

/* The rows of what is given that an entry of the state here has. */
static rk_status fill_state_entry(const rk_embeddings *e, int32_t t, const given_state *given,
                                  const rk_state_dict_entry *entry) {
    state_part part = {.entry = *entry};
    RK_TRY(parse_tensor_name(entry, e->tables[t].config.name, &part));
    const wanted_tensor *w = find_expected_tensor(&given->wanted, part.name);
    const rk_tensor *from = find_given_tensor(given, part.name);
    if (w && !from && is_optional(w)) return RK_OK;
    RK_FAIL_IF(!from || entry->order || part.first + entry->dims[0] > from->shape[0], RK_INTERNAL,
               "tensor '%s' does not fit", entry->name);
    size_t row_bytes = tensor_row_bytes(w), stride = rk_state_dict_stride(entry);
    const char *rows = (const char *)from->data + (size_t)part.first * row_bytes;
    for (int64_t i = 0; i < entry->dims[0]; i++)
        memcpy((char *)entry->data + (size_t)i * stride, rows + (size_t)i * row_bytes, row_bytes);
    return RK_OK;
}

static rk_status fill_local_state(rk_embeddings *e, int32_t t, const given_state *given) {
    rk_state_dict state = {0};
    rk_table *part;
    rk_status status = RK_OK;
    for (int32_t at = 0; status == RK_OK && (part = next_local_part(e, t, &at));)
        status = rk_table_state_dict(part, &state);
    for (size_t i = 0; i < state.n && status == RK_OK; i++)
        status = fill_state_entry(e, t, given, &state.entries[i]);
    rk_state_dict_release(&state);
    return status;
}

/* What is there of a state of which something is wrong. */
static void clear_table(const rk_embeddings *e, int32_t t) {
    rk_table *part;
    for (int32_t at = 0; (part = next_local_part(e, t, &at));) {
        rk_dynamic_begin_loading(part->dynamic);
        part->config.n_rows = part->dynamic->n_shared;
    }
}

rk_status rk_embeddings_write_state(rk_embeddings *e, const char *table, int32_t n, const char *const *names,
                                    const rk_tensor *tensors) {
    int32_t t;
    RK_TRY(find_dynamic_table(e, table, &t));
    given_state given = {.wanted = list_accepted_tensors(&e->tables[t])};
    rk_status status = agree_on_status(e, check_given_state(e, t, n, names, tensors, &given));
    if (status != RK_OK) return rk_error_context(status, "table '%s'", table);
    status = load_given_keys(e, t, &given, "keys");
    if (status == RK_OK) status = load_given_keys(e, t, &given, "candidate_keys");
    if (status == RK_OK) status = fill_local_state(e, t, &given);
    status = agree_on_status(e, status);
    if (status != RK_OK) clear_table(e, t);
    rk_status finished = rk_embeddings_finish_loading(local_tables_of(e));
    RK_TRY(status == RK_OK ? finished : status);
    return number_keys_over_ranks(e);
}
