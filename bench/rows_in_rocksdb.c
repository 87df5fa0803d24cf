/* RocksDB by its C API: direct reads and writes, no log, Bloom filters of 10 bits, a hash index in blocks,
 * one full compaction after the load. Sixteen threads read 32 keys a call, which was faster than one thread
 * with calls of 512. */
#include "rows_on_disk.h"

#ifdef RK_ROCKSDB
#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread/worker_pool.h"
#include "workload.h"

enum {
    THREADS = 16,
    AT_ONCE = 32,
    AT_ONCE_ALONE = 512,
    CACHE_BYTES = 256 << 20,
    PUT_AT_ONCE = 1024,
    MOST_TASKS = 1 << 14
};

struct disk_rows {
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_readoptions_t *reads;
    rocksdb_writeoptions_t *writes;
    rk_worker_pool *pool;
    size_t record_bytes;
    /* of a batch that is read: */
    size_t n;
    const uint64_t *keys;
    uint8_t *records;
};

static void fail_if_error(const char *error) {
    if (error) die("RocksDB: %s", error);
}

/* Big-endian, so that the order of keys is that of bytes. */
static void encode_key(uint64_t key, char out[8]) {
    for (int i = 0; i < 8; i++) out[i] = (char)(key >> (56 - 8 * i));
}

/* n keys from `first` on, AT_ONCE_ALONE at most. */
static void multi_get_keys(const disk_rows *r, size_t first, size_t n) {
    char keys[AT_ONCE_ALONE][8], *values[AT_ONCE_ALONE], *errors[AT_ONCE_ALONE];
    const char *pointers[AT_ONCE_ALONE];
    size_t lengths[AT_ONCE_ALONE], value_lengths[AT_ONCE_ALONE];
    for (size_t i = 0; i < n; i++) {
        encode_key(r->keys[first + i], keys[i]);
        pointers[i] = keys[i];
        lengths[i] = sizeof keys[i];
    }
    rocksdb_multi_get(r->db, r->reads, n, pointers, lengths, values, value_lengths, errors);
    for (size_t i = 0; i < n; i++) {
        fail_if_error(errors[i]);
        if (!values[i] || value_lengths[i] != r->record_bytes) die("RocksDB has lost a row");
        memcpy(r->records + (first + i) * r->record_bytes, values[i], r->record_bytes);
        rocksdb_free(values[i]);
    }
}

static void run_multi_get(void *context, size_t task) {
    const disk_rows *r = context;
    size_t first = task * AT_ONCE, left = r->n - first;
    multi_get_keys(r, first, left < AT_ONCE ? left : AT_ONCE);
}

static rocksdb_options_t *make_options(void) {
    rocksdb_options_t *o = rocksdb_options_create();
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_block_based_options_set_data_block_index_type(
        table, rocksdb_block_based_table_data_block_index_type_binary_search_and_hash);
    rocksdb_block_based_options_set_data_block_hash_ratio(table, 0.75);
    rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(CACHE_BYTES));
    rocksdb_options_set_block_based_table_factory(o, table);
    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_options_set_compression(o, rocksdb_no_compression);
    rocksdb_options_set_use_direct_reads(o, 1);
    rocksdb_options_set_use_direct_io_for_flush_and_compaction(o, 1);
    rocksdb_options_set_write_buffer_size(o, 64 << 20);
    rocksdb_options_set_max_write_buffer_number(o, 4);
    rocksdb_options_increase_parallelism(o, 4);
    rocksdb_options_set_max_open_files(o, -1);
    rocksdb_options_enable_statistics(o);
    return o;
}

static disk_rows *open_db(const char *folder, size_t n_keys, size_t record_bytes, size_t depth) {
    (void)n_keys, (void)depth;
    disk_rows *r = calloc(1, sizeof *r);
    char *error = NULL;
    r->record_bytes = record_bytes;
    r->options = make_options();
    r->db = rocksdb_open(r->options, folder, &error);
    fail_if_error(error);
    r->reads = rocksdb_readoptions_create();
    r->writes = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(r->writes, 1);
    check(rk_worker_pool_create(THREADS, MOST_TASKS, run_multi_get, r, &r->pool));
    return r;
}

static void put_records(disk_rows *r, size_t n, const uint64_t *keys, const uint8_t *records) {
    char *error = NULL, key[8];
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    for (size_t i = 0; i < n; i++) {
        encode_key(keys[i], key);
        rocksdb_writebatch_put(batch, key, sizeof key, (const char *)records + i * r->record_bytes,
                               r->record_bytes);
        if (i % PUT_AT_ONCE != PUT_AT_ONCE - 1 && i != n - 1) continue;
        rocksdb_write(r->db, r->writes, batch, &error);
        fail_if_error(error);
        rocksdb_writebatch_clear(batch);
    }
    rocksdb_writebatch_destroy(batch);
}

static void finish_loading(disk_rows *r) {
    rocksdb_compact_range(r->db, NULL, 0, NULL, 0);
}

static void get_records(disk_rows *r, size_t n, const uint64_t *keys, uint8_t *records) {
    size_t n_tasks = (n + AT_ONCE - 1) / AT_ONCE;
    if (n_tasks > MOST_TASKS) die("too large a batch");
    r->n = n;
    r->keys = keys;
    r->records = records;
    for (size_t task = 0; task < n_tasks; task++) rk_worker_pool_start_task(r->pool, task);
    for (size_t task = 0; task < n_tasks; task++) rk_worker_pool_wait_for_task(r->pool, task);
}

static void get_records_on_one_thread(disk_rows *r, size_t n, const uint64_t *keys, uint8_t *records) {
    r->keys = keys;
    r->records = records;
    for (size_t first = 0; first < n; first += AT_ONCE_ALONE)
        multi_get_keys(r, first, n - first < AT_ONCE_ALONE ? n - first : AT_ONCE_ALONE);
}

/* Of flushes and compactions, as its statistics say. */
static double written_bytes(const disk_rows *r) {
    char *text = rocksdb_options_statistics_get_string(r->options);
    double sum = 0;
    static const char *const names[] = {"rocksdb.flush.write.bytes COUNT : ",
                                        "rocksdb.compact.write.bytes COUNT : "};
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(text, names[i]);
        if (at) sum += strtod(at + strlen(names[i]), NULL);
    }
    rocksdb_free(text);
    return sum;
}

static void close_db(disk_rows *r) {
    rk_worker_pool_free(r->pool);
    rocksdb_close(r->db);
    rocksdb_readoptions_destroy(r->reads);
    rocksdb_writeoptions_destroy(r->writes);
    rocksdb_options_destroy(r->options);
    free(r);
}

const disk_rows_ops rows_in_rocksdb = {"RocksDB",   open_db,       put_records, finish_loading,
                                       get_records, written_bytes, close_db};
const disk_rows_ops rocksdb_alone = {.name = "RocksDB, one thread", .get = get_records_on_one_thread};
#else
const disk_rows_ops rocksdb_alone = {.name = "RocksDB, one thread"};
const disk_rows_ops rows_in_rocksdb = {.name = "RocksDB"};
#endif
