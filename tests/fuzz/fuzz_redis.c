/* What is read of rows in Redis: a manifest, which is written and read again; an address; a redirection. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "embedding/redis/redis_client.h"
#include "embedding/redis/row_manifest.h"
#include "embedding/redis/redis_slot_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void read_manifest(const char *text, size_t n_bytes) {
    rk_row_manifest first, second;
    rk_buffer written = {0};
    if (rk_row_manifest_parse("p", "v", text, n_bytes, &first) != RK_OK) return;
    if (rk_row_manifest_write(&first, &written) != RK_OK) abort();
    if (rk_row_manifest_parse("p", "v", written.data, written.n_bytes, &second) != RK_OK) abort();
    if (first.n_tables != second.n_tables) abort();
    for (size_t t = 0; t < first.n_tables; t++) {
        const rk_stored_rows *a = &first.tables[t], *b = &second.tables[t];
        if (a->n_rows != b->n_rows || a->row_bytes != b->row_bytes || a->block_rows != b->block_rows) abort();
        if (a->row_bytes < 1 || a->block_rows < 1 || a->block_rows > INT32_MAX / a->row_bytes) abort();
    }
    rk_buffer_release(&written);
    rk_row_manifest_release(&first);
    rk_row_manifest_release(&second);
}

static void read_address(const char *text) {
    rk_redis_url url;
    if (rk_redis_url_parse(text, &url) != RK_OK) return;
    if (!*url.host || !*url.prefix || url.port < 1 || url.port > 65535) abort();
    rk_redis_url_release(&url);
}

static void read_redirect(const char *text) {
    const char *address = NULL;
    int32_t slot = rk_redis_parse_redirect(text, &address);
    if (slot >= RK_REDIS_SLOTS || (slot >= 0) != (address != NULL)) abort();
    if (address && (address < text || address > text + strlen(text))) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    char *text;
    if (n_bytes == 0) return 0;
    if (rk_strndup((const char *)data + 1, n_bytes - 1, &text) != RK_OK) abort();
    long live = rk_alloc_live();
    if (data[0] % 3 == 0) read_manifest(text, n_bytes - 1);
    if (data[0] % 3 == 1) read_address(text);
    if (data[0] % 3 == 2) read_redirect(text);
    if (rk_alloc_live() != live) abort();
    rk_free(text);
    return 0;
}
