#include <string.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "index/index_file.h"
#include "index/index_internal.h"

typedef struct writing {
    const rk_index *index;
    const rk_index_base *base;
    rk_buffer head; /* what comes next and is small */
    rk_writer file;
} writing;

static void write_f64(rk_buffer *to, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    rk_buffer_append_u64le(to, bits);
}

static void write_f32(rk_buffer *to, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    rk_buffer_append_u32le(to, bits);
}

static void write_header(writing *w, uint32_t kind, int64_t n) {
    rk_buffer_append_u32le(&w->head, kind);
    rk_buffer_append_u32le(&w->head, (uint32_t)w->index->dim);
    rk_buffer_append_u64le(&w->head, (uint64_t)n);
    rk_buffer_append_u64le(&w->head, RK_FAISS_DUMMY);
    rk_buffer_append_u64le(&w->head, RK_FAISS_DUMMY);
    rk_buffer_append_u8(&w->head, 1); /* trained */
    rk_buffer_append_u32le(&w->head, RK_FAISS_INNER_PRODUCT);
}

/* Write what is in the head, then n bytes. */
static rk_status flush_head_and_write_bytes(writing *w, const void *data, size_t n_bytes) {
    RK_TRY(w->head.status);
    RK_TRY(rk_writer_append(&w->file, w->head.data, w->head.n_bytes));
    rk_buffer_clear(&w->head);
    return rk_writer_append(&w->file, data, n_bytes);
}

static rk_status write_flat_vectors(writing *w, const rk_loose_f32 *vectors, int64_t n) {
    write_header(w, RK_FAISS_FLAT, n);
    rk_buffer_append_u64le(&w->head, (uint64_t)n * (uint64_t)w->index->dim);
    return flush_head_and_write_bytes(w, vectors, (size_t)n * (size_t)w->index->dim * sizeof(float));
}

static void write_quantizer(writing *w) {
    int32_t dim = w->index->dim;
    rk_buffer_append_u32le(&w->head, RK_FAISS_8_BITS);
    rk_buffer_append_u32le(&w->head, 0); /* from the least to the largest value */
    write_f32(&w->head, 0);
    rk_buffer_append_u64le(&w->head, (uint64_t)dim);
    rk_buffer_append_u64le(&w->head, (uint64_t)dim); /* bytes of a code */
    rk_buffer_append_u64le(&w->head, 2 * (uint64_t)dim);
    for (int32_t d = 0; d < dim; d++) write_f32(&w->head, w->base->low[d]);
    for (int32_t d = 0; d < dim; d++) write_f32(&w->head, w->base->width[d]);
}

/* Of a list, its codes and then its positions. */
static rk_status write_inverted_lists(writing *w) {
    enum { AT_ONCE = 4096 };
    const rk_index_base *b = w->base;
    rk_buffer_append_u32le(&w->head, RK_FAISS_LISTS);
    rk_buffer_append_u64le(&w->head, (uint64_t)b->n_lists);
    rk_buffer_append_u64le(&w->head, (uint64_t)w->index->dim);
    rk_buffer_append_u32le(&w->head, RK_FAISS_ALL_SIZE);
    rk_buffer_append_u64le(&w->head, (uint64_t)b->n_lists);
    for (int64_t l = 0; l < b->n_lists; l++)
        rk_buffer_append_u64le(&w->head, (uint64_t)(b->offsets[l + 1] - b->offsets[l]));
    for (int64_t l = 0; l < b->n_lists; l++) {
        int64_t n = b->offsets[l + 1] - b->offsets[l];
        RK_TRY(flush_head_and_write_bytes(w, b->codes + b->offsets[l] * b->code_stride,
                                          (size_t)(n * w->index->dim)));
        for (int64_t p = b->offsets[l]; p < b->offsets[l + 1]; p++) {
            rk_buffer_append_u64le(&w->head, (uint64_t)p);
            if (w->head.n_bytes > AT_ONCE) RK_TRY(flush_head_and_write_bytes(w, NULL, 0));
        }
    }
    return RK_OK;
}

static rk_status write_ivf_index(writing *w) {
    write_header(w, RK_FAISS_IVF, w->base->n);
    rk_buffer_append_u64le(&w->head, (uint64_t)w->base->n_lists);
    rk_buffer_append_u64le(&w->head, (uint64_t)w->index->n_probe);
    RK_TRY(write_flat_vectors(w, w->base->centroids, w->base->n_lists));
    rk_buffer_append_u8(&w->head, 0); /* no map from ids to lists */
    rk_buffer_append_u64le(&w->head, 0);
    write_quantizer(w);
    rk_buffer_append_u64le(&w->head, (uint64_t)w->index->dim);
    rk_buffer_append_u8(&w->head, 0); /* codes are of vectors, not of what is left without their centroid */
    return write_inverted_lists(w);
}

static rk_status write_codes(writing *w) {
    size_t n_bytes = (size_t)w->base->n * (size_t)w->index->dim;
    if (w->index->kind == RK_INDEX_IVF) return write_ivf_index(w);
    write_header(w, RK_FAISS_CODES, w->base->n);
    write_quantizer(w);
    rk_buffer_append_u64le(&w->head, n_bytes);
    return flush_head_and_write_bytes(w, w->base->codes, n_bytes);
}

static rk_status write_index(writing *w) {
    int64_t n = w->base->n;
    write_header(w, RK_FAISS_ID_MAP, n);
    if (w->base->codes) {
        write_header(w, RK_FAISS_REFINE, n);
        RK_TRY(write_codes(w));
    }
    RK_TRY(write_flat_vectors(w, w->base->vectors, n));
    if (w->base->codes) write_f32(&w->head, RK_FAISS_K_FACTOR);
    rk_buffer_append_u64le(&w->head, (uint64_t)n);
    return flush_head_and_write_bytes(w, w->base->ids, (size_t)n * sizeof(int64_t));
}

static rk_status write_tail(writing *w) {
    const rk_index *x = w->index;
    rk_buffer_append_u64le(&w->head, w->file.n_bytes);
    rk_buffer_append_u32le(&w->head, w->file.crc32c);
    rk_buffer_append_u32le(&w->head, RK_INDEX_VERSION);
    rk_buffer_append_u64le(&w->head, x->seed);
    write_f64(&w->head, x->asked_recall);
    write_f64(&w->head, x->recall);
    write_f64(&w->head, x->queries_per_second);
    rk_buffer_append_u64le(&w->head, (uint64_t)x->tuned_k);
    rk_buffer_append_u64le(&w->head, (uint64_t)x->tuned_queries);
    RK_TRY(w->head.status);
    rk_buffer_append_u32le(&w->head, rk_crc32c(0, w->head.data, w->head.n_bytes));
    return flush_head_and_write_bytes(w, RK_INDEX_MAGIC, sizeof RK_INDEX_MAGIC - 1);
}

rk_status rk_index_file_write(const rk_index *x, const rk_index_base *base, const char *path) {
    writing w = {.index = x, .base = base};
    rk_status status;
    RK_TRY(rk_writer_open(path, &w.file));
    RK_GOTO(write_index(&w));
    RK_GOTO(write_tail(&w));
    status = rk_writer_commit(&w.file);
done:
    rk_buffer_release(&w.head);
    rk_writer_release(&w.file);
    return status;
}
