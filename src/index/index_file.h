/* An index as a file: what FAISS writes for such an index, and behind it what FAISS does not know.
 * docs/formats/index.md */
#ifndef RK_INDEX_INDEX_FILE_H
#define RK_INDEX_INDEX_FILE_H

#include <stdint.h>

#define RK_FOURCC(a, b, c, d) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)
#define RK_FAISS_ID_MAP       RK_FOURCC('I', 'x', 'M', '2')
#define RK_FAISS_REFINE       RK_FOURCC('I', 'x', 'R', 'F')
#define RK_FAISS_FLAT         RK_FOURCC('I', 'x', 'F', 'I')
#define RK_FAISS_CODES        RK_FOURCC('I', 'x', 'S', 'Q')
#define RK_FAISS_IVF          RK_FOURCC('I', 'w', 'S', 'q')
#define RK_FAISS_LISTS        RK_FOURCC('i', 'l', 'a', 'r')
#define RK_FAISS_ALL_SIZE     RK_FOURCC('f', 'u', 'l', 'l')

enum {
    RK_FAISS_INNER_PRODUCT = 0,
    RK_FAISS_8_BITS = 0,
    RK_FAISS_DUMMY = 1 << 20, /* stands twice in each header */
    RK_FAISS_K_FACTOR = 2     /* by FAISS, so many times k are scored in f32 */
};

/* The last bytes of the file: 64 of values, their crc32c, the magic. */
enum { RK_INDEX_VALUES_BYTES = 64, RK_INDEX_TAIL_BYTES = RK_INDEX_VALUES_BYTES + 12, RK_INDEX_VERSION = 1 };
#define RK_INDEX_MAGIC "RKINDEX\n"

#endif
