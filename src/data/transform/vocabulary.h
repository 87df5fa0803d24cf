/* A set of texts, numbered in the order in which they came, with counts: behind vocabularies and joins. */
#ifndef RK_DATA_TRANSFORM_VOCABULARY_H
#define RK_DATA_TRANSFORM_VOCABULARY_H

#include <stdint.h>

#include "base/text/text.h"

typedef struct rk_vocabulary {
    char *bytes; /* all texts, one after the other */
    size_t n_bytes, bytes_capacity;
    size_t *offsets; /* [n+1] */
    int64_t *counts; /* [n] */
    size_t n, offsets_capacity, counts_capacity;
    uint32_t *slots; /* [n_slots] number + 1, or 0; n_slots a power of two */
    size_t n_slots;
} rk_vocabulary;

void rk_vocabulary_release(rk_vocabulary *vocabulary);
int64_t rk_vocabulary_find(const rk_vocabulary *vocabulary, rk_span text); /* -1 if absent */
/* The text's number, made if it is new; adds `count` to its count. */
rk_status rk_vocabulary_add(rk_vocabulary *vocabulary, rk_span text, int64_t count, int64_t *number);
rk_span rk_vocabulary_text(const rk_vocabulary *vocabulary, size_t number);
/* A new dictionary of the texts with at least min_count, the most frequent first (then by bytes), at most
 * max_size of them (0 = all). */
rk_status rk_vocabulary_most_frequent(const rk_vocabulary *from, int64_t min_count, int64_t max_size,
                                      rk_vocabulary *out);

/* One text a line, in order; '\', line ends and carriage returns are escaped. */
rk_status rk_vocabulary_save(const rk_vocabulary *vocabulary, const char *path);
rk_status rk_vocabulary_load(const char *path, rk_vocabulary *out);

#endif
