/* What was made from data files, kept from one run to the next: a folder of entries, each found by all that
 * it depends on, the settings and the content of the files (docs/formats/data_cache.md). Nothing depends on
 * an entry being there: one that is missing, damaged or of other data is made anew. */
#ifndef RK_DATA_CACHE_CACHE_ENTRY_H
#define RK_DATA_CACHE_CACHE_ENTRY_H

#include "base/buffer.h"
#include "base/file/file.h"
#include "data/cache/cache_inputs.h"
#include "data/data_config.h"

/* What an entry depends on. */
typedef struct rk_cache_key {
    char *folder; /* NULL: there is no cache */
    uint64_t max_bytes;
    rk_buffer settings; /* as text, but for the files' content */
    rk_cache_inputs inputs;
} rk_cache_key;

/* The section's cache, its settings as far as rows depend on them, and its training data and joined files.
 * More of both may be added before the key is used. The section has no patterns of features any more. */
rk_status rk_cache_key_init(const rk_data_section *section, const char *directory, rk_cache_key *out);
void rk_cache_key_release(rk_cache_key *key);
/* Whether entries can be found and kept by it: not of streams, nor of files of more than max_bytes. */
bool rk_cache_key_is_usable(const rk_cache_key *key);

/* An entry on its way in. Whatever is read has been there: RK_BAD_DATA else. */
typedef struct rk_cache_reader {
    int descriptor;
    const char *path;
    uint64_t n_left; /* bytes that may still be read */
    uint32_t crc32c;
    char *buffer;
    size_t n_buffered, at;
} rk_cache_reader;
rk_status rk_cache_read(rk_cache_reader *reader, void *to, size_t n_bytes);
rk_status rk_cache_read_u64(rk_cache_reader *reader, uint64_t *out);
/* A number of elements that are to follow, of `bytes` each or more: no more than there is room for. */
rk_status rk_cache_read_count(rk_cache_reader *reader, size_t bytes, uint64_t *out);
rk_status rk_cache_damaged_error(const rk_cache_reader *reader, const char *what);

/* Has `load` read the entry, if there is one for these settings and files. *found = false: there is none, and
 * what `load` has made is to be dropped. */
typedef rk_status (*rk_cache_load)(void *context, rk_cache_reader *reader);
rk_status rk_cache_find(rk_cache_key *key, rk_cache_load load, void *context, bool *found);
/* Has `save` write an entry, unless the files have changed since the key was made. Entries that were not used
 * for longest make room for it. That it could not be written is told in the log and is no failure. */
typedef struct rk_cache_writer {
    rk_writer file;
    uint64_t max_bytes;
} rk_cache_writer;
typedef rk_status (*rk_cache_save)(const void *context, rk_cache_writer *writer);
void rk_cache_store(rk_cache_key *key, rk_cache_save save, const void *context);
rk_status rk_cache_write(rk_cache_writer *writer, const void *data, size_t n_bytes);
rk_status rk_cache_write_u64(rk_cache_writer *writer, uint64_t value);

#endif
