#include "base/text/find_text.h"

#include <string.h>

int64_t rk_position_by_text(const void *structs, size_t bytes, size_t offset, size_t n, const char *text) {
    for (size_t i = 0; i < n; i++) {
        const char *found;
        memcpy(&found, (const char *)structs + i * bytes + offset, sizeof found);
        if (found && strcmp(found, text) == 0) return (int64_t)i;
    }
    return -1;
}

const void *rk_find_by_text(const void *structs, size_t bytes, size_t offset, size_t n, const char *text) {
    int64_t i = rk_position_by_text(structs, bytes, offset, n, text);
    return i < 0 ? NULL : (const char *)structs + (size_t)i * bytes;
}
