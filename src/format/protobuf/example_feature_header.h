/* What stands before the values of a feature, as every writer writes it while lengths take one byte each:
 *   0a L 0a N name 12 F kind G 0a H, then H bytes: packed numbers, or one text.
 * L, F and G follow from H. So where the feature is known beforehand, all of it is compared at once. */
#ifndef RK_FORMAT_PROTOBUF_EXAMPLE_FEATURE_HEADER_H
#define RK_FORMAT_PROTOBUF_EXAMPLE_FEATURE_HEADER_H

#include <string.h>

#include "format/protobuf/tfrecord.h"

enum { RK_EXAMPLE_HEAD_BYTES = 64, RK_EXAMPLE_HEAD_WORDS = RK_EXAMPLE_HEAD_BYTES / 8 };

typedef struct rk_example_feature_header {
    struct {
        uint64_t bytes;   /* as they are where H = 0 */
        uint64_t lengths; /* all bits of each byte that H is added to */
        uint64_t mask;    /* of the bytes that belong to it */
    } words[RK_EXAMPLE_HEAD_WORDS];
    size_t n_bytes, n_words; /* 0: the name is too long; n_words is even */
    size_t most;             /* H at most */
} rk_example_feature_header;

rk_example_feature_header rk_example_feature_header_make(const char *name, size_t n_name,
                                                         rk_example_kind kind);

static inline uint64_t rk_example_feature_header_xor_word(const rk_example_feature_header *head,
                                                          const uint8_t *at, size_t i, uint64_t length) {
    uint64_t word;
    memcpy(&word, at + 8 * i, sizeof word);
    return (word ^ (head->words[i].bytes + (length & head->words[i].lengths))) & head->words[i].mask;
}

/* Whether the feature stands at `at`, where RK_EXAMPLE_HEAD_BYTES can be read; then *n_values = H. */
static inline bool rk_example_feature_header_matches(const rk_example_feature_header *head, const uint8_t *at,
                                                     size_t *n_values) {
    if (head->n_bytes == 0) return false;
    size_t n = at[head->n_bytes - 1];
    uint64_t length = n * 0x0101010101010101u,
             wrong = rk_example_feature_header_xor_word(head, at, 0, length) |
                     rk_example_feature_header_xor_word(head, at, 1, length);
    for (size_t i = 2; i < head->n_words; i += 2)
        wrong |= rk_example_feature_header_xor_word(head, at, i, length) |
                 rk_example_feature_header_xor_word(head, at, i + 1, length);
    *n_values = n;
    return wrong == 0 && n <= head->most;
}

#endif
