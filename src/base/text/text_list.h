/* Texts, each the list's own. Zero-initialize. */
#ifndef RK_BASE_TEXT_TEXT_LIST_H
#define RK_BASE_TEXT_TEXT_LIST_H

#include "base/text/text.h"

typedef struct rk_text_list {
    char **texts; /* [n] */
    size_t n, capacity;
} rk_text_list;

rk_status rk_text_list_add(rk_text_list *list, const char *text); /* a copy */
rk_status rk_text_list_add_span(rk_text_list *list, rk_span text);
void rk_text_list_sort(rk_text_list *list); /* by their bytes, whatever the locale */
void rk_text_list_release(rk_text_list *list);

#endif
