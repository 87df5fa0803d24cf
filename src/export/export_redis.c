/* Rows of tables into Redis, in blocks of some KiB, and the manifest behind them: who opens the version finds
 * all of it, or no manifest. */
#include <inttypes.h>
#include <string.h>

#include "base/file/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "embedding/redis/redis_client.h"
#include "embedding/redis/row_manifest.h"
#include "export/export_internal.h"
#include "train/checkpoint/external_rows.h"

enum { VERSION_BYTES = 64, BLOCKS = 64 };              /* blocks that go in one round trip */
static const rk_redis_limits limits = {.timeout = 30}; /* of a round trip */

typedef struct row_writer {
    rk_exporting *x;
    rk_redis_url url;
    rk_redis_address_cache *addresses;
    rk_redis *redis;
    char version[VERSION_BYTES];
    rk_row_manifest manifest;
} row_writer;

static void release_row_writer(row_writer *w) {
    rk_row_manifest_release(&w->manifest);
    rk_redis_free(w->redis);
    rk_redis_address_cache_free(w->addresses);
    rk_redis_url_release(&w->url);
}

/* The step, and a hash of the checkpoint's manifest, which has all files' checksums, and of the rows' format:
 * the same rows are the same version, and to write them again changes nothing. */
static rk_status make_row_version(row_writer *w) {
    RK_AUTOFREE char *path = NULL, *text = NULL;
    size_t n_bytes;
    RK_TRY(rk_path_join(w->x->checkpoint, "manifest.json", &path));
    RK_TRY(rk_file_read(path, &text, &n_bytes));
    uint64_t hash = rk_hash_bytes(text, n_bytes, (uint64_t)w->x->options->rows);
    rk_snprintf(w->version, sizeof w->version, "%lld-%016" PRIx64, (long long)w->x->manifest.progress.step,
                hash);
    return RK_OK;
}

static rk_export_rows row_format_of_tensor(const rk_exported_tensor *t) {
    if (t->rows != RK_EXPORT_ROWS_TRAINED) return t->rows;
    return t->stored->type == RK_F16    ? RK_EXPORT_ROWS_F16
           : t->stored->type == RK_BF16 ? RK_EXPORT_ROWS_BF16
                                        : RK_EXPORT_ROWS_F32;
}

static rk_status add_tables_to_manifest(row_writer *w) {
    const rk_exporting *x = w->x;
    for (size_t i = x->n_in_files; i < x->n; i++)
        RK_TRY(rk_row_manifest_add(&w->manifest, w->url.prefix, x->list[i].table,
                                   rk_exported_tensor_rows(&x->list[i]),
                                   (int32_t)x->list[i].stored->n_columns, row_format_of_tensor(&x->list[i])));
    return RK_OK;
}

static rk_status write_rows_of_table(row_writer *w, const rk_exported_tensor *t, const rk_stored_rows *rows) {
    int64_t step = rows->block_rows * BLOCKS;
    for (int64_t first = 0; first < rows->n_rows; first += step) {
        rk_redis_command blocks[BLOCKS];
        size_t n_blocks = 0;
        const void *piece;
        int64_t n = rows->n_rows - first < step ? rows->n_rows - first : step;
        RK_TRY(rk_export_encode_rows(w->x, t, first, n, &piece));
        for (int64_t row = 0; row < n; row += rows->block_rows) {
            int64_t some = n - row < rows->block_rows ? n - row : rows->block_rows;
            blocks[n_blocks++] = (rk_redis_command){.verb = RK_REDIS_SET,
                                                    .key = rows->key,
                                                    .number = (first + row) / rows->block_rows,
                                                    .n_bytes = some * rows->row_bytes,
                                                    .data = (const char *)piece + row * rows->row_bytes};
        }
        RK_TRY(rk_redis_run_commands(w->redis, blocks, n_blocks, &limits));
    }
    return RK_OK;
}

static rk_status write_manifest(row_writer *w) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    RK_TRY(rk_row_manifest_write(&w->manifest, &text));
    const rk_redis_command set = {.verb = RK_REDIS_SET,
                                  .key = w->manifest.key,
                                  .number = -1,
                                  .n_bytes = (int64_t)text.n_bytes,
                                  .data = text.data};
    return rk_redis_run_commands(w->redis, &set, 1, &limits);
}

static rk_status write_rows_and_manifest(row_writer *w) {
    rk_exporting *x = w->x;
    RK_TRY(rk_redis_url_parse(x->options->rows_to, &w->url));
    RK_TRY(make_row_version(w));
    RK_TRY(rk_redis_address_cache_create(&w->addresses));
    RK_TRY(rk_redis_create(&w->url, w->addresses, &w->redis));
    RK_TRY(rk_row_manifest_init(w->url.prefix, w->version, &w->manifest));
    RK_TRY(add_tables_to_manifest(w));
    for (size_t i = x->n_in_files; i < x->n; i++)
        RK_TRY(write_rows_of_table(w, &x->list[i], &w->manifest.tables[i - x->n_in_files]));
    RK_TRY(write_manifest(w));
    return rk_external_rows_write(x->directory, x->options->rows_to, w->version);
}

rk_status rk_export_write_redis_rows(rk_exporting *x) {
    row_writer w = {.x = x};
    rk_status status = write_rows_and_manifest(&w);
    release_row_writer(&w);
    return status;
}
