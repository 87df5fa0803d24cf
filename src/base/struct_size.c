#include "base/struct_size.h"

#include <stdbool.h>
#include <string.h>

#include <reckon/version.h>

enum { MAX_BYTES = 4096 }; /* of any struct; more is no size, but what was in memory before */

static size_t read_struct_size(const void *options) {
    size_t size;
    memcpy(&size, options, sizeof size);
    return size;
}

static rk_status check_struct_size(size_t size, size_t min_size, const char *name) {
    if (size >= min_size && size <= MAX_BYTES) return RK_OK;
    return rk_error_hint(rk_error(RK_INVALID_ARGUMENT, "'struct_size' of %s is %zu; it must be at least %zu",
                                  name, size, min_size),
                         "set it to sizeof(%s)", name);
}

rk_status rk_options_check(const void *options, size_t min_size, const char *name) {
    return check_struct_size(read_struct_size(options), min_size, name);
}

static bool is_all_zero(const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return false;
    return true;
}

rk_status rk_options_copy_in(void *dst, size_t dst_size, const void *src, size_t min_size, const char *name) {
    if (src) {
        size_t size = read_struct_size(src);
        RK_TRY(check_struct_size(size, min_size, name));
        if (size > dst_size && !is_all_zero((const char *)src + dst_size, size - dst_size))
            return rk_error_hint(
                rk_error(RK_INVALID_ARGUMENT,
                         "%s has fields that this library, of version %s, does not know, and "
                         "they are set",
                         name, rk_version()),
                "leave fields that are newer than the library at 0, or use a newer library");
        memcpy(dst, src, size < dst_size ? size : dst_size);
    }
    memcpy(dst, &dst_size, sizeof dst_size);
    return RK_OK;
}

rk_status rk_options_copy_out(void *dst, size_t dst_size, const void *src, size_t src_size, size_t min_size,
                              const char *name) {
    RK_TRY(check_struct_size(dst_size, min_size, name));
    size_t common = dst_size < src_size ? dst_size : src_size;
    memcpy(dst, src, common);
    memset((char *)dst + common, 0, dst_size - common);
    memcpy(dst, &dst_size, sizeof dst_size);
    return RK_OK;
}

rk_status rk_options_copy_in_array(void *dst, size_t dst_size, const void *src, size_t n, size_t min_size,
                                   const char *name) {
    size_t stride = n ? read_struct_size(src) : 0;
    for (size_t i = 0; i < n; i++) {
        const char *one = (const char *)src + i * stride;
        RK_TRY(check_struct_size(stride, min_size, name));
        if (read_struct_size(one) != stride)
            return rk_error_hint(
                rk_error(RK_INVALID_ARGUMENT,
                         "'struct_size' of %s %zu of an array is %zu, and of the first one %zu", name, i,
                         read_struct_size(one), stride),
                "set each to sizeof(%s)", name);
        RK_TRY(rk_options_copy_in((char *)dst + i * dst_size, dst_size, one, min_size, name));
    }
    return RK_OK;
}
