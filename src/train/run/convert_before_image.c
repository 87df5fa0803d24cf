#include "train/run/convert_before_image.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "embedding/dynamic/dynamic_table.h"
#include "embedding/local/collection.h"
#include "embedding/local/state/row_before_images.h"

/* Where a record belongs: by bucket, then key, as an unsigned number. A static table's ids are in no bucket.
 */
typedef struct record_order {
    uint32_t bucket;
    uint64_t id;
    const char *record;
} record_order;

static int compare_records(const void *a, const void *b) {
    const record_order *x = a, *y = b;
    if (x->bucket != y->bucket) return x->bucket < y->bucket ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* dynamic: of the table; NULL: it is static */
static rk_status sort_records(const rk_dynamic_config *dynamic, int64_t n, size_t record_bytes,
                              const char *records, char *sorted) {
    RK_AUTOFREE record_order *order = NULL;
    RK_TRY(rk_alloc((size_t)n, sizeof *order, &order));
    for (int64_t i = 0; i < n; i++) {
        int64_t id;
        const char *record = records + (size_t)i * record_bytes;
        memcpy(&id, record, sizeof id);
        uint32_t bucket = dynamic ? rk_dynamic_bucket_of_key(dynamic, id) : 0;
        order[i] = (record_order){bucket, (uint64_t)id, record};
    }
    qsort(order, (size_t)n, sizeof *order, compare_records);
    for (int64_t i = 0; i < n; i++) memcpy(sorted + (size_t)i * record_bytes, order[i].record, record_bytes);
    return RK_OK;
}

static const rk_dynamic_config *find_dynamic(const rk_embeddings *e, rk_span table) {
    for (int32_t t = 0; t < rk_embeddings_n_tables(e); t++)
        if (rk_span_equal(table, rk_embeddings_table_config(e, t)->name))
            return rk_embeddings_dynamic_config(e, t);
    return NULL;
}

rk_status rk_convert_before_image(rk_model *model, const char *name, int64_t n, int64_t record_bytes,
                                  const void *records) {
    RK_AUTOFREE char *sorted = NULL;
    rk_before_image_name is;
    RK_TRY(rk_before_image_name_parse(name, &is));
    RK_FAIL_IF(record_bytes < (int64_t)sizeof(int64_t), RK_BAD_DATA,
               "tensor '%s': its name does not match its shape", name);
    if (is.are_shared) return rk_model_read_before_images(model, name, n, record_bytes, records);
    RK_TRY(rk_alloc((size_t)n, (size_t)record_bytes, &sorted));
    RK_TRY(sort_records(find_dynamic(rk_model_embeddings(model), is.table), n, (size_t)record_bytes, records,
                        sorted));
    return rk_model_read_before_images(model, name, n, record_bytes, sorted);
}
