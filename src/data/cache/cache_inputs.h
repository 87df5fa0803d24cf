/* The files that a cache's entry was made from, by their content. */
#ifndef RK_DATA_CACHE_CACHE_INPUTS_H
#define RK_DATA_CACHE_CACHE_INPUTS_H

#include "base/text/text_list.h"

typedef struct rk_cache_input {
    uint64_t n_bytes, hash; /* hash: of the content, once it was asked for */
    uint64_t device, inode;
    int64_t modified_ns, changed_ns;
    bool is_public; /* all users may read it */
} rk_cache_input;

typedef struct rk_cache_inputs {
    rk_text_list paths;
    rk_cache_input *files; /* [paths.n] */
    size_t capacity;
    bool has_streams; /* one is no ordinary file: what it gives next cannot be known */
    int64_t listed_ns;
} rk_cache_inputs;

void rk_cache_inputs_release(rk_cache_inputs *inputs);
/* The files that patterns stand for, behind those of the list, as they are now. */
rk_status rk_cache_inputs_add(rk_cache_inputs *inputs, const char *directory, char *const *patterns,
                              size_t n_patterns);
/* Reads all files for their hashes. */
rk_status rk_cache_inputs_hash(rk_cache_inputs *inputs);
/* Whether all users may read all of them. */
bool rk_cache_inputs_are_public(const rk_cache_inputs *inputs);
/* Whether the files are still those that were listed, and were not being written then. */
bool rk_cache_inputs_are_unchanged(const rk_cache_inputs *inputs);

#endif
