/* The bytes of a state, for tests that compare states. */
#ifndef RK_TESTS_STATE_BYTES_H
#define RK_TESTS_STATE_BYTES_H

#include "testing.h"

#include "base/memory.h"
#include "base/state_dict.h"

/* An entry's bytes, its rows in their order. */
static inline void copy_entry(const rk_state_dict_entry *entry, char *to) {
    size_t n = (size_t)entry->dims[0], row = n ? rk_state_dict_entry_bytes(entry) / n : 0;
    for (size_t r = 0; r < n && entry->order; r++)
        memcpy(to + r * row, (const char *)entry->data + (size_t)entry->order[r] * row, row);
    if (!entry->order && n) memcpy(to, entry->data, n * row);
}

/* All entries, one after another; releases the state. Free with rk_free. */
static inline char *bytes_of_state(rk_state_dict *state, size_t *n_bytes) {
    size_t total = 0, at = 0;
    for (size_t i = 0; i < state->n; i++) total += rk_state_dict_entry_bytes(&state->entries[i]);
    char *copy;
    OK(rk_alloc(total, 1, &copy));
    for (size_t i = 0; i < state->n; i++) {
        size_t n = rk_state_dict_entry_bytes(&state->entries[i]);
        copy_entry(&state->entries[i], copy + at);
        at += n;
    }
    rk_state_dict_release(state);
    *n_bytes = total;
    return copy;
}

#endif
