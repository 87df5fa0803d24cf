/* The bodies of rk_dropout_mask and rk_dropout_apply_mask (kernels/dropout_mask.h), compiled once for each
 * instruction set. */
#include "kernels/kernel_list.h"

#define RANDOM_BLOCKS 32
#include "kernels/inline/random_words.h"

static inline rk_real apply_mask_to_value(const rk_dropout_mask_args *args, uint32_t word, int64_t i) {
    rk_real y = args->from[i] * args->keep;
    return word >= args->limit ? y : 0;
}

/* Values first .. last-1, whose words are words[0] and on. */
static inline void write_masked_values(const rk_dropout_mask_args *args, const uint32_t *words, int64_t first,
                                       int64_t last) {
    rk_real *to = args->to + first;
    if (args->add)
        for (int64_t i = 0; i < last - first; i++) to[i] += apply_mask_to_value(args, words[i], first + i);
    else
        for (int64_t i = 0; i < last - first; i++) to[i] = apply_mask_to_value(args, words[i], first + i);
}

static inline void write_kept_flags(const rk_dropout_mask_args *args, const uint32_t *words, int64_t first,
                                    int64_t last) {
    uint8_t *kept = args->kept + first;
    for (int64_t i = 0; i < last - first; i++) kept[i] = words[i] >= args->limit;
}

void RK_KERNEL_NAME(rk_dropout_mask)(const rk_dropout_mask_args *args) {
    rk_dropout_mask_args a = *args; /* nobody else has it: no store can change it */
    uint32_t words[RANDOM_WORDS];
    int64_t skipped = a.place % 4, last;
    for (int64_t first = 0; first < a.n; first = last, skipped = 0) {
        last = first + RANDOM_WORDS - skipped;
        fill_random_words(a.seed, a.step, (uint64_t)((a.place + first) / 4), words);
        if (last <= a.n && skipped == 0) {
            if (a.to) write_masked_values(&a, words, first, first + RANDOM_WORDS);
            if (a.kept) write_kept_flags(&a, words, first, first + RANDOM_WORDS);
        } else {
            last = last < a.n ? last : a.n;
            if (a.to) write_masked_values(&a, words + skipped, first, last);
            if (a.kept) write_kept_flags(&a, words + skipped, first, last);
        }
    }
}

void RK_KERNEL_NAME(rk_dropout_apply_mask)(const rk_real *from, const uint8_t *kept, int64_t n, rk_real keep,
                                           bool add, rk_real *to) {
    if (add)
        for (int64_t i = 0; i < n; i++) to[i] += kept[i] ? from[i] * keep : 0;
    else
        for (int64_t i = 0; i < n; i++) to[i] = 0 + (kept[i] ? from[i] * keep : 0);
}
