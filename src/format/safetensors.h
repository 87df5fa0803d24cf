/* safetensors files: an 8-byte length, a JSON header, the tensors' bytes. docs/formats/safetensors.md. */
#ifndef RK_FORMAT_SAFETENSORS_H
#define RK_FORMAT_SAFETENSORS_H

#include <stdint.h>

#include "base/file/file.h"
#include "base/buffer.h"
#include "base/state_dict.h"

/* Write the entries (all of them; the header lists them in order, and each tensor is aligned to its elements)
 * to one file, atomically; *crc32c and *n_bytes are those of the whole file. */
rk_status rk_safetensors_write(const char *path, const rk_state_dict *state, uint32_t *crc32c,
                               uint64_t *n_bytes);

/* Where bytes come from that are not in memory as a whole, and what the header says beside the tensors. */
typedef struct rk_safetensors_source {
    /* Append all bytes of an entry to the writer. */
    rk_status (*fill)(void *context, size_t entry, rk_writer *writer);
    void *context;
    const char *const *metadata; /* [2 * n_metadata]: keys and values */
    size_t n_metadata;
} rk_safetensors_source;
/* The same, of entries whose data is not read. crc32c may be NULL: it is not computed. */
rk_status rk_safetensors_write_from(const char *path, const rk_state_dict *state,
                                    const rk_safetensors_source *source, uint32_t *crc32c, uint64_t *n_bytes);

typedef struct rk_safetensors_entry {
    char *name;
    rk_dtype type;
    int32_t n_dims;
    int64_t dims[8];
    uint64_t begin, n_bytes; /* in the file */
} rk_safetensors_entry;
typedef struct rk_safetensors {
    rk_safetensors_entry *entries; /* [n] */
    size_t n;
} rk_safetensors;

/* How many bytes the header takes, and those before it, by the file's first ones. */
enum { RK_SAFETENSORS_HEAD_BYTES = 8 };
rk_status rk_safetensors_header_bytes(const void *head, uint64_t file_bytes, size_t *out);
/* Read a header from the file's bytes (the header must be whole; offsets are checked against file_bytes).
 * Pure. */
rk_status rk_safetensors_parse(const void *data, size_t n_bytes, uint64_t file_bytes, rk_safetensors *out);
/* What the header, whole and parsed once before, says under a key of its metadata: *out is the caller's
 * (rk_free), NULL where it says nothing. */
rk_status rk_safetensors_metadata(const void *data, size_t n_bytes, const char *key, char **out);
void rk_safetensors_release(rk_safetensors *tensors);
const rk_safetensors_entry *rk_safetensors_find(const rk_safetensors *tensors, const char *name);

#endif
