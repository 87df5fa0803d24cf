#include "base/text/name_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static int compare_names(const void *a, const void *b) {
    return strcmp(((const rk_named *)a)->name, ((const rk_named *)b)->name);
}

static int compare_names_and_numbers(const void *a, const void *b) {
    int order = compare_names(a, b);
    int32_t x = ((const rk_named *)a)->number, y = ((const rk_named *)b)->number;
    return order ? order : (x > y) - (x < y);
}

rk_status rk_name_index_init(rk_name_index *index, const void *array, size_t bytes, size_t offset,
                             int32_t n) {
    rk_named *sorted;
    RK_TRY(rk_alloc((size_t)n, sizeof *sorted, &sorted));
    int32_t n_named = 0;
    for (int32_t i = 0; i < n; i++) {
        sorted[n_named].number = i;
        memcpy(&sorted[n_named].name, (const char *)array + (size_t)i * bytes + offset, sizeof sorted->name);
        n_named += sorted[n_named].name != NULL;
    }
    qsort(sorted, (size_t)n_named, sizeof *sorted, compare_names_and_numbers);
    *index = (rk_name_index){sorted, n_named};
    return RK_OK;
}

void rk_name_index_release(rk_name_index *index) {
    rk_free(index->sorted);
    *index = (rk_name_index){0};
}

int32_t rk_name_index_find(const rk_name_index *index, const char *name) {
    rk_named key = {name, 0};
    const rk_named *found =
        index->n ? bsearch(&key, index->sorted, (size_t)index->n, sizeof key, compare_names) : NULL;
    while (found && found > index->sorted && compare_names(found - 1, &key) == 0) found--;
    return found ? found->number : -1;
}

int32_t rk_name_index_find_duplicate(const rk_name_index *index) {
    int32_t twin = -1;
    for (int32_t i = 1; i < index->n; i++)
        if (compare_names(&index->sorted[i - 1], &index->sorted[i]) == 0 &&
            (twin < 0 || index->sorted[i].number < twin))
            twin = index->sorted[i].number;
    return twin;
}
