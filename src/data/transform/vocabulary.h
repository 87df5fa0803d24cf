/* A set of texts, numbered in the order in which they came, with counts: behind vocabularies and joins. */
#ifndef RK_DATA_TRANSFORM_VOCABULARY_H
#define RK_DATA_TRANSFORM_VOCABULARY_H

#include <stdint.h>

#include "base/text/text.h"

typedef struct rk_dictionary {
    char *bytes;            /* all texts, one after the other */
    size_t n_bytes, bytes_capacity;
    size_t *offsets;        /* [n+1] */
    int64_t *counts;        /* [n] */
    size_t n, offsets_capacity, counts_capacity;
    uint32_t *slots;        /* [n_slots] number + 1, or 0; n_slots a power of two */
    size_t n_slots;
} rk_dictionary;

void rk_dictionary_release(rk_dictionary *dictionary);
int64_t rk_dictionary_find(const rk_dictionary *dictionary, rk_span text); /* -1 if absent */
/* The text's number, made if it is new; adds `count` to its count. */
rk_status rk_dictionary_add(rk_dictionary *dictionary, rk_span text, int64_t count, int64_t *number);
rk_span rk_dictionary_text(const rk_dictionary *dictionary, size_t number);
/* A new dictionary of the texts with at least min_count, the most frequent first (then by bytes), at most max_size of them (0 = all). */
rk_status rk_dictionary_rank(const rk_dictionary *from, int64_t min_count, int64_t max_size, rk_dictionary *out);

/* One text a line, in order; '\', line ends and carriage returns are escaped. */
rk_status rk_dictionary_save(const rk_dictionary *dictionary, const char *path);
rk_status rk_dictionary_load(const char *path, rk_dictionary *out);

#endif
