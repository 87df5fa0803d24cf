/* A vocabulary's file: what is loaded can be found by its numbers, and is saved as what loads the same
 * again. */
#include <stddef.h>
#include <string.h>

#include "data/transform/vocabulary.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    rk_vocabulary first, again;
    char saved[128];
    if (rk_vocabulary_load(scratch_file("v.txt", data, n_bytes), &first) != RK_OK) return 0;
    snprintf(saved, sizeof saved, "%s/again.txt", scratch_folder());
    if (rk_vocabulary_save(&first, saved) != RK_OK || rk_vocabulary_load(saved, &again) != RK_OK ||
        again.n != first.n)
        abort();
    for (size_t i = 0; i < first.n; i++) {
        rk_span a = rk_vocabulary_text(&first, i), b = rk_vocabulary_text(&again, i);
        if (rk_vocabulary_find(&first, a) != (int64_t)i) abort();
        if (a.n_bytes != b.n_bytes || (a.n_bytes && memcmp(a.data, b.data, a.n_bytes) != 0)) abort();
    }
    rk_vocabulary_release(&first);
    rk_vocabulary_release(&again);
    return 0;
}
