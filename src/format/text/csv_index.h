/* Where separated values may end: the first pass over a piece of text, in three instruction sets that give
 * the same. */
#ifndef RK_FORMAT_TEXT_CSV_INDEX_H
#define RK_FORMAT_TEXT_CSV_INDEX_H

#include <stddef.h>
#include <stdint.h>

/* The places of all separators, quotes, line ends and NULs, in order, into out [n_bytes + RK_CSV_INDEX_ROOM];
 * returns how many. n_bytes <= 2^31.
 *   for (i = 0; i < n_bytes; i++) if (data[i] is any of them) out[n++] = i; */
enum { RK_CSV_INDEX_ROOM = 64 };
size_t rk_csv_find_separators(const char *data, size_t n_bytes, char separator, char quote, uint32_t *out);

size_t rk_csv_find_separators_scalar(const char *data, size_t n_bytes, char separator, char quote,
                                     uint32_t *out);
size_t rk_csv_find_separators_avx2(const char *data, size_t n_bytes, char separator, char quote,
                                   uint32_t *out);
size_t rk_csv_find_separators_avx512(const char *data, size_t n_bytes, char separator, char quote,
                                     uint32_t *out);

#endif
