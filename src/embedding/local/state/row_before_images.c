#include "embedding/local/state/row_before_images.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "embedding/local/collection_internal.h"
#include "base/memory.h"

static size_t value_bytes(const rk_table *table) {
    return rk_dtype_bytes(table->config.dtype);
}
static size_t row_bytes(const rk_table *table) {
    return (size_t)table->config.dim * value_bytes(table);
}
static size_t image_record_bytes(const rk_table *table) {
    return sizeof(int64_t) + row_bytes(table);
}
/* NULL: the row is on a disk, so that no lookup at hand reads it. */
static char *address_of_row(const rk_table *table, int64_t row) {
    int64_t place = rk_table_place_of_row(table, row);
    return place < 0 ? NULL : (char *)table->rows.data + (size_t)place * row_bytes(table);
}
static int64_t read_record_id(const char *record) {
    int64_t id;
    memcpy(&id, record, sizeof id);
    return id;
}
static int64_t n_parts_of_table(const rk_table *table) {
    return table->part.n_parts > 1 ? table->part.n_parts : 1;
}

/* Whether record a's row stands before b's. */
static bool record_comes_before(const rk_table *table, bool is_shared, int64_t a, int64_t b) {
    return table->dynamic && !is_shared ? rk_dynamic_key_comes_before(table->dynamic, a, b) : a < b;
}

static int64_t local_shared_row(const rk_dynamic_table *t, int64_t number) {
    int64_t row = number - t->first_cold;
    bool is_here = row >= 0 && row < t->n_shared && (t->config.n_cold || t->config.part == 0);
    return is_here ? row : -1;
}

/* The row here of a record; -1: it is another part's. A row that an image needs is pinned: its key has it. */
static int64_t local_row_of_record(const rk_table *table, bool is_shared, int64_t id) {
    if (is_shared) return local_shared_row(table->dynamic, id);
    if (!table->dynamic)
        return id % n_parts_of_table(table) == table->part.part ? id / n_parts_of_table(table) : -1;
    int64_t row = rk_dynamic_find_row(table->dynamic, id);
    return row ? row : -1;
}

/* Of a row on a disk, without its values. */
static void copy_row_to_record(const rk_table *table, int64_t row, char *record) {
    int64_t id =
        table->dynamic ? rk_dynamic_key_of_row(table->dynamic, row) : rk_id_of_row(&table->rows, row);
    const char *values = address_of_row(table, row);
    memcpy(record, &id, sizeof id);
    if (values) memcpy(record + sizeof id, values, row_bytes(table));
}

static void release_image(const rk_row_before_images *s, rk_row_before_image *image) {
    for (int32_t t = 0; t < s->embeddings->n_tables && image->tables; t++)
        RK_FREE_ALL(image->tables[t].rows.data, image->tables[t].shared.data);
    rk_free(image->tables);
}

/* Images that are older than the next batch, and all after it, are to see the rows. */
static void drop_expired_images(rk_row_before_images *s) {
    size_t n_old = 0;
    while (n_old < s->n && s->images[n_old].update < s->n_looked_up - s->staleness)
        release_image(s, &s->images[n_old++]);
    s->n -= n_old;
    if (n_old && s->n) memmove(s->images, s->images + n_old, s->n * sizeof *s->images);
}

/* An image without rows, behind the `at` oldest ones. */
static rk_status insert_empty_image(rk_row_before_images *s, size_t at, int64_t update) {
    rk_row_before_image image = {.update = update};
    RK_TRY(rk_reserve(&s->images, &s->capacity, s->n + 1, sizeof *s->images));
    RK_TRY(rk_alloc((size_t)s->embeddings->n_tables, sizeof *image.tables, &image.tables));
    memmove(s->images + at + 1, s->images + at, (s->n - at) * sizeof image);
    s->images[at] = image;
    s->n++;
    return RK_OK;
}

/* Each row once, in their order: a plan's uses are sorted. rows NULL: only counted. */
static int64_t list_updated_rows(const rk_table *table, const rk_row_uses *plan, int64_t *rows) {
    int64_t n = 0;
    if (plan->whole_parts) {
        for (n = 0; rows && n < table->config.n_rows; n++) rows[n] = n;
        return table->config.n_rows;
    }
    for (uint32_t p = 0; p < plan->n_parts; p++)
        for (uint32_t i = plan->part_begins[p]; i < plan->part_begins[p + 1]; i++) {
            uint32_t place = rk_row_use_place(plan->uses[i]);
            if (i > plan->part_begins[p] && place == rk_row_use_place(plan->uses[i - 1])) continue;
            if (rows) rows[n] = ((int64_t)p << plan->shift) + place;
            n++;
        }
    return n;
}

static rk_status capture_rows(const rk_table *table, const int64_t *rows, int64_t n, rk_row_records *kept) {
    RK_TRY(rk_alloc((size_t)n, image_record_bytes(table), &kept->data));
    for (kept->n = 0; kept->n < n; kept->n++)
        copy_row_to_record(table, rows[kept->n], kept->data + (size_t)kept->n * image_record_bytes(table));
    return RK_OK;
}

/* Shared rows are the first. */
static rk_status capture_table(const rk_table *table, const rk_row_uses *plan,
                               rk_row_before_image_table *kept) {
    RK_AUTOFREE int64_t *rows = NULL;
    int64_t n = list_updated_rows(table, plan, NULL), n_shared = 0;
    RK_TRY(rk_alloc((size_t)n, sizeof *rows, &rows));
    list_updated_rows(table, plan, rows);
    for (int64_t i = 0; i < n && table->tier; i++) rows[i] = rk_table_row_at_place(table, rows[i]);
    if (table->dynamic) {
        while (n_shared < n && rows[n_shared] < table->dynamic->n_shared) n_shared++;
        rk_dynamic_sort_by_key(table->dynamic, rows + n_shared, (size_t)(n - n_shared));
    }
    RK_TRY(capture_rows(table, rows, n_shared, &kept->shared));
    return capture_rows(table, rows + n_shared, n - n_shared, &kept->rows);
}

rk_status rk_row_before_images_capture(rk_row_before_images *s, int64_t update) {
    const rk_embeddings *e = s->embeddings;
    if (!e || rk_embeddings_n_update_pieces(e) == 0 || s->n_looked_up > update + s->staleness) return RK_OK;
    const rk_batch_context *batch_context = &e->batch_contexts[!e->now];
    drop_expired_images(s);
    RK_TRY(insert_empty_image(s, s->n, update));
    for (int32_t t = 0; t < e->n_tables; t++) {
        if (rk_table_takes_updates(e, t))
            RK_TRY(capture_table(&e->tables[t], &batch_context->plans[t], &s->images[s->n - 1].tables[t]));
    }
    return RK_OK;
}

static void swap_bytes(char *a, char *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* Twice leaves all as it was. */
static void swap_records_with_rows(const rk_table *table, bool is_shared, const rk_row_records *records) {
    for (int64_t i = 0; i < records->n; i++) {
        char *record = records->data + (size_t)i * image_record_bytes(table);
        int64_t row = local_row_of_record(table, is_shared, read_record_id(record));
        char *values = row >= 0 ? address_of_row(table, row) : NULL;
        if (values) swap_bytes(values, record + sizeof(int64_t), row_bytes(table));
    }
}

static void swap_shared_rows(const rk_row_before_images *s, const rk_row_before_image *image) {
    for (int32_t t = 0; t < s->embeddings->n_tables; t++)
        swap_records_with_rows(&s->embeddings->tables[t], true, &image->tables[t].shared);
}

static void swap_image_rows(const rk_row_before_images *s, const rk_row_before_image *image) {
    for (int32_t t = 0; t < s->embeddings->n_tables; t++)
        swap_records_with_rows(&s->embeddings->tables[t], false, &image->tables[t].rows);
    swap_shared_rows(s, image);
}

void rk_row_before_images_swap_shared_in(rk_row_before_images *s) {
    drop_expired_images(s);
    for (size_t i = s->n; i > 0; i--) swap_shared_rows(s, &s->images[i - 1]);
}

void rk_row_before_images_swap_shared_out(rk_row_before_images *s) {
    for (size_t i = 0; i < s->n; i++) swap_shared_rows(s, &s->images[i]);
}

void rk_row_before_images_swap_in(rk_row_before_images *s) {
    drop_expired_images(s);
    for (size_t i = s->n; i > 0; i--) swap_image_rows(s, &s->images[i - 1]);
}

void rk_row_before_images_swap_out(rk_row_before_images *s) {
    for (size_t i = 0; i < s->n; i++) swap_image_rows(s, &s->images[i]);
    s->n_looked_up++;
    drop_expired_images(s);
}

void rk_row_before_images_clear(rk_row_before_images *s) {
    for (size_t i = 0; i < s->n; i++) release_image(s, &s->images[i]);
    s->n = 0;
}

void rk_row_before_images_release(rk_row_before_images *s) {
    rk_row_before_images_clear(s);
    rk_free(s->images);
    *s = (rk_row_before_images){0};
}

static rk_status add_record_tensor(const rk_row_before_images *s, const rk_row_before_image *image,
                                   const rk_table *table, const char *tensor, const rk_row_records *records,
                                   rk_state_dict *state) {
    RK_AUTO(rk_buffer_release) rk_buffer name = {0};
    if (!records->n) return RK_OK;
    int32_t first = table->part.first_column;
    rk_buffer_printf(&name, RK_BEFORE_IMAGE_PREFIX "%lld/%d:%lld,%d:%d/%s/%s",
                     (long long)(s->n_looked_up - 1 - image->update), (int)table->part.part,
                     (long long)n_parts_of_table(table), first, first + table->config.dim, table->part.name,
                     tensor);
    RK_TRY(name.status);
    return rk_state_dict_add(state, name.data, RK_U8, records->n, (int64_t)image_record_bytes(table),
                             records->data);
}

rk_status rk_row_before_images_state_dict(rk_row_before_images *s, int32_t t, rk_state_dict *state) {
    const rk_table *table = &s->embeddings->tables[t];
    drop_expired_images(s);
    for (size_t i = 0; i < s->n; i++) {
        const rk_row_before_image_table *kept = &s->images[i].tables[t];
        RK_TRY(add_record_tensor(s, &s->images[i], table, "rows", &kept->rows, state));
        RK_TRY(add_record_tensor(s, &s->images[i], table, "oov_rows", &kept->shared, state));
    }
    return RK_OK;
}

/* Records of some columns of a table's rows, as they were read. */
typedef struct stored_rows {
    bool are_shared;
    int64_t n, first_column, end_column;
    size_t record_bytes;
    const char *records;
} stored_rows;

static rk_status check_stored_rows(const rk_table *table, const stored_rows *from, const char *name) {
    size_t width = (size_t)(from->end_column - from->first_column) * value_bytes(table);
    RK_FAIL_IF(from->record_bytes != sizeof(int64_t) + width, RK_BAD_DATA,
               "tensor '%s': its name does not match its shape", name);
    int64_t last = 0, n_shared = table->dynamic_config.oov ? 1 : table->dynamic_config.n_cold,
            n_rows = from->are_shared ? n_shared : table->part.n_rows;
    for (int64_t i = 0; i < from->n; i++) {
        int64_t id = read_record_id(from->records + (size_t)i * from->record_bytes);
        bool is_key = table->dynamic && !from->are_shared, in_range = is_key || (id >= 0 && id < n_rows);
        RK_FAIL_IF((i && !record_comes_before(table, from->are_shared, last, id)) || !in_range, RK_BAD_DATA,
                   "tensor '%s': row %lld is out of order or out of range", name, (long long)id);
        last = id;
    }
    return RK_OK;
}

/* Those columns of a record that are here. */
static void copy_local_columns(const rk_table *table, char *to, const stored_rows *from, const char *record) {
    int64_t here = table->part.first_column, end = here + table->config.dim,
            first = from->first_column > here ? from->first_column : here;
    if (from->end_column < end) end = from->end_column;
    memcpy(to + sizeof(int64_t) + (size_t)(first - here) * value_bytes(table),
           record + sizeof(int64_t) + (size_t)(first - from->first_column) * value_bytes(table),
           (size_t)(end - first) * value_bytes(table));
}

/* The rows that were known and those that are read, in their order; what is not known of a row yet is as it
 * is now. A dynamic table is not cut by columns: all of a row that is on a disk is read. */
static rk_status merge_image_records(const rk_table *table, rk_row_records *known, const stored_rows *from) {
    size_t bytes = image_record_bytes(table);
    rk_row_records both = {0};
    RK_TRY(rk_alloc((size_t)(known->n + from->n), bytes, &both.data));
    for (int64_t i = 0, k = 0; i < known->n || k < from->n;) {
        const char *old = i < known->n ? known->data + (size_t)i * bytes : NULL,
                   *read = k < from->n ? from->records + (size_t)k * from->record_bytes : NULL;
        bool is_old = !read || (old && record_comes_before(table, from->are_shared, read_record_id(old),
                                                           read_record_id(read)));
        int64_t id = read_record_id(is_old ? old : read);
        bool was_known = old && read_record_id(old) == id, is_read = read && read_record_id(read) == id;
        char *to = both.data + (size_t)both.n * bytes;
        i += was_known;
        k += is_read;
        int64_t row = local_row_of_record(table, from->are_shared, id);
        if (row < 0) continue;
        if (was_known)
            memcpy(to, old, bytes);
        else
            copy_row_to_record(table, row, to);
        if (is_read) copy_local_columns(table, to, from, read);
        both.n++;
    }
    rk_free(known->data);
    *known = both;
    return RK_OK;
}

static rk_status find_or_insert_image(rk_row_before_images *s, int64_t update, rk_row_before_image **out) {
    size_t at = 0;
    while (at < s->n && s->images[at].update < update) at++;
    if (at == s->n || s->images[at].update != update) RK_TRY(insert_empty_image(s, at, update));
    *out = &s->images[at];
    return RK_OK;
}

rk_status rk_before_image_name_parse(const char *name, rk_before_image_name *out) {
    long long age, part, parts, first, end;
    int head = 0;
    int n_read = sscanf(name, RK_BEFORE_IMAGE_PREFIX "%9lld/%9lld:%9lld,%9lld:%9lld/%n", &age, &part, &parts,
                        &first, &end, &head);
    const char *table = name + head, *tail = strrchr(table, '/');
    bool are_shared = tail && strcmp(tail, "/oov_rows") == 0;
    RK_FAIL_IF(n_read < 5 || head == 0 || !tail || (!are_shared && strcmp(tail, "/rows") != 0) || age < 0 ||
                   first < 0 || end <= first,
               RK_BAD_DATA, "tensor '%s': invalid name", name);
    *out = (rk_before_image_name){age, first, end, {table, (size_t)(tail - table)}, are_shared};
    return RK_OK;
}

rk_status rk_row_before_images_read(rk_row_before_images *s, const char *name, int64_t n, int64_t n_bytes,
                                    const void *records) {
    rk_before_image_name is;
    RK_TRY(rk_before_image_name_parse(name, &is));
    stored_rows from = {.are_shared = is.are_shared,
                        .n = n,
                        .first_column = is.first_column,
                        .end_column = is.end_column,
                        .record_bytes = (size_t)n_bytes,
                        .records = records};
    for (int32_t t = 0; s->embeddings && is.age < s->staleness && t < s->embeddings->n_tables; t++) {
        const rk_table *table = &s->embeddings->tables[t];
        rk_row_before_image *image;
        if (!rk_span_equal(is.table, table->part.name) || !rk_table_takes_updates(s->embeddings, t)) continue;
        RK_FAIL_IF(is.are_shared && !table->dynamic, RK_BAD_DATA, "tensor '%s': the table is not dynamic",
                   name);
        RK_TRY(check_stored_rows(table, &from, name));
        if (is.end_column <= table->part.first_column ||
            is.first_column >= table->part.first_column + table->config.dim)
            continue;
        RK_TRY(find_or_insert_image(s, s->n_looked_up - 1 - is.age, &image));
        RK_TRY(merge_image_records(table, is.are_shared ? &image->tables[t].shared : &image->tables[t].rows,
                                   &from));
    }
    return RK_OK;
}
