/* All windows of a split, kept in the cache from one run to the next. */
#ifndef RK_DATA_CACHE_CACHED_WINDOWS_H
#define RK_DATA_CACHE_CACHED_WINDOWS_H

#include "data/cache/cache_entry.h"
#include "data/transform/shuffle_window.h"

/* What windows are made by, beside the section. */
typedef struct rk_window_settings {
    const rk_transforms *transforms;
    const char *directory, *split;
    int64_t window_rows;
    uint64_t seed; /* of the order of pieces */
    bool shuffles;
    rk_window_columns has; /* the rows */
} rk_window_settings;

typedef struct rk_window_list {
    rk_window *windows; /* [n] */
    size_t n, capacity;
} rk_window_list;
void rk_window_list_release(rk_window_list *list);

/* The key of a split's windows; `paths` are its own files, where they are not the training data's. */
rk_status rk_cached_windows_key(const rk_window_settings *manner, char *const *paths, size_t n_paths,
                                rk_cache_key *out);
/* The windows, if they are there and take no more than max_bytes of memory. */
rk_status rk_cached_windows_find(rk_cache_key *key, const rk_window_settings *manner, uint64_t max_bytes,
                                 rk_window_list *out, bool *found);
void rk_cached_windows_store(rk_cache_key *key, const rk_window_list *list);

#endif
