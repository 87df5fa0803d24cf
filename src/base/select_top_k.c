#include "base/select_top_k.h"

/* Quickselect; the middle one is the pivot. Nothing in the loop depends on how a comparison ends but where
 * the next one is put, so that processors need not guess it. */
void rk_select_top_k(uint64_t *values, size_t n, size_t k) {
    size_t first = 0, end = n;
    while (end - first > 1) {
        size_t middle = first + (end - first) / 2, larger = first;
        uint64_t pivot = values[middle];
        values[middle] = values[first];
        values[first] = pivot;
        for (size_t i = first + 1; i < end; i++) {
            uint64_t value = values[i];
            values[i] = values[larger + 1];
            values[larger + 1] = value;
            larger += value > pivot;
        }
        values[first] = values[larger];
        values[larger] = pivot;
        if (larger == k - 1) return;
        if (larger > k - 1)
            end = larger;
        else
            first = larger + 1;
    }
}
