#include "base/state_dict.h"

#include <string.h>

#include "base/memory.h"

uint64_t rk_state_dict_entry_bytes(const rk_state_dict_entry *entry) {
    uint64_t n = rk_dtype_bytes(entry->type);
    for (int32_t i = 0; i < entry->n_dims; i++) n *= (uint64_t)entry->dims[i];
    return n;
}

size_t rk_state_dict_row_bytes(const rk_state_dict_entry *entry) {
    return rk_dtype_bytes(entry->type) * (size_t)(entry->n_dims > 1 ? entry->dims[1] : 1);
}

void rk_state_dict_copy_rows(const rk_state_dict_entry *entry, int64_t first, int64_t n, void *to) {
    size_t row_bytes = rk_state_dict_row_bytes(entry), stride = rk_state_dict_stride(entry);
    for (int64_t i = first; i < first + n; i++) {
        char *out = (char *)to + (size_t)(i - first) * row_bytes;
        if (entry->read_row)
            entry->read_row(entry->data, entry->order[i], out);
        else
            memcpy(out, (const char *)entry->data + (size_t)(entry->order ? entry->order[i] : i) * stride,
                   row_bytes);
    }
}

rk_status rk_state_dict_add(rk_state_dict *state, const char *name, rk_dtype type, int64_t dim0, int64_t dim1,
                            void *data) {
    RK_FAIL_IF(rk_state_dict_find(state, name) != NULL, RK_INTERNAL,
               "two tensors of the state are named '%s'", name);
    RK_TRY(rk_reserve_one_more(&state->entries, state->n, &state->capacity, sizeof *state->entries));
    rk_state_dict_entry entry = {.type = type, .n_dims = dim1 ? 2 : 1, .dims = {dim0, dim1}, .data = data};
    RK_TRY(rk_strdup(name, &entry.name));
    rk_status status = rk_name_map_add(&state->names, entry.name, (int64_t)state->n);
    if (status != RK_OK) {
        rk_free(entry.name);
        return status;
    }
    state->entries[state->n++] = entry;
    return RK_OK;
}

const rk_state_dict_entry *rk_state_dict_find(const rk_state_dict *state, const char *name) {
    int64_t found = rk_name_map_find(&state->names, name);
    return found < 0 ? NULL : &state->entries[found];
}

void rk_state_dict_release(rk_state_dict *state) {
    for (size_t i = 0; i < state->n; i++) rk_free(state->entries[i].name);
    rk_free(state->entries);
    rk_name_map_release(&state->names);
    *state = (rk_state_dict){0};
}
