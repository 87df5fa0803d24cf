#include "train/checkpoint/model_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "embedding/config/row_formats.h"
#include "embedding/dynamic/key_bucket.h"
#include "embedding/local/collection.h"
#include "embedding/redis/redis_row_source.h"
#include "train/checkpoint/mapped_keys.h"
#include "train/checkpoint/mapped_rows.h"
#include "base/tensor/tensor_part.h"

enum { PIECE_BYTES = 4 << 20 };

rk_status rk_model_reader_open(const char *path, rk_export_rows rows, rk_model_reader *out) {
    rk_model_reader model = {.rows = rows};
    RK_TRY((rk_directory_is_export(path) ? rk_stored_tensors_open_export : rk_stored_tensors_open)(
        path, &model.tensors));
    *out = model;
    return RK_OK;
}

void rk_model_reader_close(rk_model_reader *model) {
    rk_stored_tensors_close(&model->tensors);
    for (size_t i = 0; i < model->n_placed; i++) RK_FREE_ALL(model->placed[i].table, model->placed[i].places);
    RK_FREE_ALL(model->stored, model->written, model->values, model->placed);
    *model = (rk_model_reader){0};
}

static bool has_quantized_rows(const rk_stored_tensor *tensor) {
    return tensor->codes != RK_EXPORT_ROWS_TRAINED;
}

static rk_status open_redis_row_source(const rk_model_reader *model, const rk_external_rows *external,
                                       bool alone, const rk_row_reading *reading, rk_row_source **out) {
    const rk_redis_row_source_options options = {.url = external->url,
                                                 .version = external->version,
                                                 .cache_bytes = (size_t)reading->cache_bytes,
                                                 .timeout = reading->timeout};
    RK_FAIL_IF(!alone, RK_UNSUPPORTED, "rows in Redis are read by one process, on the CPU");
    RK_FAIL_IF(model->rows != RK_EXPORT_ROWS_TRAINED, RK_UNSUPPORTED,
               "rows in Redis have the format that they were exported in");
    return rk_redis_row_source_open(&options, out);
}

/* A checkpoint's files may go while a run trains on. */
rk_status rk_model_reader_row_source(const rk_model_reader *model, const char *path, bool alone,
                                     const rk_row_reading *reading, rk_row_source **out) {
    RK_AUTO(rk_external_rows_release) rk_external_rows external = {0};
    RK_AUTO(rk_row_source_auto) rk_row_source *source = NULL;
    *out = NULL;
    RK_TRY(rk_external_rows_read(path, &external));
    bool maps = alone && !reading->in_memory && model->rows == RK_EXPORT_ROWS_TRAINED;
    if (!external.url && (!model->tensors.is_export || !maps)) return RK_OK;
    RK_TRY(external.url ? open_redis_row_source(model, &external, alone, reading, &source)
                        : rk_mapped_rows_create(&model->tensors, &source));
    RK_TRY(rk_mapped_keys_create(&model->tensors, &source->keys));
    *out = source;
    source = NULL;
    return RK_OK;
}

/* The dtype of the values that were trained, as far as the file knows. */
static rk_dtype trained_dtype(const rk_stored_tensor *tensor) {
    return has_quantized_rows(tensor) ? RK_F32 : tensor->type;
}

static rk_export_rows row_format_of(const rk_model_reader *model, const rk_stored_tensor *tensor) {
    return rk_row_format_if_smaller(model->rows, tensor->dim, trained_dtype(tensor));
}

/* Codes are computed with in f32. */
static rk_dtype stored_row_dtype(const rk_model_reader *model, const rk_stored_tensor *tensor) {
    rk_export_rows rows = row_format_of(model, tensor);
    if (rows == RK_EXPORT_ROWS_TRAINED) return trained_dtype(tensor);
    return rk_row_format_name(rows) ? RK_F32 : rk_row_format_dtype(rows);
}

rk_dtype rk_model_reader_row_dtype(const void *context, const char *table, rk_dtype configured) {
    const rk_model_reader *model = context;
    const rk_stored_tensor *tensor = rk_stored_tensors_find_of_table(&model->tensors, table, "rows");
    return tensor ? stored_row_dtype(model, tensor) : configured; /* the reading says that there is none */
}

static rk_status cannot_hold_value_error(rk_export_rows rows, const rk_stored_tensor *tensor, int64_t row) {
    RK_AUTOFREE char *table = NULL;
    const char *what;
    RK_TRY(rk_parse_table_tensor_name(tensor->name, &table, &what));
    return rk_row_format_encode_error(rows, table, row);
}

/* Rows first .. first+n-1 as the table is to hold them; the bytes are in *out until the next call. */
static rk_status convert_stored_rows(rk_model_reader *m, const rk_stored_tensor *t, int64_t first, int64_t n,
                                     const void **out) {
    rk_export_rows rows = row_format_of(m, t);
    int64_t n_values = n * t->dim, failed;
    RK_TRY(rk_reserve(&m->values, &m->values_capacity, (size_t)n_values, sizeof *m->values));
    if (has_quantized_rows(t))
        rk_row_format_decode(t->codes, m->stored, n, t->dim, m->values);
    else
        rk_row_values_to_f32(t->type, m->stored, n_values, m->values);
    *out = m->values;
    if (rows == RK_EXPORT_ROWS_TRAINED) return RK_OK;
    size_t bytes =
        (size_t)(n * rk_row_format_columns(rows, t->dim)) * rk_dtype_bytes(rk_row_format_dtype(rows));
    RK_TRY(rk_reserve(&m->written, &m->written_capacity, bytes, 1));
    rk_row_format_encode(rows, m->values, n, t->dim, m->written, &failed);
    if (failed >= 0) return cannot_hold_value_error(rows, t, first + failed);
    if (rk_row_format_name(rows))
        rk_row_format_decode(rows, m->written, n, t->dim, m->values);
    else
        *out = m->written;
    return RK_OK;
}

static rk_status read_stored_rows(rk_model_reader *m, const rk_stored_tensor *t, int64_t first, int64_t n,
                                  bool is_table, const void **out) {
    size_t bytes = (size_t)(n * t->n_columns) * rk_dtype_bytes(t->type);
    RK_TRY(rk_reserve(&m->stored, &m->stored_capacity, bytes, 1));
    RK_TRY(rk_stored_tensor_read(&m->tensors, t, first, n, m->stored));
    *out = m->stored;
    bool as_stored = !is_table || (row_format_of(m, t) == RK_EXPORT_ROWS_TRAINED && !has_quantized_rows(t));
    return as_stored ? RK_OK : convert_stored_rows(m, t, first, n, out);
}

/* Of whole rows first .. first+n-1, those that the part has, and of these its columns. */
static void copy_rows_of_part(const rk_tensor_part *to, char *out, const char *rows, int64_t first, int64_t n,
                              int64_t dim, size_t element) {
    int64_t before = first > to->first ? (first - to->first + to->step - 1) / to->step : 0;
    for (int64_t id = to->first + before * to->step; id < first + n && id < to->end; id += to->step)
        memcpy(out + (size_t)((id - to->first) / to->step * to->n_columns) * element,
               rows + (size_t)((id - first) * dim + to->first_column) * element,
               (size_t)to->n_columns * element);
}

/* The same of rows whose places in the whole tensor are these. A part of them is a block of all columns. */
static void copy_placed_rows(const rk_tensor_part *to, char *out, const char *rows, const int64_t *places,
                             int64_t n, size_t row_bytes) {
    for (int64_t i = 0; i < n; i++)
        if (places[i] >= to->first && places[i] < to->end)
            memcpy(out + (size_t)(places[i] - to->first) * row_bytes, rows + (size_t)i * row_bytes,
                   row_bytes);
}

/* Rows of a stored tensor that are a tensor of the model. */
typedef struct stored_rows {
    const rk_stored_tensor *tensor; /* NULL: there is none */
    int64_t first, n;
    const int64_t *places; /* [n] in the model's tensor; NULL: they stand in its order */
} stored_rows;

static const int64_t *find_places(const rk_model_reader *m, const char *table) {
    const rk_key_places *placed = RK_FIND_BY(table, table, m->placed, m->n_placed);
    return placed ? placed->places : NULL;
}

/* An export has the rows that other keys share behind those of the keys. */
static stored_rows find_rows_of_keyed_table(const rk_model_reader *m, const char *table, bool are_missing) {
    const rk_stored_tensor *rows = rk_stored_tensors_find_of_table(&m->tensors, table, "rows"),
                           *keys = rk_stored_tensors_find_of_table(&m->tensors, table, "keys");
    if (!rows || !keys) return (stored_rows){0};
    int64_t n = rk_min_i64(keys->n_rows, rows->n_rows);
    return are_missing ? (stored_rows){rows, n, rows->n_rows - n, NULL}
                       : (stored_rows){rows, 0, n, find_places(m, table)};
}

static rk_status find_rows_of_part(const rk_model_reader *m, const rk_tensor_part *part, stored_rows *out) {
    RK_AUTOFREE char *name = NULL, *table = NULL;
    const char *what;
    RK_TRY(rk_strndup(part->name, part->name_bytes, &name));
    RK_TRY(rk_parse_table_tensor_name(name, &table, &what));
    bool are_rows = table && strcmp(what, "rows") == 0, are_missing = table && strcmp(what, "oov_rows") == 0;
    *out = (stored_rows){0};
    if (m->tensors.is_export && (are_rows || are_missing))
        *out = find_rows_of_keyed_table(m, table, are_missing);
    if (out->tensor) return RK_OK;
    out->tensor = rk_stored_tensors_find(&m->tensors, name);
    out->n = out->tensor ? out->tensor->n_rows : 0;
    return RK_OK;
}

static rk_status read_state_entry(rk_model_reader *m, const rk_state_dict_entry *entry,
                                  const stored_rows *rows, const rk_tensor_part *to) {
    const rk_stored_tensor *t = rows->tensor;
    bool is_table = entry->kind == RK_STATE_ROWS;
    rk_dtype type = is_table ? stored_row_dtype(m, t) : t->type;
    rk_tensor_part from = {.name = to->name,
                           .name_bytes = to->name_bytes,
                           .n_rows = rows->n,
                           .step = 1,
                           .n_columns = t->dim,
                           .all_columns = true};
    RK_TRY(rk_tensor_parts_check_shapes(to, &from));
    RK_FAIL_IF(type != entry->type, RK_CONFIG, "tensor '%s' has dtype %s, not %s", entry->name,
               rk_dtype_name(type), rk_dtype_name(entry->type));
    int64_t step = PIECE_BYTES / (t->dim * (int64_t)sizeof(float) + 1) + 1;
    for (int64_t first = 0; first < rows->n; first += step) {
        const void *piece;
        int64_t n = rk_min_i64(rows->n - first, step);
        RK_TRY(read_stored_rows(m, t, rows->first + first, n, is_table, &piece));
        if (rows->places)
            copy_placed_rows(to, entry->data, piece, rows->places + first, n,
                             (size_t)t->dim * rk_dtype_bytes(type));
        else
            copy_rows_of_part(to, entry->data, piece, first, n, t->dim, rk_dtype_bytes(type));
    }
    return RK_OK;
}

static rk_status missing_tensor_error(const rk_model_reader *m, const rk_tensor_part *part) {
    rk_status status = rk_error(RK_CONFIG, "there is no tensor '%.*s'", (int)part->name_bytes, part->name);
    return m->tensors.is_export
               ? rk_error_hint(status,
                               "a model needs all its tensors: export it without 'tables' and 'no_tables'")
               : status;
}

rk_status rk_model_reader_read_state(rk_model_reader *m, const rk_state_dict *state) {
    for (size_t i = 0; i < state->n; i++) {
        const rk_state_dict_entry *entry = &state->entries[i];
        rk_tensor_part part;
        stored_rows rows;
        if (entry->type == RK_I64 || entry->type == RK_I32 || entry->kind == RK_STATE_ROWS_READ)
            continue; /* a counter, of training alone; rows that are read where they are */
        RK_TRY(rk_tensor_part_parse(entry->name, entry->n_dims, entry->dims, &part));
        RK_TRY(find_rows_of_part(m, &part, &rows));
        if (!rows.tensor) return missing_tensor_error(m, &part);
        RK_TRY(read_state_entry(m, entry, &rows, &part));
    }
    return RK_OK;
}

/* An export's keys must ascend, also where they are not looked up in its files. */
static rk_status check_keys_ascend(const rk_model_reader *m, const int64_t *keys, int64_t n) {
    rk_sorted_keys sorted;
    if (!m->tensors.is_export) return RK_OK;
    RK_TRY(rk_sorted_keys_init(keys, n, &sorted));
    rk_sorted_keys_release(&sorted);
    return RK_OK;
}

typedef struct hashed_key {
    uint64_t hash;
    int64_t number; /* among ascending keys */
} hashed_key;

/* Ascending keys into the order of their hashes, so that those of a range of buckets follow each other,
 * however many buckets there are. */
static rk_status order_by_hash(int64_t *keys, int64_t n, int64_t *places) {
    RK_AUTOFREE hashed_key *hashed = NULL;
    RK_AUTOFREE int64_t *ascending = NULL;
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY((size_t)n, hashed), RK_ARRAY((size_t)n, ascending)));
    memcpy(ascending, keys, (size_t)n * sizeof *keys);
    for (int64_t i = 0; i < n; i++) hashed[i] = (hashed_key){rk_key_hash(keys[i]), i};
    qsort(hashed, (size_t)n, sizeof *hashed, rk_compare_u64);
    for (int64_t i = 0; i < n; i++) {
        keys[i] = ascending[hashed[i].number];
        places[hashed[i].number] = i;
    }
    return RK_OK;
}

static rk_status place_keys(rk_model_reader *m, const char *table, int64_t *keys, int64_t n) {
    rk_key_places *to;
    RK_TRY(rk_reserve_one_more(&m->placed, m->n_placed, &m->placed_capacity, sizeof *m->placed));
    to = &m->placed[m->n_placed];
    *to = (rk_key_places){0};
    m->n_placed++;
    RK_TRY(rk_strdup(table, &to->table));
    RK_TRY(rk_alloc((size_t)n, sizeof *to->places, &to->places));
    return order_by_hash(keys, n, to->places);
}

static rk_status load_keys_of_table(rk_model_reader *m, const rk_stored_tensor *tensor, bool over_ranks,
                                    rk_model *model) {
    RK_AUTOFREE int64_t *keys = NULL;
    RK_AUTOFREE char *table = NULL;
    rk_span name = rk_table_name_of_keys_tensor(tensor->name);
    RK_TRY(rk_strndup(name.data, name.n_bytes, &table));
    if (rk_embeddings_table_has_sorted_keys(rk_model_embeddings(model), table)) return RK_OK;
    RK_TRY(rk_alloc((size_t)tensor->n_rows, sizeof *keys, &keys));
    RK_TRY(rk_stored_tensor_read(&m->tensors, tensor, 0, tensor->n_rows, keys));
    rk_status status = check_keys_ascend(m, keys, tensor->n_rows);
    if (status != RK_OK) return rk_error_context(status, "tensor '%s'", tensor->name);
    if (over_ranks && m->tensors.is_export) RK_TRY(place_keys(m, table, keys, tensor->n_rows));
    const rk_stored_keys all = {tensor->name, 0, tensor->n_rows, tensor->n_rows, keys};
    return rk_model_load_keys(model, &all);
}

rk_status rk_model_reader_load_keys(rk_model_reader *m, bool over_ranks, rk_model *model) {
    RK_TRY(rk_model_load_keys(model, NULL));
    for (size_t i = 0; i < m->tensors.n; i++)
        if (rk_table_name_of_keys_tensor(m->tensors.list[i].name).n_bytes)
            RK_TRY(load_keys_of_table(m, &m->tensors.list[i], over_ranks, model));
    return RK_OK;
}
