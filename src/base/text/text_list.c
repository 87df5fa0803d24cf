#include "base/text/text_list.h"

#include <stdlib.h>

#include "base/memory.h"

rk_status rk_text_list_add_span(rk_text_list *list, rk_span text) {
    RK_TRY(rk_reserve_one_more(&list->texts, list->n, &list->capacity, sizeof *list->texts));
    RK_TRY(rk_strndup(text.data, text.n_bytes, &list->texts[list->n]));
    list->n++;
    return RK_OK;
}

rk_status rk_text_list_add(rk_text_list *list, const char *text) {
    return rk_text_list_add_span(list, (rk_span){text, strlen(text)});
}

void rk_text_list_release(rk_text_list *list) {
    for (size_t i = 0; i < list->n; i++) rk_free(list->texts[i]);
    rk_free(list->texts);
    *list = (rk_text_list){0};
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void rk_text_list_sort(rk_text_list *list) {
    if (list->n) qsort(list->texts, list->n, sizeof *list->texts, compare_texts);
}
