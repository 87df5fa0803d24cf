/* Which of a list has this name: the list is looked through from its front. For long lists there are
 * rk_name_index and rk_name_map. */
#ifndef RK_BASE_TEXT_FIND_TEXT_H
#define RK_BASE_TEXT_FIND_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first of list[n], structs whose `member` is a `const char *` or `char *`, that has `text` there (NULL
 * is no text): its number, -1 if there is none, or a pointer to it, NULL if there is none. */
#define RK_POSITION_BY(member, text, list, n) \
    rk_position_by_text((list), sizeof *(list), offsetof(__typeof__(*(list)), member), (size_t)(n), (text))
#define RK_FIND_BY(member, text, list, n)                                                                   \
    ((__typeof__(&(list)[0]))rk_find_by_text((list), sizeof *(list), offsetof(__typeof__(*(list)), member), \
                                             (size_t)(n), (text)))

int64_t rk_position_by_text(const void *structs, size_t bytes, size_t offset, size_t n, const char *text);
const void *rk_find_by_text(const void *structs, size_t bytes, size_t offset, size_t n, const char *text);

/* The same of `texts`, [n] of `const char *` or `char *`. */
static inline int64_t rk_text_position(const char *text, const void *texts, size_t n) {
    return rk_position_by_text(texts, sizeof(char *), 0, n, text);
}
static inline bool rk_text_is_one_of(const char *text, const void *texts, size_t n) {
    return rk_text_position(text, texts, n) >= 0;
}

#endif
