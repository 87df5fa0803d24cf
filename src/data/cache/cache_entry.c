#include "data/cache/cache_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <reckon/version.h>

#include "base/file/directory_lock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread/instruction_set.h"

/* MAGIC changes with the format, and with what the transforms make of the same data. */
#define MAGIC  UINT64_C(0x3145484341434b52) /* "RKCACHE1" */
#define SUFFIX ".rkc"
enum { BUFFER_BYTES = 1 << 16, CRC_BYTES = 4 };

/* The run file's folder, that of RK_CACHE, or the user's. NULL: none. */
static rk_status find_cache_folder(const rk_data_section *section, const char *directory, char **out) {
    const char *named = getenv("RK_CACHE"), *user = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *out = NULL;
    if (section->cache.max_bytes == 0) return RK_OK;
    if (section->cache.path) return rk_path_join(directory, section->cache.path, out);
    if (named && strcmp(named, "off") == 0) return RK_OK;
    if (named && *named) return rk_strdup(named, out);
    bool has_user = user && *user == '/';
    if (!has_user && !(home && *home == '/')) return RK_OK;
    return rk_path_join(has_user ? user : home, has_user ? "reckon/data" : ".cache/reckon/data", out);
}

/* Settings but for those that no row depends on. Logarithms differ between processors in their last bits. */
static void append_settings(const rk_data_section *section, rk_buffer *out) {
    rk_data_section s = *section;
    s.cache_bytes = s.reader_threads = 0;
    s.cache.path = NULL;
    s.cache.max_bytes = 0;
    rk_buffer_printf(out, "reckon %s, %s, %s\n", rk_version(), rk_isa_name(rk_cpu_isa()), rk_cpu_name());
    rk_schema_emit(&rk_data_schema_table, &s, 0, out);
}

static rk_status add_input_files(const rk_data_section *section, const char *directory, rk_cache_key *key) {
    RK_TRY(rk_cache_inputs_add(&key->inputs, directory, section->train.path, (size_t)section->train.n_path));
    for (int64_t i = 0; i < section->n_joins; i++)
        RK_TRY(rk_cache_inputs_add(&key->inputs, directory, &section->joins[i].path, 1));
    return RK_OK;
}

static rk_status fill_cache_key(const rk_data_section *section, const char *directory, rk_cache_key *key) {
    RK_TRY(find_cache_folder(section, directory, &key->folder));
    if (!key->folder) return RK_OK;
    append_settings(section, &key->settings);
    RK_TRY(key->settings.status);
    return add_input_files(section, directory, key);
}

/* Of a file that is missing, who reads it says so. */
rk_status rk_cache_key_init(const rk_data_section *section, const char *directory, rk_cache_key *out) {
    rk_cache_key key = {.max_bytes = (uint64_t)section->cache.max_bytes};
    rk_status status = fill_cache_key(section, directory, &key);
    if (status != RK_OK) rk_cache_key_release(&key);
    if (status == RK_NO_MEMORY) return status;
    *out = key;
    return RK_OK;
}

void rk_cache_key_release(rk_cache_key *key) {
    rk_free(key->folder);
    rk_buffer_release(&key->settings);
    rk_cache_inputs_release(&key->inputs);
    *key = (rk_cache_key){0};
}

/* To look at the content of files that no entry can be of would take as long as to read them. */
bool rk_cache_key_is_usable(const rk_cache_key *key) {
    uint64_t n_bytes = 0;
    for (size_t i = 0; key->folder && !key->inputs.has_streams && i < key->inputs.paths.n; i++)
        n_bytes += key->inputs.files[i].n_bytes;
    return n_bytes > 0 && n_bytes <= key->max_bytes;
}

static rk_status make_entry_path(const rk_cache_key *key, char **out) {
    char name[32];
    uint64_t hash = rk_hash_bytes(key->settings.data, key->settings.n_bytes, 0);
    for (size_t i = 0; i < key->inputs.paths.n; i++)
        hash = rk_hash_bytes(key->inputs.paths.texts[i], strlen(key->inputs.paths.texts[i]), hash);
    snprintf(name, sizeof name, "%016" PRIx64 SUFFIX, hash);
    return rk_path_join(key->folder, name, out);
}

rk_status rk_cache_damaged_error(const rk_cache_reader *reader, const char *what) {
    return rk_error(RK_BAD_DATA, "'%s' is damaged: %s", reader->path, what);
}

static rk_status read_descriptor(rk_cache_reader *r, void *to, size_t n_bytes) {
    for (size_t n = 0; n < n_bytes;) {
        ssize_t got = read(r->descriptor, (char *)to + n, n_bytes - n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return rk_error_errno(RK_IO, errno, "could not read '%s'", r->path);
        if (got == 0) return rk_cache_damaged_error(r, "it ends too early");
        n += (size_t)got;
    }
    return RK_OK;
}

static rk_status fill_buffer(rk_cache_reader *r) {
    r->at = 0;
    r->n_buffered = r->n_left < BUFFER_BYTES ? (size_t)r->n_left : BUFFER_BYTES;
    return read_descriptor(r, r->buffer, r->n_buffered);
}

rk_status rk_cache_read(rk_cache_reader *r, void *to, size_t n_bytes) {
    if (n_bytes > r->n_left) return rk_cache_damaged_error(r, "it is shorter than its numbers say");
    if (n_bytes == 0) return RK_OK;
    size_t ready = r->n_buffered - r->at, first = ready < n_bytes ? ready : n_bytes, rest = n_bytes - first;
    char *bytes = to;
    if (first) memcpy(bytes, r->buffer + r->at, first);
    r->at += first;
    r->n_left -= first;
    if (rest >= BUFFER_BYTES) {
        RK_TRY(read_descriptor(r, bytes + first, rest));
    } else if (rest) {
        RK_TRY(fill_buffer(r));
        memcpy(bytes + first, r->buffer, rest);
        r->at = rest;
    }
    r->n_left -= rest;
    r->crc32c = rk_crc32c(r->crc32c, to, n_bytes);
    return RK_OK;
}

rk_status rk_cache_read_u64(rk_cache_reader *r, uint64_t *out) {
    return rk_cache_read(r, out, sizeof *out);
}

rk_status rk_cache_read_count(rk_cache_reader *r, size_t bytes, uint64_t *out) {
    uint64_t n;
    RK_TRY(rk_cache_read_u64(r, &n));
    if (n > r->n_left / bytes) return rk_cache_damaged_error(r, "it is shorter than its numbers say");
    *out = n;
    return RK_OK;
}

/* Whether the entry is of these settings and of files with this content. */
static rk_status read_head(rk_cache_reader *r, rk_cache_key *key, bool *is_same) {
    uint64_t magic, n_settings, n_files, file[2];
    RK_AUTOFREE char *settings = NULL;
    *is_same = false;
    RK_TRY(rk_cache_read_u64(r, &magic));
    if (magic != MAGIC) return rk_cache_damaged_error(r, "it does not begin as such a file does");
    RK_TRY(rk_cache_read_count(r, 1, &n_settings));
    if (n_settings != key->settings.n_bytes) return RK_OK;
    RK_TRY(rk_alloc(n_settings, 1, &settings));
    RK_TRY(rk_cache_read(r, settings, n_settings));
    RK_TRY(rk_cache_read_count(r, sizeof file, &n_files));
    if (memcmp(settings, key->settings.data, n_settings) != 0 || n_files != key->inputs.paths.n) return RK_OK;
    RK_TRY(rk_cache_inputs_hash(&key->inputs));
    for (size_t i = 0; i < n_files; i++) {
        RK_TRY(rk_cache_read(r, file, sizeof file));
        if (file[0] != key->inputs.files[i].n_bytes || file[1] != key->inputs.files[i].hash) return RK_OK;
    }
    *is_same = rk_cache_inputs_are_unchanged(&key->inputs);
    return RK_OK;
}

static rk_status check_end_and_checksum(rk_cache_reader *r) {
    uint32_t crc32c = r->crc32c, stored;
    if (r->n_left) return rk_cache_damaged_error(r, "it is longer than its numbers say");
    r->n_left = sizeof stored;
    RK_TRY(rk_cache_read(r, &stored, sizeof stored));
    return stored == crc32c ? RK_OK : rk_cache_damaged_error(r, "its checksum is another");
}

static rk_status read_entry(rk_cache_reader *r, rk_cache_key *key, rk_cache_load load, void *context,
                            bool *found) {
    struct stat info;
    bool is_same = false;
    if (fstat(r->descriptor, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < CRC_BYTES)
        return rk_cache_damaged_error(r, "it is too short");
    r->n_left = (uint64_t)info.st_size - CRC_BYTES;
    RK_TRY(rk_alloc(BUFFER_BYTES, 1, &r->buffer));
    RK_TRY(read_head(r, key, &is_same));
    if (!is_same) return RK_OK;
    RK_TRY(load(context, r));
    RK_TRY(check_end_and_checksum(r));
    (void)!futimens(r->descriptor, NULL); /* it was used now */
    *found = true;
    return RK_OK;
}

rk_status rk_cache_find(rk_cache_key *key, rk_cache_load load, void *context, bool *found) {
    RK_AUTOFREE char *path = NULL;
    *found = false;
    if (!rk_cache_key_is_usable(key)) return RK_OK;
    RK_TRY(make_entry_path(key, &path));
    rk_cache_reader reader = {.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK),
                              .path = path};
    if (reader.descriptor < 0) return RK_OK;
    rk_status status = read_entry(&reader, key, load, context, found);
    close(reader.descriptor);
    rk_free(reader.buffer);
    if (status == RK_OK || status == RK_NO_MEMORY) return status;
    rk_log(RK_LOG_WARNING, "%s; the data is read anew", rk_last_error());
    if (status == RK_BAD_DATA) unlink(path);
    return RK_OK;
}

rk_status rk_cache_write(rk_cache_writer *w, const void *data, size_t n_bytes) {
    RK_FAIL_IF(n_bytes > w->max_bytes - w->file.n_bytes, RK_UNSUPPORTED,
               "they take more than data.cache.max_bytes, %" PRIu64, w->max_bytes);
    return n_bytes ? rk_writer_append(&w->file, data, n_bytes) : RK_OK;
}

rk_status rk_cache_write_u64(rk_cache_writer *w, uint64_t value) {
    return rk_cache_write(w, &value, sizeof value);
}

static rk_status write_entry(const rk_cache_key *key, rk_cache_save save, const void *context,
                             rk_cache_writer *w) {
    RK_TRY(rk_cache_write_u64(w, MAGIC));
    RK_TRY(rk_cache_write_u64(w, key->settings.n_bytes));
    RK_TRY(rk_cache_write(w, key->settings.data, key->settings.n_bytes));
    RK_TRY(rk_cache_write_u64(w, key->inputs.paths.n));
    for (size_t i = 0; i < key->inputs.paths.n; i++) {
        RK_TRY(rk_cache_write_u64(w, key->inputs.files[i].n_bytes));
        RK_TRY(rk_cache_write_u64(w, key->inputs.files[i].hash));
    }
    RK_TRY(save(context, w));
    uint32_t crc32c = w->file.crc32c;
    return rk_cache_write(w, &crc32c, sizeof crc32c);
}

/* An entry in the folder. */
typedef struct cached_file {
    char *path;
    uint64_t n_bytes;
    int64_t used_ns;
} cached_file;

static int compare_times_of_use(const void *a, const void *b) {
    const cached_file *x = a, *y = b;
    return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* The folder's entries, and what killed processes have left of some, but the one at `path`, which is
 * replaced. */
static rk_status list_entries(const char *folder, const char *path, cached_file *files, size_t *n,
                              const rk_text_list *names) {
    struct stat info;
    for (size_t i = 0; i < names->n; i++) {
        RK_AUTOFREE char *at = NULL;
        if (!strstr(names->texts[i], SUFFIX)) continue;
        RK_TRY(rk_path_join(folder, names->texts[i], &at));
        if (strncmp(at, path, strlen(path)) == 0 || lstat(at, &info) != 0) continue;
        files[(*n)++] =
            (cached_file){at, (uint64_t)info.st_size,
                          (int64_t)info.st_mtim.tv_sec * 1000000000 + (int64_t)info.st_mtim.tv_nsec};
        at = NULL;
    }
    return RK_OK;
}

/* Removes entries, the least used first, until there is room for n_bytes more. */
static rk_status evict_entries_to_make_room(const rk_cache_key *key, const char *path, uint64_t n_bytes) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_AUTOFREE cached_file *files = NULL;
    size_t n = 0;
    uint64_t all = n_bytes;
    RK_TRY(rk_list_directory(key->folder, &names));
    RK_TRY(rk_alloc(names.n, sizeof *files, &files));
    rk_status status = list_entries(key->folder, path, files, &n, &names);
    for (size_t i = 0; i < n; i++) all += files[i].n_bytes;
    if (n) qsort(files, n, sizeof *files, compare_times_of_use);
    for (size_t i = 0; i < n; i++) {
        bool goes = status == RK_OK && all > key->max_bytes && unlink(files[i].path) == 0;
        if (goes) all -= files[i].n_bytes;
        rk_free(files[i].path);
    }
    return status;
}

/* Nobody else may read what is made from files that not all may read. */
static rk_status open_entry(const rk_cache_key *key, const char *path, rk_writer *out) {
    RK_TRY(rk_writer_open(path, out));
    if (rk_cache_inputs_are_public(&key->inputs) || fchmod(out->descriptor, S_IRUSR | S_IWUSR) == 0)
        return RK_OK;
    rk_status status = rk_error_errno(RK_IO, errno, "could not make '%s' private", path);
    rk_writer_release(out);
    return status;
}

/* Under the folder's lock. */
static rk_status replace_entry(const rk_cache_key *key, rk_cache_save save, const void *context) {
    RK_AUTOFREE char *path = NULL;
    rk_cache_writer writer = {.max_bytes = key->max_bytes};
    RK_TRY(make_entry_path(key, &path));
    RK_TRY(open_entry(key, path, &writer.file));
    writer.file.without_sync = true; /* the checksum tells what a crash has cut */
    rk_status status = write_entry(key, save, context, &writer);
    if (status == RK_OK) status = evict_entries_to_make_room(key, path, writer.file.n_bytes);
    if (status == RK_OK) status = rk_writer_commit(&writer.file);
    rk_writer_release(&writer.file);
    return status;
}

static rk_status store_entry(rk_cache_key *key, rk_cache_save save, const void *context) {
    rk_directory_lock *lock;
    RK_TRY(rk_cache_inputs_hash(&key->inputs));
    if (!rk_cache_inputs_are_unchanged(&key->inputs)) return RK_OK;
    RK_TRY(rk_directory_lock_acquire(key->folder, &lock));
    rk_status status = replace_entry(key, save, context);
    rk_directory_lock_free(lock);
    return status;
}

void rk_cache_store(rk_cache_key *key, rk_cache_save save, const void *context) {
    if (!rk_cache_key_is_usable(key)) return;
    rk_status status = store_entry(key, save, context);
    if (status != RK_OK && status != RK_BUSY)
        rk_log(RK_LOG_INFO, "rows are not kept for the next run: %s", rk_last_error());
}
