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

static void fail_at(reading *r, uint64_t at, const char *what) {
    if (r->status == RK_OK)
        r->status =
            rk_error(RK_BAD_DATA, "'%s' is damaged at byte %llu: %s", r->name, (unsigned long long)at, what);
}

/* n elements of `bytes` each; NULL: there are not so many. */
static const uint8_t *take(reading *r, uint64_t n, uint64_t bytes, const char *what) {
    if (r->status != RK_OK) return NULL;
    if (n > (r->n_bytes - r->at) / bytes) {
        fail_at(r, r->at, what);
        return NULL;
    }
    const uint8_t *found = r->data + r->at;
    r->at += n * bytes;
    return found;
}

static uint64_t take_number(reading *r, int bytes, const char *what) {
    const uint8_t *found = take(r, 1, (uint64_t)bytes, what);
    uint64_t value = 0;
    for (int b = 0; found && b < bytes; b++) value |= (uint64_t)found[b] << (8 * b);
    return value;
}

static void expect(reading *r, uint64_t wanted, int bytes, const char *what) {
    uint64_t at = r->at;
    if (take_number(r, bytes, what) != wanted) fail_at(r, at, what);
}

static uint32_t peek_kind(const reading *r) {
    reading ahead = *r;
    return (uint32_t)take_number(&ahead, 4, "");
}

/* A header but for its kind, which was looked at. dim: 0 where it is not known yet. */
static void take_header(reading *r, uint32_t kind, int32_t *dim, int64_t *n) {
    expect(r, kind, 4, "another kind of index");
    uint64_t at = r->at, d = take_number(r, 4, "a dimension"),
             rows = take_number(r, 8, "a number of vectors");
    if (d < 1 || d > RK_INDEX_MAX_DIM || (*dim && d != (uint64_t)*dim))
        fail_at(r, at, "a dimension that cannot be");
    if (rows > UINT32_MAX || (*n >= 0 && rows != (uint64_t)*n))
        fail_at(r, at, "a number of vectors that cannot be");
    expect(r, RK_FAISS_DUMMY, 8, "the header");
    expect(r, RK_FAISS_DUMMY, 8, "the header");
    expect(r, 1, 1, "an index that is not trained");
    expect(r, RK_FAISS_INNER_PRODUCT, 4, "another metric than inner products");
    *dim = (int32_t)d;
    *n = (int64_t)rows;
}

static const rk_loose_f32 *take_flat(reading *r, int32_t dim, int64_t n) {
    take_header(r, RK_FAISS_FLAT, &dim, &n);
    expect(r, (uint64_t)n * (uint64_t)dim, 8, "the number of values");
    return (const rk_loose_f32 *)take(r, (uint64_t)n, (uint64_t)dim * sizeof(float), "vectors");
}

/* Codes read 2 dim floats, which are finite and not below 0 where they are widths. */
static rk_status take_quantizer(reading *r, int32_t dim, rk_index_base *base) {
    expect(r, RK_FAISS_8_BITS, 4, "codes of another kind");
    expect(r, 0, 4, "ranges of another kind");
    expect(r, 0, 4, "ranges of another kind");
    expect(r, (uint64_t)dim, 8, "the dimension of codes");
    expect(r, (uint64_t)dim, 8, "the bytes of a code");
    expect(r, 2 * (uint64_t)dim, 8, "the number of ranges");
    uint64_t at = r->at;
    const uint8_t *ranges = take(r, 2 * (uint64_t)dim, sizeof(float), "ranges");
    RK_TRY(r->status);
    RK_TRY(rk_alloc((size_t)dim, sizeof *base->low, &base->low));
    RK_TRY(rk_alloc((size_t)dim, sizeof *base->width, &base->width));
    memcpy(base->low, ranges, (size_t)dim * sizeof *base->low);
    memcpy(base->width, ranges + (size_t)dim * sizeof *base->low, (size_t)dim * sizeof *base->width);
    for (int32_t d = 0; d < dim; d++)
        if (!(fabsf(base->low[d]) < 1e20f && base->width[d] >= 0 && base->width[d] < 1e20f))
            fail_at(r, at, "a range that cannot be");
    return r->status;
}

static rk_status take_lists(reading *r, int32_t dim, rk_index_base *base) {
    enum { POSITION_BYTES = 8 };
    expect(r, RK_FAISS_LISTS, 4, "lists of another kind");
    expect(r, (uint64_t)base->n_lists, 8, "the number of lists");
    expect(r, (uint64_t)dim, 8, "the bytes of a code");
    expect(r, RK_FAISS_ALL_SIZE, 4, "lists of another kind");
    expect(r, (uint64_t)base->n_lists, 8, "the number of sizes");
    uint64_t at = r->at;
    reading sizes = *r;
    take(r, (uint64_t)base->n_lists, 8, "the sizes of lists");
    RK_TRY(r->status);
    RK_TRY(rk_alloc((size_t)base->n_lists + 1, sizeof *base->offsets, &base->offsets));
    for (int64_t l = 0; l < base->n_lists && r->status == RK_OK; l++) {
        uint64_t n = take_number(&sizes, 8, "");
        if (n > (uint64_t)(base->n - base->offsets[l]))
            fail_at(r, at, "lists of more vectors than there are");
        base->offsets[l + 1] = base->offsets[l] + (int64_t)n;
    }
    RK_TRY(r->status);
    if (base->offsets[base->n_lists] != base->n) fail_at(r, at, "lists of fewer vectors than there are");
    base->codes = take(r, (uint64_t)base->n, (uint64_t)dim + POSITION_BYTES, "lists");
    base->code_stride = dim + POSITION_BYTES;
    return r->status;
}

static rk_status take_ivf(reading *r, int32_t dim, rk_index *x) {
    take_header(r, RK_FAISS_IVF, &dim, &x->base.n);
    uint64_t at = r->at, n_lists = take_number(r, 8, "a number of lists"),
             n_probe = take_number(r, 8, "a number of lists to look at");
    if (n_lists < 1 || n_lists > UINT32_MAX || n_probe < 1 || n_probe > n_lists)
        fail_at(r, at, "a number of lists that cannot be");
    x->kind = RK_INDEX_IVF;
    x->base.n_lists = (int64_t)n_lists;
    x->n_probe = (int64_t)n_probe;
    x->base.centroids = take_flat(r, dim, (int64_t)n_lists);
    expect(r, 0, 1, "a map from ids to lists");
    expect(r, 0, 8, "a map from ids to lists");
    RK_TRY(take_quantizer(r, dim, &x->base));
    expect(r, (uint64_t)dim, 8, "the bytes of a code");
    expect(r, 0, 1, "codes of residuals");
    return take_lists(r, dim, &x->base);
}

static rk_status take_exact(reading *r, int32_t dim, bool with_codes, rk_index *x) {
    x->kind = RK_INDEX_EXACT;
    x->n_probe = x->base.n_lists = 1;
    RK_TRY(rk_alloc(2, sizeof *x->base.offsets, &x->base.offsets));
    x->base.offsets[1] = x->base.n;
    if (!with_codes) return r->status;
    take_header(r, RK_FAISS_CODES, &dim, &x->base.n);
    RK_TRY(take_quantizer(r, dim, &x->base));
    expect(r, (uint64_t)x->base.n * (uint64_t)dim, 8, "the bytes of codes");
    x->base.codes = take(r, (uint64_t)x->base.n, (uint64_t)dim, "codes");
    x->base.code_stride = dim;
    return r->status;
}

static rk_status take_index(reading *r, rk_index *x) {
    int64_t *n = &x->base.n;
    *n = -1;
    take_header(r, RK_FAISS_ID_MAP, &x->dim, n);
    bool with_codes = peek_kind(r) == RK_FAISS_REFINE;
    x->codes = with_codes ? RK_INDEX_INT8 : RK_INDEX_F32;
    if (with_codes) take_header(r, RK_FAISS_REFINE, &x->dim, n);
    RK_TRY(r->status);
    RK_TRY(peek_kind(r) == RK_FAISS_IVF ? take_ivf(r, x->dim, x) : take_exact(r, x->dim, with_codes, x));
    x->base.vectors = take_flat(r, x->dim, *n);
    if (with_codes) take(r, 1, sizeof(float), "the factor of k");
    expect(r, (uint64_t)*n, 8, "the number of ids");
    x->base.ids = (const rk_loose_i64 *)take(r, (uint64_t)*n, sizeof(int64_t), "ids");
    if (r->at != r->n_bytes) fail_at(r, r->at, "more than an index");
    return r->status;
}

static double take_f64(reading *r) {
    uint64_t bits = take_number(r, 8, "");
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static rk_status read_tail(const char *name, const rk_map *map, bool verify, rk_index *x, uint64_t *n_bytes) {
    RK_FAIL_IF(
        map->n_bytes < RK_INDEX_TAIL_BYTES || memcmp(map->data + map->n_bytes - 8, RK_INDEX_MAGIC, 8) != 0,
        RK_BAD_DATA, "'%s' is not an index that Reckon wrote, or only a part of one", name);
    reading r = {name, map->data + map->n_bytes - RK_INDEX_TAIL_BYTES, 0, RK_INDEX_TAIL_BYTES, RK_OK};
    uint32_t wanted = rk_crc32c(0, r.data, RK_INDEX_VALUES_BYTES);
    *n_bytes = take_number(&r, 8, "");
    uint32_t crc = (uint32_t)take_number(&r, 4, ""), version = (uint32_t)take_number(&r, 4, "");
    x->seed = take_number(&r, 8, "");
    x->asked_recall = take_f64(&r);
    x->recall = take_f64(&r);
    x->queries_per_second = take_f64(&r);
    x->tuned_k = (int64_t)take_number(&r, 8, "");
    x->tuned_queries = (int64_t)take_number(&r, 8, "");
    RK_FAIL_IF((uint32_t)take_number(&r, 4, "") != wanted || *n_bytes != map->n_bytes - RK_INDEX_TAIL_BYTES,
               RK_BAD_DATA, "'%s' is damaged at its end", name);
    RK_FAIL_IF(version != RK_INDEX_VERSION, RK_UNSUPPORTED,
               "'%s' has version %u of the format; this library "
               "reads %d",
               name, version, RK_INDEX_VERSION);
    RK_FAIL_IF(verify && rk_crc32c(0, map->data, *n_bytes) != crc, RK_BAD_DATA,
               "'%s' is damaged: its checksum is not that of its bytes", name);
    return RK_OK;
}

rk_status rk_index_file_parse(const char *name, const rk_map *map, bool verify, rk_index **out) {
    rk_index *x;
    rk_status status;
    reading r = {.name = name, .data = map->data};
    RK_TRY(rk_alloc(1, sizeof *x, &x));
    RK_GOTO(read_tail(name, map, verify, x, &r.n_bytes));
    RK_GOTO(take_index(&r, x));
    x->base.map = *map;
    *out = x;
    return RK_OK;
done:
    rk_index_free(x);
    return status;
}

rk_status rk_index_open(const char *path, const rk_index_open_options *options, rk_index **out) {
    rk_index_open_options o = RK_INDEX_OPEN_OPTIONS_INIT;
    rk_map map;
    RK_TRY(rk_options_take(&o, sizeof o, options, RK_SIZE_WITH(rk_index_open_options, pool),
                           "rk_index_open_options"));
    RK_TRY(rk_map_open(path, &map));
    rk_index *x;
    rk_status status = rk_index_file_parse(path, &map, o.verify, &x);
    if (status != RK_OK) {
        rk_map_release(&map);
        return status;
    }
    x->pool = o.pool;
    *out = x;
    return RK_OK;
}
