/* A checkpoint's manifest in the scratch folder, with its checksum put right. */
#ifndef RK_FUZZ_MANIFEST_H
#define RK_FUZZ_MANIFEST_H

#include <inttypes.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "fuzz/scratch.h"

static void put_manifest(const char *json, size_t n_bytes) {
    rk_buffer text = {0};
    rk_buffer_append(&text, json, n_bytes);
    rk_buffer_printf(&text, "\ncrc32c %08" PRIx32 "\n", rk_crc32c(0, json, n_bytes));
    scratch_file("manifest.json", text.data, text.n_bytes);
    rk_buffer_release(&text);
}

#endif
