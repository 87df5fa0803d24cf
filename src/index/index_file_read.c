#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "index/index_file.h"
#include "index/index_internal.h"

/* The bytes of FAISS's part that were not read yet. The first failure sticks: what is read then is 0. */
typedef struct reading {
    const char *name;
    const uint8_t *data;
    uint64_t at, n_bytes;
    rk_status status;
} reading;

static void damaged_error_at(reading *r, uint64_t at, const char *what) {
    if (r->status == RK_OK)
        r->status =
            rk_error(RK_BAD_DATA, "'%s' is damaged at byte %llu: %s", r->name, (unsigned long long)at, what);
}

/* n elements of `bytes` each; NULL: there are not so many. */
static const uint8_t *take_next_elements(reading *r, uint64_t n, uint64_t bytes, const char *what) {
    if (r->status != RK_OK) return NULL;
    if (n > (r->n_bytes - r->at) / bytes) {
        damaged_error_at(r, r->at, what);
        return NULL;
    }
    const uint8_t *found = r->data + r->at;
    r->at += n * bytes;
    return found;
}

static uint64_t read_number(reading *r, int bytes, const char *what) {
    const uint8_t *found = take_next_elements(r, 1, (uint64_t)bytes, what);
    uint64_t value = 0;
    for (int b = 0; found && b < bytes; b++) value |= (uint64_t)found[b] << (8 * b);
    return value;
}

static void read_expected_number(reading *r, uint64_t wanted, int bytes, const char *what) {
    uint64_t at = r->at;
    if (read_number(r, bytes, what) != wanted) damaged_error_at(r, at, what);
}

static uint32_t peek_index_kind(const reading *r) {
    reading ahead = *r;
    return (uint32_t)read_number(&ahead, 4, "");
}

/* A header but for its kind, which was looked at. dim: 0 where it is not known yet. */
static void read_header(reading *r, uint32_t kind, int32_t *dim, int64_t *n) {
    read_expected_number(r, kind, 4, "another kind of index");
    uint64_t at = r->at, d = read_number(r, 4, "a dimension"),
             rows = read_number(r, 8, "a number of vectors");
    if (d < 1 || d > RK_INDEX_MAX_DIM || (*dim && d != (uint64_t)*dim))
        damaged_error_at(r, at, "a dimension that cannot be");
    if (rows > UINT32_MAX || (*n >= 0 && rows != (uint64_t)*n))
        damaged_error_at(r, at, "a number of vectors that cannot be");
    read_expected_number(r, RK_FAISS_DUMMY, 8, "the header");
    read_expected_number(r, RK_FAISS_DUMMY, 8, "the header");
    read_expected_number(r, 1, 1, "an index that is not trained");
    read_expected_number(r, RK_FAISS_INNER_PRODUCT, 4, "another metric than inner products");
    *dim = (int32_t)d;
    *n = (int64_t)rows;
}

static const rk_loose_f32 *read_flat_vectors(reading *r, int32_t dim, int64_t n) {
    read_header(r, RK_FAISS_FLAT, &dim, &n);
    read_expected_number(r, (uint64_t)n * (uint64_t)dim, 8, "the number of values");
    return (const rk_loose_f32 *)take_next_elements(r, (uint64_t)n, (uint64_t)dim * sizeof(float), "vectors");
}

/* Codes read 2 dim floats, which are finite and not below 0 where they are widths. */
static rk_status read_quantizer(reading *r, int32_t dim, rk_index_base *base) {
    read_expected_number(r, RK_FAISS_8_BITS, 4, "codes of another kind");
    read_expected_number(r, 0, 4, "ranges of another kind");
    read_expected_number(r, 0, 4, "ranges of another kind");
    read_expected_number(r, (uint64_t)dim, 8, "the dimension of codes");
    read_expected_number(r, (uint64_t)dim, 8, "the bytes of a code");
    read_expected_number(r, 2 * (uint64_t)dim, 8, "the number of ranges");
    uint64_t at = r->at;
    const uint8_t *ranges = take_next_elements(r, 2 * (uint64_t)dim, sizeof(float), "ranges");
    RK_TRY(r->status);
    RK_TRY(rk_alloc((size_t)dim, sizeof *base->low, &base->low));
    RK_TRY(rk_alloc((size_t)dim, sizeof *base->width, &base->width));
    memcpy(base->low, ranges, (size_t)dim * sizeof *base->low);
    memcpy(base->width, ranges + (size_t)dim * sizeof *base->low, (size_t)dim * sizeof *base->width);
    for (int32_t d = 0; d < dim; d++)
        if (!(fabsf(base->low[d]) < 1e20f && base->width[d] >= 0 && base->width[d] < 1e20f))
            damaged_error_at(r, at, "a range that cannot be");
    return r->status;
}

static rk_status read_inverted_lists(reading *r, int32_t dim, rk_index_base *base) {
    enum { POSITION_BYTES = 8 };
    read_expected_number(r, RK_FAISS_LISTS, 4, "lists of another kind");
    read_expected_number(r, (uint64_t)base->n_lists, 8, "the number of lists");
    read_expected_number(r, (uint64_t)dim, 8, "the bytes of a code");
    read_expected_number(r, RK_FAISS_ALL_SIZE, 4, "lists of another kind");
    read_expected_number(r, (uint64_t)base->n_lists, 8, "the number of sizes");
    uint64_t at = r->at;
    reading sizes = *r;
    take_next_elements(r, (uint64_t)base->n_lists, 8, "the sizes of lists");
    RK_TRY(r->status);
    RK_TRY(rk_alloc((size_t)base->n_lists + 1, sizeof *base->offsets, &base->offsets));
    for (int64_t l = 0; l < base->n_lists && r->status == RK_OK; l++) {
        uint64_t n = read_number(&sizes, 8, "");
        if (n > (uint64_t)(base->n - base->offsets[l]))
            damaged_error_at(r, at, "lists of more vectors than there are");
        base->offsets[l + 1] = base->offsets[l] + (int64_t)n;
    }
    RK_TRY(r->status);
    if (base->offsets[base->n_lists] != base->n)
        damaged_error_at(r, at, "lists of fewer vectors than there are");
    base->codes = take_next_elements(r, (uint64_t)base->n, (uint64_t)dim + POSITION_BYTES, "lists");
    base->code_stride = dim + POSITION_BYTES;
    return r->status;
}

static rk_status read_index_of_ivf_kind(reading *r, int32_t dim, rk_index *x) {
    read_header(r, RK_FAISS_IVF, &dim, &x->base.n);
    uint64_t at = r->at, n_lists = read_number(r, 8, "a number of lists"),
             n_probe = read_number(r, 8, "a number of lists to look at");
    if (n_lists < 1 || n_lists > UINT32_MAX || n_probe < 1 || n_probe > n_lists)
        damaged_error_at(r, at, "a number of lists that cannot be");
    x->kind = RK_INDEX_IVF;
    x->base.n_lists = (int64_t)n_lists;
    x->n_probe = (int64_t)n_probe;
    x->base.centroids = read_flat_vectors(r, dim, (int64_t)n_lists);
    read_expected_number(r, 0, 1, "a map from ids to lists");
    read_expected_number(r, 0, 8, "a map from ids to lists");
    RK_TRY(read_quantizer(r, dim, &x->base));
    read_expected_number(r, (uint64_t)dim, 8, "the bytes of a code");
    read_expected_number(r, 0, 1, "codes of residuals");
    return read_inverted_lists(r, dim, &x->base);
}

static rk_status read_index_of_exact_kind(reading *r, int32_t dim, bool with_codes, rk_index *x) {
    x->kind = RK_INDEX_EXACT;
    x->n_probe = x->base.n_lists = 1;
    RK_TRY(rk_alloc(2, sizeof *x->base.offsets, &x->base.offsets));
    x->base.offsets[1] = x->base.n;
    if (!with_codes) return r->status;
    read_header(r, RK_FAISS_CODES, &dim, &x->base.n);
    RK_TRY(read_quantizer(r, dim, &x->base));
    read_expected_number(r, (uint64_t)x->base.n * (uint64_t)dim, 8, "the bytes of codes");
    x->base.codes = take_next_elements(r, (uint64_t)x->base.n, (uint64_t)dim, "codes");
    x->base.code_stride = dim;
    return r->status;
}

static rk_status read_index(reading *r, rk_index *x) {
    int64_t *n = &x->base.n;
    *n = -1;
    read_header(r, RK_FAISS_ID_MAP, &x->dim, n);
    bool with_codes = peek_index_kind(r) == RK_FAISS_REFINE;
    x->codes = with_codes ? RK_INDEX_INT8 : RK_INDEX_F32;
    if (with_codes) read_header(r, RK_FAISS_REFINE, &x->dim, n);
    RK_TRY(r->status);
    RK_TRY(peek_index_kind(r) == RK_FAISS_IVF ? read_index_of_ivf_kind(r, x->dim, x)
                                              : read_index_of_exact_kind(r, x->dim, with_codes, x));
    x->base.vectors = read_flat_vectors(r, x->dim, *n);
    if (with_codes) take_next_elements(r, 1, sizeof(float), "the factor of k");
    read_expected_number(r, (uint64_t)*n, 8, "the number of ids");
    x->base.ids = (const rk_loose_i64 *)take_next_elements(r, (uint64_t)*n, sizeof(int64_t), "ids");
    if (r->at != r->n_bytes) damaged_error_at(r, r->at, "more than an index");
    return r->status;
}

static double read_f64(reading *r) {
    uint64_t bits = read_number(r, 8, "");
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static rk_status read_index_and_tail(const char *name, const rk_mapped_file *map, bool verify, rk_index *x,
                                     uint64_t *n_bytes) {
    RK_FAIL_IF(
        map->n_bytes < RK_INDEX_TAIL_BYTES || memcmp(map->data + map->n_bytes - 8, RK_INDEX_MAGIC, 8) != 0,
        RK_BAD_DATA, "'%s' is not an index that Reckon wrote, or only a part of one", name);
    reading r = {name, map->data + map->n_bytes - RK_INDEX_TAIL_BYTES, 0, RK_INDEX_TAIL_BYTES, RK_OK};
    uint32_t wanted = rk_crc32c(0, r.data, RK_INDEX_VALUES_BYTES);
    *n_bytes = read_number(&r, 8, "");
    uint32_t crc = (uint32_t)read_number(&r, 4, ""), version = (uint32_t)read_number(&r, 4, "");
    x->seed = read_number(&r, 8, "");
    x->asked_recall = read_f64(&r);
    x->recall = read_f64(&r);
    x->queries_per_second = read_f64(&r);
    x->tuned_k = (int64_t)read_number(&r, 8, "");
    x->tuned_queries = (int64_t)read_number(&r, 8, "");
    RK_FAIL_IF((uint32_t)read_number(&r, 4, "") != wanted || *n_bytes != map->n_bytes - RK_INDEX_TAIL_BYTES,
               RK_BAD_DATA, "'%s' is damaged at its end", name);
    RK_FAIL_IF(version != RK_INDEX_VERSION, RK_UNSUPPORTED,
               "'%s' has version %u of the format; this library "
               "reads %d",
               name, version, RK_INDEX_VERSION);
    RK_FAIL_IF(verify && rk_crc32c(0, map->data, *n_bytes) != crc, RK_BAD_DATA,
               "'%s' is damaged: its checksum is not that of its bytes", name);
    return RK_OK;
}

rk_status rk_index_file_parse(const char *name, const rk_mapped_file *map, bool verify, rk_index **out) {
    rk_index *x;
    rk_status status;
    reading r = {.name = name, .data = map->data};
    RK_TRY(rk_alloc(1, sizeof *x, &x));
    RK_GOTO(read_index_and_tail(name, map, verify, x, &r.n_bytes));
    RK_GOTO(read_index(&r, x));
    x->base.map = *map;
    *out = x;
    return RK_OK;
done:
    rk_index_free(x);
    return status;
}

rk_status rk_index_open(const char *path, const rk_index_open_options *options, rk_index **out) {
    rk_index_open_options o = RK_INDEX_OPEN_OPTIONS_INIT;
    rk_mapped_file map;
    RK_TRY(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_index_open_options, pool),
                              "rk_index_open_options"));
    RK_TRY(rk_mapped_file_open(path, &map));
    rk_index *x;
    rk_status status = rk_index_file_parse(path, &map, o.verify, &x);
    if (status != RK_OK) {
        rk_mapped_file_release(&map);
        return status;
    }
    x->pool = o.pool;
    *out = x;
    return RK_OK;
}
