/* Checkpoints of a row log: hard links of its files, and the list of them. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "embedding/tiered/row_log_internal.h"

/* rows.list, where numbers are little-endian. */
typedef struct list_head {
    uint32_t magic, crc; /* of all behind these two */
    uint32_t table, record_bytes;
    uint64_t n_files, next_file, step;
} list_head;
typedef struct list_entry {
    uint64_t number;
    uint32_t n_pages, digest;
} list_entry;
_Static_assert(sizeof(list_head) == 40 && sizeof(list_entry) == 16, "rows.list");

#define MAGIC 0x324C4B52u /* "RKL2" */
enum { SUMMED_FROM = 8 };

static list_head make_list_header(const rk_row_log *log) {
    return (list_head){.magic = MAGIC,
                       .table = log->shape.table,
                       .record_bytes = log->shape.record_bytes,
                       .n_files = log->n_files - log->is_writing,
                       .next_file = log->next_file,
                       .step = log->step};
}

static rk_status write_file_list(const rk_row_log *log, const char *to) {
    RK_AUTO(rk_buffer_release) rk_buffer list = {0};
    RK_AUTOFREE char *path = NULL;
    list_head head = make_list_header(log);
    rk_buffer_append(&list, &head, sizeof head);
    for (size_t i = 0; i < head.n_files; i++) {
        const rk_row_file *file = &log->files[i];
        list_entry entry = {file->number, file->n_pages, file->digest};
        rk_buffer_append(&list, &entry, sizeof entry);
    }
    RK_TRY(list.status);
    head.crc = rk_crc32c(0, list.data + SUMMED_FROM, list.n_bytes - SUMMED_FROM);
    memcpy(list.data, &head, sizeof head);
    RK_TRY(rk_path_join(to, RK_ROW_LOG_LIST, &path));
    return rk_file_write(path, list.data, list.n_bytes);
}

static rk_status link_row_file(const char *from, const char *to, uint64_t number) {
    RK_AUTOFREE char *old = NULL, *new = NULL;
    RK_TRY(rk_row_file_path(from, number, &old));
    RK_TRY(rk_row_file_path(to, number, &new));
    if (link(old, new) == 0) return RK_OK;
    int reason = errno;
    (void)rk_error_errno(RK_IO, reason, "could not link '%s' as '%s'", old, new);
    return reason == EXDEV || reason == EPERM || reason == EOPNOTSUPP
               ? rk_error_hint(RK_IO,
                               "storage.path must be on the file system of train.output, and that one "
                               "must have hard links")
               : RK_IO;
}

/* The list comes last, when the disk has all that it names; writing it syncs the folder. */
rk_status rk_row_log_link_files(rk_row_log *log, const char *to) {
    RK_TRY(rk_row_log_sync(log));
    for (size_t i = 0; i < log->n_files - log->is_writing; i++)
        RK_TRY(link_row_file(log->directory, to, log->files[i].number));
    return write_file_list(log, to);
}

static rk_status check_list_header(const rk_row_log *log, const char *path, const char *data, size_t n_bytes,
                                   list_head *head) {
    RK_FAIL_IF(n_bytes < sizeof *head, RK_BAD_DATA, "'%s' is cut", path);
    memcpy(head, data, sizeof *head);
    RK_FAIL_IF(head->magic != MAGIC, RK_BAD_DATA, "'%s' is no list of row files", path);
    RK_FAIL_IF(head->crc != rk_crc32c(0, data + SUMMED_FROM, n_bytes - SUMMED_FROM), RK_BAD_DATA,
               "'%s': its checksum is wrong", path);
    RK_FAIL_IF(head->n_files != (n_bytes - sizeof *head) / sizeof(list_entry) ||
                   (n_bytes - sizeof *head) % sizeof(list_entry),
               RK_BAD_DATA, "'%s' has another length than it says", path);
    RK_FAIL_IF(head->table != log->options.table && !log->options.any_table, RK_BAD_DATA,
               "'%s' is another table's", path);
    uint32_t wanted = log->options.record_bytes;
    RK_FAIL_IF(wanted && head->record_bytes != wanted, RK_BAD_DATA, "'%s' is of rows of %u bytes, not %u",
               path, head->record_bytes, wanted);
    return RK_OK;
}

/* Numbers ascend, and files are whole units that a log may have written. */
static rk_status check_list_entries(const rk_row_log *log, const char *path, const list_head *head,
                                    const list_entry *entries) {
    uint64_t least = 0;
    for (uint64_t i = 0; i < head->n_files; i++) {
        const list_entry *e = &entries[i];
        RK_FAIL_IF(e->number < least || e->number >= head->next_file, RK_BAD_DATA,
                   "'%s': the number of file %llu is wrong", path, (unsigned long long)i);
        RK_FAIL_IF(
            e->n_pages < 1 || e->n_pages > log->options.file_pages || e->n_pages % log->shape.unit_pages,
            RK_BAD_DATA, "'%s': file %llu cannot have %u pages", path, (unsigned long long)e->number,
            e->n_pages);
        least = e->number + 1;
    }
    RK_FAIL_IF(head->next_file > (uint64_t)1 << rk_page_shape_file_bits(&log->shape), RK_BAD_DATA,
               "'%s': its next file is wrong", path);
    return RK_OK;
}

static rk_status check_row_file(const char *from, const list_entry *entry) {
    RK_AUTOFREE char *path = NULL;
    uint64_t n_bytes, wanted = (uint64_t)entry->n_pages * RK_PAGE_BYTES;
    RK_TRY(rk_row_file_path(from, entry->number, &path));
    RK_TRY(rk_file_size(path, &n_bytes));
    RK_FAIL_IF(n_bytes != wanted, RK_BAD_DATA, "'%s' has %llu bytes, not %llu", path,
               (unsigned long long)n_bytes, (unsigned long long)wanted);
    return RK_OK;
}

/* What the list says becomes the log's files, none of them open. */
static rk_status read_file_list(rk_row_log *log, const char *from) {
    RK_AUTOFREE char *path = NULL, *data = NULL;
    RK_AUTOFREE list_entry *entries = NULL;
    size_t n_bytes;
    list_head head;
    RK_TRY(rk_path_join(from, RK_ROW_LOG_LIST, &path));
    RK_TRY(rk_file_read(path, &data, &n_bytes));
    RK_TRY(check_list_header(log, path, data, n_bytes, &head));
    log->options.table = head.table;
    if (rk_row_log_set_record_bytes(log, head.record_bytes) != RK_OK)
        return rk_error_context(RK_BAD_DATA, "'%s'", path);
    RK_TRY(rk_alloc(head.n_files, sizeof *entries, &entries));
    memcpy(entries, data + sizeof head, head.n_files * sizeof *entries);
    RK_TRY(check_list_entries(log, path, &head, entries));
    RK_TRY(rk_reserve(&log->files, &log->files_capacity, head.n_files, sizeof *log->files));
    for (uint64_t i = 0; i < head.n_files; i++) {
        RK_TRY(check_row_file(from, &entries[i]));
        log->files[log->n_files++] = (rk_row_file){.number = entries[i].number,
                                                   .n_pages = entries[i].n_pages,
                                                   .digest = entries[i].digest,
                                                   .descriptor = -1,
                                                   .synced = true};
    }
    log->next_file = head.next_file;
    log->step = head.step;
    return RK_OK;
}

static rk_status link_listed_files(rk_row_log *log, const char *from) {
    rk_file_identity old = rk_file_read_identity(from), new = rk_file_read_identity(log->options.directory);
    RK_FAIL_IF(old.device == new.device &&old.inode == new.inode, RK_INVALID_ARGUMENT,
               "'%s' is a checkpoint, and cannot be the folder of the log as well", from);
    RK_TRY(rk_row_log_open_directory(log));
    for (size_t i = 0; i < log->n_files; i++)
        RK_TRY(link_row_file(from, log->directory, log->files[i].number));
    return RK_OK;
}

rk_status rk_row_log_restore(const rk_row_log_options *options, const char *from, rk_row_log **out) {
    rk_row_log *log;
    RK_TRY(rk_row_log_allocate(options, &log));
    rk_status status;
    RK_GOTO(read_file_list(log, from));
    log->only_read = !options->directory;
    RK_GOTO(log->only_read ? rk_strdup(from, &log->directory) : link_listed_files(log, from));
    *out = log;
    return RK_OK;
done:
    rk_row_log_free(log);
    return status;
}

static rk_status ignore_record(void *context, uint64_t place, const void *record) {
    (void)context, (void)place, (void)record;
    return RK_OK;
}

rk_status rk_row_log_verify(const char *from) {
    const rk_row_log_options options = {.any_table = true};
    rk_row_log *log;
    RK_TRY(rk_row_log_restore(&options, from, &log));
    rk_status status = rk_row_log_scan(log, ignore_record, NULL);
    rk_row_log_free(log);
    return status;
}
