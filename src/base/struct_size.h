/* Public structs that grow: `size_t struct_size` is their first field, so that a program that was compiled
 * with other headers than the library's is understood. A field is added at the end, where 0 means what the
 * library did before, and never in the padding behind the last one. */
#ifndef RK_BASE_STRUCT_SIZE_H
#define RK_BASE_STRUCT_SIZE_H

#include <stddef.h>

#include "base/error.h"

/* Whether the caller's struct has a size of its type. */
rk_status rk_options_check(const void *options, size_t min_size, const char *name);

/* Copy what the caller's struct `src` has of the library's `dst`, of dst_size bytes, into which the defaults
 * of all fields were put before; NULL leaves those. dst's struct_size becomes dst_size. RK_INVALID_ARGUMENT,
 * naming the struct: a size below min_size, that of the first release, or above dst_size where what is beyond
 * it is not all zero: it asks for something that this library does not know. */
rk_status rk_options_copy_in(void *dst, size_t dst_size, const void *src, size_t min_size, const char *name);

/* The other way, for structs that the library fills in: as much of `src`, of src_size bytes, as the caller's
 * `dst`, of dst_size bytes, has room for; what it has beyond that becomes 0. dst's struct_size becomes
 * dst_size. */
rk_status rk_options_copy_out(void *dst, size_t dst_size, const void *src, size_t src_size, size_t min_size,
                              const char *name);

/* The same of n structs, each struct_size of the first one behind the one before. dst [n], src [n]. */
rk_status rk_options_copy_in_array(void *dst, size_t dst_size, const void *src, size_t n, size_t min_size,
                                   const char *name);

/* Bytes of a struct up to and with a field: the last one that its first release had. */
#define RK_SIZE_WITH(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

#endif
