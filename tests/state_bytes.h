/* The bytes of a state, for tests that compare states. */
#ifndef RK_TESTS_STATE_BYTES_H
#define RK_TESTS_STATE_BYTES_H

#include "testing.h"

#include "base/memory.h"
#include "base/state_dict.h"

/* All entries, one after another; releases the state. Free with rk_free. */
static inline char *bytes_of_state(rk_state_dict *state, size_t *n_bytes) {
    size_t total = 0, at = 0;
    for (size_t i = 0; i < state->n; i++) total += rk_state_dict_entry_bytes(&state->entries[i]);
    char *copy;
    OK(rk_alloc(total, 1, &copy));
    for (size_t i = 0; i < state->n; i++) {
        size_t n = rk_state_dict_entry_bytes(&state->entries[i]);
        rk_state_dict_copy_rows(&state->entries[i], 0, state->entries[i].dims[0], copy + at);
        at += n;
    }
    rk_state_dict_release(state);
    *n_bytes = total;
    return copy;
}

#endif
