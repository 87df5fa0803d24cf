/* A folder of the process's own for files that a target reads by name; a checkpoint's manifest with its checksum put right. */
#ifndef RK_FUZZ_FOLDER_H
#define RK_FUZZ_FOLDER_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"

static char fuzz_folder[] = "/tmp/reckon-fuzz-XXXXXX";

static inline void fuzz_folder_remove(void) {
    (void)!rk_remove_tree(fuzz_folder);
}

/* Not by a writer, which syncs. */
static inline void fuzz_put(const char *name, const void *data, size_t n_bytes) {
    static int made;
    char path[300];
    if (!made++ && (!mkdtemp(fuzz_folder) || atexit(fuzz_folder_remove))) abort();
    snprintf(path, sizeof path, "%s/%s", fuzz_folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, n_bytes, file) != n_bytes || fclose(file) != 0) abort();
}

static inline void fuzz_put_manifest(const char *json, size_t n_bytes) {
    rk_buffer text = {0};
    rk_buffer_append(&text, json, n_bytes);
    rk_buffer_printf(&text, "\ncrc32c %08" PRIx32 "\n", rk_crc32c(0, json, n_bytes));
    fuzz_put("manifest.json", text.data, text.n_bytes);
    rk_buffer_release(&text);
}

#endif
