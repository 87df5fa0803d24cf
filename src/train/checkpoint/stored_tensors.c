#include "train/checkpoint/stored_tensors.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/find_text.h"
#include "embedding/config/row_formats.h"
#include "embedding/dynamic/stream_clock.h"
#include "embedding/local/state/row_before_images.h"
#include "format/safetensors.h"
#include "model/step/residual.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/rows_on_disk.h"
#include "base/tensor/tensor_part.h"

void rk_stored_tensors_close(rk_stored_tensors *tensors) {
    for (size_t i = 0; i < tensors->n; i++) {
        RK_FREE_ALL(tensors->list[i].name, tensors->list[i].parts);
    }
    for (size_t i = 0; i < tensors->n_files; i++) {
        if (tensors->files[i].descriptor >= 0) (void)close(tensors->files[i].descriptor);
        rk_free(tensors->files[i].path);
    }
    for (size_t i = 0; i < tensors->n_on_disk; i++) {
        rk_rows_on_disk_close(tensors->on_disk[i].rows);
        rk_free(tensors->on_disk[i].table);
    }
    rk_name_map_release(&tensors->names);
    RK_FREE_ALL(tensors->list, tensors->files, tensors->on_disk, tensors->rows_directory, tensors->buffer);
    *tensors = (rk_stored_tensors){0};
}

const rk_stored_tensor *rk_stored_tensors_find(const rk_stored_tensors *tensors, const char *name) {
    int64_t at = rk_name_map_find(&tensors->names, name);
    return at < 0 ? NULL : &tensors->list[at];
}

const rk_stored_tensor *rk_stored_tensors_find_of_table(const rk_stored_tensors *tensors, const char *table,
                                                        const char *what) {
    rk_buffer name = {0};
    rk_buffer_printf(&name, "table/%s/%s", table, what);
    const rk_stored_tensor *tensor = name.status == RK_OK ? rk_stored_tensors_find(tensors, name.data) : NULL;
    rk_buffer_release(&name);
    return tensor;
}

rk_status rk_parse_table_tensor_name(const char *name, char **table, const char **what) {
    static const char head[] = "table/";
    *table = NULL;
    if (strncmp(name, head, strlen(head)) != 0) return RK_OK;
    const char *begin = name + strlen(head), *last = strrchr(name, '/');
    if (last <= begin) return RK_OK;
    *what = last + 1;
    return rk_strndup(begin, (size_t)(last - begin), table);
}

rk_span rk_table_name_of_keys_tensor(const char *name) {
    static const char head[] = "table/", tail[] = "/keys";
    size_t n = strlen(name);
    const char *part = n && name[n - 1] == ']' ? strrchr(name, '[') : NULL;
    if (part) n = (size_t)(part - name);
    size_t n_head = strlen(head), n_tail = strlen(tail);
    bool is = n > n_head + n_tail && strncmp(name, head, n_head) == 0 &&
              strncmp(name + n - n_tail, tail, n_tail) == 0;
    return is ? (rk_span){name + n_head, n - n_head - n_tail} : (rk_span){NULL, 0};
}

/* The tensor of this name, which is there afterwards. */
static rk_status find_or_add_tensor(rk_stored_tensors *tensors, const char *name, rk_dtype type,
                                    int32_t n_dims, int64_t n_rows, rk_stored_tensor **out) {
    int64_t at = rk_name_map_find(&tensors->names, name);
    if (at < 0) {
        RK_AUTOFREE char *own = NULL;
        RK_TRY(rk_strdup(name, &own));
        RK_TRY(rk_reserve_one_more(&tensors->list, tensors->n, &tensors->capacity, sizeof *tensors->list));
        RK_TRY(rk_name_map_add(&tensors->names, own, (int64_t)tensors->n));
        at = (int64_t)tensors->n++;
        tensors->list[at] = (rk_stored_tensor){
            .name = own, .type = type, .n_dims = n_dims > 1 ? 2 : 1, .n_rows = n_rows, .on_disk = -1};
        own = NULL;
    }
    *out = &tensors->list[at];
    return RK_OK;
}

static rk_status add_part_to_tensor(rk_stored_tensors *tensors, rk_stored_tensor *tensor,
                                    const rk_tensor_part *part, const rk_safetensors_entry *entry) {
    RK_FAIL_IF(tensor->type != entry->type || tensor->n_rows != part->n_rows, RK_BAD_DATA,
               "tensor '%s': another part of it has another shape or dtype", entry->name);
    RK_TRY(rk_reserve_one_more(&tensor->parts, tensor->n_parts, &tensor->capacity, sizeof *tensor->parts));
    tensor->parts[tensor->n_parts++] = (rk_stored_part){.file = (int32_t)tensors->n_files - 1,
                                                        .begin = entry->begin,
                                                        .first = part->first,
                                                        .step = part->step,
                                                        .n_rows = entry->dims[0],
                                                        .first_column = part->first_column,
                                                        .n_columns = part->n_columns};
    int64_t end = part->first_column + part->n_columns;
    if (end > tensor->n_columns) tensor->dim = tensor->n_columns = end;
    return RK_OK;
}

/* What only a run that goes on needs. */
static bool is_of_next_steps(const char *name) {
    return strncmp(name, RK_BEFORE_IMAGE_PREFIX, strlen(RK_BEFORE_IMAGE_PREFIX)) == 0 ||
           strncmp(name, RK_RESIDUAL_PREFIX, strlen(RK_RESIDUAL_PREFIX)) == 0;
}

static bool is_stream_clock(const char *name) {
    const char *last = strrchr(name, '/');
    return last && strcmp(last, "/" RK_STREAM_CLOCK_TENSOR) == 0;
}

static rk_status add_part(rk_stored_tensors *tensors, const rk_safetensors_entry *entry) {
    rk_tensor_part part;
    rk_stored_tensor *tensor;
    RK_AUTOFREE char *name = NULL;
    if (is_of_next_steps(entry->name)) return RK_OK;
    if (entry->type == RK_I64 && !rk_table_name_of_keys_tensor(entry->name).n_bytes &&
        !is_stream_clock(entry->name))
        return RK_OK; /* counters, of which every part has one */
    RK_TRY(rk_tensor_part_parse(entry->name, entry->n_dims, entry->dims, &part));
    RK_TRY(rk_strndup(part.name, part.name_bytes, &name));
    RK_TRY(find_or_add_tensor(tensors, name, entry->type, entry->n_dims, part.n_rows, &tensor));
    return add_part_to_tensor(tensors, tensor, &part, entry);
}

rk_status rk_stored_tensors_add_columns(rk_stored_tensors *tensors, const char *name,
                                        const rk_safetensors_entry *entry, int64_t first_column,
                                        rk_export_rows codes, int64_t dim) {
    rk_tensor_part part = {.step = 1, .first_column = first_column, .n_columns = 1};
    rk_stored_tensor *tensor;
    RK_FAIL_IF(entry->n_dims < 1 || entry->n_dims > 2, RK_BAD_DATA, "tensor '%s' has %d dimensions",
               entry->name, entry->n_dims);
    part.n_rows = entry->dims[0];
    if (entry->n_dims > 1) part.n_columns = entry->dims[1];
    RK_TRY(find_or_add_tensor(tensors, name, entry->type, entry->n_dims, part.n_rows, &tensor));
    RK_FAIL_IF(tensor->n_parts && (tensor->codes != codes || tensor->dim != dim), RK_BAD_DATA,
               "tensor '%s': another piece of it has another format or dim", entry->name);
    RK_TRY(add_part_to_tensor(tensors, tensor, &part, entry));
    tensor->codes = codes;
    if (codes != RK_EXPORT_ROWS_TRAINED) tensor->dim = dim;
    return RK_OK;
}

static rk_status read_file_at(const struct rk_stored_file *file, uint64_t at, void *out, size_t n) {
    size_t n_read;
    int code = rk_file_read_at(file->descriptor, at, out, n, &n_read);
    RK_FAIL_IF(code, RK_IO, "'%s' could not be read: %s", file->path, strerror(code));
    RK_FAIL_IF(n_read < n, RK_BAD_DATA, "'%s' is truncated", file->path);
    return RK_OK;
}

/* The header alone, which says where the tensors are. */
static rk_status read_safetensors_header(const struct rk_stored_file *file, char **header, size_t *n_bytes,
                                         rk_safetensors *out) {
    unsigned char head[RK_SAFETENSORS_HEAD_BYTES];
    uint64_t file_bytes;
    RK_TRY(rk_file_size(file->path, &file_bytes));
    RK_TRY(read_file_at(file, 0, head, sizeof head));
    RK_TRY(rk_safetensors_header_bytes(head, file_bytes, n_bytes));
    RK_TRY(rk_alloc(*n_bytes, 1, header));
    RK_TRY(read_file_at(file, 0, *header, *n_bytes));
    return rk_safetensors_parse(*header, *n_bytes, file_bytes, out);
}

static rk_status add_entries_of_file(rk_stored_tensors *tensors, const struct rk_stored_file *file) {
    RK_AUTO(rk_safetensors_release) rk_safetensors entries = {0};
    RK_AUTOFREE char *header = NULL, *rows = NULL;
    size_t n_bytes;
    RK_TRY(read_safetensors_header(file, &header, &n_bytes, &entries));
    if (tensors->is_export) {
        RK_TRY(rk_safetensors_metadata(header, n_bytes, RK_ROW_FORMATS_KEY, &rows));
        return rk_stored_tensors_add_export(tensors, &entries, rows);
    }
    for (size_t i = 0; i < entries.n; i++) RK_TRY(add_part(tensors, &entries.entries[i]));
    return RK_OK;
}

rk_status rk_stored_tensors_add_file(rk_stored_tensors *tensors, const char *path) {
    struct rk_stored_file *file = &tensors->files[tensors->n_files];
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    RK_FAIL_IF(file->descriptor < 0, errno == ENOENT ? RK_NOT_FOUND : RK_IO, "'%s' could not be opened: %s",
               path, strerror(errno));
    tensors->n_files++;
    rk_status status = rk_strdup(path, &file->path);
    if (status == RK_OK) status = add_entries_of_file(tensors, file);
    if (tensors->reads_headers) {
        (void)close(file->descriptor);
        file->descriptor = -1;
    }
    return status == RK_OK ? RK_OK : rk_error_context(status, "'%s'", path);
}

static int64_t greatest_common_divisor(int64_t a, int64_t b) {
    for (int64_t rest; b; a = b, b = rest) rest = a % b;
    return a;
}

static int64_t end_row_of_part(const rk_stored_part *part) {
    return part->first + (part->n_rows - 1) * part->step + 1;
}

static bool parts_overlap(const rk_stored_part *a, const rk_stored_part *b) {
    bool columns = a->first_column < b->first_column + b->n_columns &&
                   b->first_column < a->first_column + a->n_columns,
         rows = a->n_rows && b->n_rows && a->first < end_row_of_part(b) && b->first < end_row_of_part(a);
    return columns && rows && (a->first - b->first) % greatest_common_divisor(a->step, b->step) == 0;
}

/* Parts that do not overlap and are as many elements as the tensor has leave out none. */
static rk_status check_parts_cover_tensor(const rk_stored_tensor *tensor) {
    int64_t n = 0, wanted;
    RK_FAIL_IF(__builtin_mul_overflow(tensor->n_rows, tensor->n_columns, &wanted), RK_BAD_DATA,
               "tensor '%s' is too large", tensor->name);
    for (size_t i = 0; i < tensor->n_parts; i++) {
        n += tensor->parts[i].n_rows * tensor->parts[i].n_columns;
        for (size_t k = 0; k < i; k++)
            RK_FAIL_IF(parts_overlap(&tensor->parts[i], &tensor->parts[k]), RK_BAD_DATA,
                       "tensor '%s' is there twice, in part or as a whole", tensor->name);
    }
    RK_FAIL_IF(n != wanted, RK_BAD_DATA, "tensor '%s': parts of it are missing", tensor->name);
    return RK_OK;
}

/* Who reads keys has room for one a row. */
static rk_status check_key_count(const rk_stored_tensor *tensor) {
    RK_FAIL_IF(rk_table_name_of_keys_tensor(tensor->name).n_bytes &&
                   (tensor->type != RK_I64 || tensor->n_columns != 1),
               RK_BAD_DATA, "tensor '%s' has no keys of I64, one a row", tensor->name);
    return RK_OK;
}

rk_status rk_stored_tensors_check(const rk_stored_tensors *tensors) {
    for (size_t i = 0; i < tensors->n; i++) {
        RK_TRY(check_key_count(&tensors->list[i]));
        RK_TRY(check_parts_cover_tensor(&tensors->list[i]));
    }
    return RK_OK;
}

static rk_status open_checkpoint_files(const char *checkpoint, const rk_manifest *manifest,
                                       rk_stored_tensors *tensors) {
    RK_TRY(rk_alloc(manifest->n_files, sizeof *tensors->files, &tensors->files));
    for (size_t i = 0; i < manifest->n_files; i++) {
        if (!strstr(manifest->files[i].name, ".safetensors")) continue;
        RK_AUTOFREE char *path = NULL;
        RK_TRY(rk_path_join(checkpoint, manifest->files[i].name, &path));
        RK_TRY(rk_stored_tensors_add_file(tensors, path));
    }
    return rk_stored_tensors_check(tensors);
}

static rk_status open_checkpoint_tensors(const char *checkpoint, rk_stored_tensors *tensors) {
    RK_AUTO(rk_manifest_release) rk_manifest manifest = {0};
    RK_TRY(rk_manifest_read(checkpoint, &manifest));
    return open_checkpoint_files(checkpoint, &manifest, tensors);
}

static struct rk_stored_disk *find_table_on_disk(const rk_stored_tensors *tensors, const char *table) {
    return RK_FIND_BY(table, table, tensors->on_disk, tensors->n_on_disk);
}

/* The values of the records that a tensor without rows tells of, as a tensor of the table's. */
static rk_status add_tensor_on_disk(rk_stored_tensors *tensors, size_t number, const char *table,
                                    const char *what) {
    RK_AUTO(rk_buffer_release) rk_buffer name = {0};
    const rk_stored_tensor told = tensors->list[number],
                           *keys = rk_stored_tensors_find_of_table(tensors, table, "keys");
    struct rk_stored_disk *rows = find_table_on_disk(tensors, table);
    rk_stored_tensor *tensor;
    uint64_t width = (uint64_t)told.n_columns * rk_dtype_bytes(told.type);
    rk_buffer_printf(&name, "table/%s/%s", table, what);
    RK_TRY(name.status);
    RK_FAIL_IF(!keys || told.n_rows || rk_stored_tensors_find(tensors, name.data) ||
                   width > RK_MAX_DIM * sizeof(double),
               RK_BAD_DATA, "tensor '%s' tells of no rows on a disk", told.name);
    if (!rows) {
        rows = &tensors->on_disk[tensors->n_on_disk];
        RK_TRY(rk_strdup(table, &rows->table));
        rows->record_bytes = sizeof(int64_t);
        tensors->n_on_disk++;
    }
    RK_TRY(find_or_add_tensor(tensors, name.data, told.type, told.n_dims, keys->n_rows, &tensor));
    tensor->dim = tensor->n_columns = told.n_columns;
    tensor->on_disk = (int32_t)(rows - tensors->on_disk);
    tensor->first_byte = rows->record_bytes;
    RK_FAIL_IF(rows->record_bytes > UINT32_MAX - width, RK_BAD_DATA, "table '%s' has too many slots", table);
    rows->record_bytes += (uint32_t)width;
    return RK_OK;
}

static rk_status add_rows_on_disk(rk_stored_tensors *tensors, const char *checkpoint) {
    size_t n = tensors->n, n_prefix = strlen(RK_DISK_PREFIX);
    RK_TRY(rk_path_join(checkpoint, RK_CHECKPOINT_ROWS, &tensors->rows_directory));
    RK_TRY(rk_alloc(n, sizeof *tensors->on_disk, &tensors->on_disk));
    for (size_t i = 0; i < n; i++) {
        RK_AUTOFREE char *table = NULL;
        const char *what;
        RK_TRY(rk_parse_table_tensor_name(tensors->list[i].name, &table, &what));
        if (table && strncmp(what, RK_DISK_PREFIX, n_prefix) == 0)
            RK_TRY(add_tensor_on_disk(tensors, i, table, what + n_prefix));
    }
    return RK_OK;
}

rk_status rk_stored_tensors_open(const char *checkpoint, rk_stored_tensors *out) {
    RK_AUTO(rk_stored_tensors_close) rk_stored_tensors tensors = {0};
    RK_TRY(open_checkpoint_tensors(checkpoint, &tensors));
    RK_TRY(add_rows_on_disk(&tensors, checkpoint));
    *out = tensors;
    tensors = (rk_stored_tensors){0};
    return RK_OK;
}

rk_status rk_stored_tensors_check_files(const char *checkpoint) {
    RK_AUTO(rk_stored_tensors_close) rk_stored_tensors tensors = {.reads_headers = true};
    return open_checkpoint_tensors(checkpoint, &tensors);
}

rk_status rk_stored_part_map(const rk_stored_tensors *tensors, const rk_stored_tensor *tensor,
                             const rk_stored_part *part, rk_mapped_file *files, const uint8_t **out) {
    rk_mapped_file *file = &files[part->file];
    const struct rk_stored_file *stored = &tensors->files[part->file];
    uint64_t bytes = (uint64_t)part->n_rows * (uint64_t)part->n_columns * rk_dtype_bytes(tensor->type);
    if (!file->data) RK_TRY(rk_mapped_file_open_descriptor(stored->descriptor, stored->path, file));
    RK_FAIL_IF(part->begin > file->n_bytes || bytes > file->n_bytes - part->begin, RK_BAD_DATA,
               "'%s' is truncated", stored->path);
    *out = file->data + part->begin;
    return RK_OK;
}

/* The part's rows among first .. first+n-1 into out. */
static rk_status read_rows_of_part(rk_stored_tensors *tensors, const rk_stored_tensor *tensor,
                                   const rk_stored_part *part, int64_t first, int64_t n, char *out) {
    size_t element = rk_dtype_bytes(tensor->type), width = (size_t)part->n_columns * element,
           row = (size_t)tensor->n_columns * element;
    int64_t from = first > part->first ? (first - part->first + part->step - 1) / part->step : 0,
            to = first + n > part->first ? (first + n - part->first + part->step - 1) / part->step : 0;
    if (to > part->n_rows) to = part->n_rows;
    if (from >= to) return RK_OK;
    bool whole = part->step == 1 && width == row;
    size_t bytes = (size_t)(to - from) * width;
    if (!whole) RK_TRY(rk_reserve(&tensors->buffer, &tensors->buffer_capacity, bytes, 1));
    RK_TRY(read_file_at(&tensors->files[part->file], part->begin + (uint64_t)from * width,
                        whole ? out + (size_t)(part->first + from - first) * row : tensors->buffer, bytes));
    for (int64_t i = from; i < to && !whole; i++)
        memcpy(
            out + (size_t)(part->first + i * part->step - first) * row + (size_t)part->first_column * element,
            tensors->buffer + (size_t)(i - from) * width, width);
    return RK_OK;
}

static rk_status read_rows_of_parts(rk_stored_tensors *tensors, const rk_stored_tensor *tensor, int64_t first,
                                    int64_t n, void *out) {
    for (size_t i = 0; i < tensor->n_parts; i++)
        RK_TRY(read_rows_of_part(tensors, tensor, &tensor->parts[i], first, n, out));
    return RK_OK;
}

static rk_status open_rows_on_disk(rk_stored_tensors *tensors, struct rk_stored_disk *rows) {
    const rk_stored_tensor *stored = rk_stored_tensors_find_of_table(tensors, rows->table, "keys");
    RK_AUTOFREE int64_t *keys = NULL;
    RK_TRY(rk_alloc((size_t)stored->n_rows, sizeof *keys, &keys));
    RK_TRY(read_rows_of_parts(tensors, stored, 0, stored->n_rows, keys));
    return rk_rows_on_disk_open(tensors->rows_directory, rows->table, rows->record_bytes, keys,
                                stored->n_rows, &rows->rows);
}

static rk_status gather_rows_from_disk(rk_stored_tensors *tensors, const rk_stored_tensor *tensor,
                                       const int64_t *numbers, int64_t n, void *out) {
    struct rk_stored_disk *rows = &tensors->on_disk[tensor->on_disk];
    if (!rows->rows) RK_TRY(open_rows_on_disk(tensors, rows));
    return rk_rows_on_disk_read(rows->rows, numbers, n, tensor->first_byte,
                                (size_t)tensor->n_columns * rk_dtype_bytes(tensor->type), out);
}

rk_status rk_stored_tensor_read(rk_stored_tensors *tensors, const rk_stored_tensor *tensor, int64_t first,
                                int64_t n, void *out) {
    RK_AUTOFREE int64_t *numbers = NULL;
    if (tensor->on_disk < 0) return read_rows_of_parts(tensors, tensor, first, n, out);
    RK_TRY(rk_alloc((size_t)n, sizeof *numbers, &numbers));
    for (int64_t i = 0; i < n; i++) numbers[i] = first + i;
    return gather_rows_from_disk(tensors, tensor, numbers, n, out);
}

/* How many rows stand one behind another in the checkpoint, too. */
static int64_t count_consecutive_rows(const int64_t *rows, int64_t n) {
    int64_t run = 1;
    while (run < n && rows[run] == rows[0] + run) run++;
    return run;
}

rk_status rk_stored_tensor_gather(rk_stored_tensors *tensors, const rk_stored_tensor *tensor,
                                  const int64_t *rows, int64_t n, void *out) {
    size_t row_bytes = (size_t)tensor->n_columns * rk_dtype_bytes(tensor->type);
    if (tensor->on_disk >= 0) return gather_rows_from_disk(tensors, tensor, rows, n, out);
    for (int64_t i = 0, run; i < n; i += run) {
        run = count_consecutive_rows(rows + i, n - i);
        RK_TRY(read_rows_of_parts(tensors, tensor, rows[i], run, (char *)out + (size_t)i * row_bytes));
    }
    return RK_OK;
}
