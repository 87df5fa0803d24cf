#include "train/checkpoint/mapped_keys.h"

#include "base/memory.h"

static rk_status map_keys_of_table(rk_key_tables *keys, const rk_stored_tensors *tensors,
                                   const rk_stored_tensor *tensor, rk_span name) {
    struct rk_key_table *table = &keys->list[keys->n];
    const uint8_t *data;
    /* An export has no tensor in parts but codes. */
    RK_TRY(rk_stored_part_map(tensors, tensor, &tensor->parts[0], keys->files, &data));
    rk_status status = rk_sorted_keys_init(data, tensor->n_rows, &table->keys);
    if (status != RK_OK) return rk_error_context(status, "tensor '%s'", tensor->name);
    keys->n++;
    return rk_strndup(name.data, name.n_bytes, &table->name);
}

static rk_status map_keys_of_tables(rk_key_tables *keys, const rk_stored_tensors *tensors) {
    RK_TRY(RK_ALLOC_ALL(RK_ARRAY(tensors->n_files, keys->files), RK_ARRAY(tensors->n, keys->list)));
    keys->n_files = tensors->n_files;
    for (size_t i = 0; i < tensors->n; i++) {
        rk_span table = rk_table_name_of_keys_tensor(tensors->list[i].name);
        if (table.n_bytes) RK_TRY(map_keys_of_table(keys, tensors, &tensors->list[i], table));
    }
    return RK_OK;
}

rk_status rk_mapped_keys_create(const rk_stored_tensors *tensors, rk_key_tables **out) {
    rk_key_tables *keys;
    RK_TRY(rk_alloc(1, sizeof *keys, &keys));
    rk_status status = map_keys_of_tables(keys, tensors);
    *out = status == RK_OK && keys->n ? keys : NULL;
    if (!*out) rk_key_tables_free(keys);
    return status;
}
