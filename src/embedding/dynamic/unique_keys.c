#include "embedding/dynamic/unique_keys.h"

#include <string.h>

#include "base/memory.h"

enum { LEAST_BITS = 4 };

rk_status rk_key_list_add(rk_key_list *list, const int64_t *keys, size_t n) {
    RK_TRY(rk_reserve(&list->keys, &list->capacity, list->n + n, sizeof *list->keys));
    if (n) memcpy(list->keys + list->n, keys, n * sizeof *keys);
    list->n += n;
    return RK_OK;
}

void rk_key_list_release(rk_key_list *list) {
    rk_free(list->keys);
    *list = (rk_key_list){0};
}

void rk_unique_keys_release(rk_unique_keys *b) {
    RK_FREE_ALL(b->keys, b->uses, b->begins, b->places);
    *b = (rk_unique_keys){0};
}

/* At most half of the places are taken. */
static rk_status reserve_arrays(rk_unique_keys *b, size_t n_uses, size_t n_features) {
    b->bits = LEAST_BITS;
    while ((size_t)1 << b->bits < 2 * n_uses) b->bits++;
    RK_TRY(rk_reserve(&b->places, &b->places_capacity, (size_t)1 << b->bits, sizeof *b->places));
    memset(b->places, 0, sizeof *b->places << b->bits);
    RK_TRY(rk_reserve(&b->keys, &b->keys_capacity, n_uses, sizeof *b->keys));
    RK_TRY(rk_reserve(&b->uses, &b->uses_capacity, n_uses, sizeof *b->uses));
    return rk_reserve(&b->begins, &b->begins_capacity, n_features + 1, sizeof *b->begins);
}

static int64_t find_or_add_key(rk_unique_keys *b, int64_t key) {
    uint64_t mask = ((uint64_t)1 << b->bits) - 1, at = rk_key_hash(key) & mask;
    while (b->places[at] && b->keys[b->places[at] - 1] != key) at = (at + 1) & mask;
    if (!b->places[at]) {
        b->keys[b->n] = key;
        b->uses[b->n] = 0;
        b->places[at] = (uint32_t)++b->n;
    }
    return b->places[at] - 1;
}

rk_status rk_unique_keys_find(rk_unique_keys *b, const rk_key_uses *features, int32_t n_features) {
    int64_t n = 0;
    for (int32_t f = 0; f < n_features; f++) n += features[f].n;
    RK_FAIL_IF(n > INT32_MAX, RK_INVALID_ARGUMENT, "2^31 keys or more in one batch");
    RK_TRY(reserve_arrays(b, (size_t)n, (size_t)n_features));
    b->n = 0;
    for (int32_t f = 0; f < n_features; f++) {
        b->begins[f] = b->n;
        for (int64_t i = 0; i < features[f].n; i++) {
            int64_t number = find_or_add_key(b, features[f].keys[i]);
            b->uses[number]++;
            features[f].rows[i] = number;
        }
    }
    b->begins[n_features] = b->n;
    return RK_OK;
}
