/* Rows of tables as ONNX nodes, whatever they are written as. */
#include "export/onnx_model.h"

rk_onnx_value rk_onnx_gather(rk_onnx_model *m, rk_onnx_value from, rk_onnx_value at) {
    return rk_onnx_node_with_axis(m, "Gather", (rk_onnx_value[]){from, at}, 2, 0);
}

static rk_onnx_value gather_row_component(rk_onnx_model *m, int32_t table, rk_row_component piece,
                                          rk_onnx_value ids) {
    return rk_onnx_cast(m, rk_onnx_gather(m, rk_onnx_table_initializer(m, table, piece), ids), RK_ONNX_F32);
}

/* Two codes a byte, the first one low, as two numbers: [..., bytes] becomes [..., dim]. In f32, where halves
 * and differences of whole numbers up to 255 are exact, since operator set 17 has no operations on bits. */
static rk_onnx_value unpack_nibbles(rk_onnx_model *m, rk_onnx_value bytes, int64_t n_bytes, int64_t dim,
                                    int32_t n_dims) {
    rk_onnx_value high = rk_onnx_unary_node(
                      m, "Floor", rk_onnx_binary_node(m, "Mul", bytes, rk_onnx_constant_float(m, 1.0f / 16))),
                  low = rk_onnx_binary_node(
                      m, "Sub", bytes, rk_onnx_binary_node(m, "Mul", high, rk_onnx_constant_float(m, 16))),
                  pairs[] = {rk_onnx_unsqueeze(m, low, n_dims + 1), rk_onnx_unsqueeze(m, high, n_dims + 1)};
    int64_t shape[3] = {0};
    shape[n_dims] = 2 * n_bytes; /* a 0 is the dimension as it is */
    rk_onnx_value codes = rk_onnx_node_with_axis(m, "Concat", pairs, 2, n_dims + 1);
    codes = rk_onnx_binary_node(m, "Reshape", codes,
                                rk_onnx_constant_ints(&m->writer, shape, (size_t)n_dims + 1));
    return dim % 2 ? rk_onnx_slice(m, codes, n_dims, 0, dim) : codes;
}

/* All numbers of hashes are int64, which every ONNX Runtime adds and multiplies, modulo 2^64; its shifts have
 * no sign. */
static rk_onnx_value shift_right(rk_onnx_model *m, rk_onnx_value bits, uint64_t by) {
    static const rk_span right = {"RIGHT", 5};
    rk_onnx_attribute direction = {
        .name = "direction", .kind = RK_ONNX_STRING, .texts = &right, .n_numbers = 1};
    rk_onnx_value inputs[] = {rk_onnx_cast(m, bits, RK_ONNX_U64), rk_onnx_constant_uint(&m->writer, by)};
    return rk_onnx_cast(m, rk_onnx_add_node(&m->writer, "BitShift", inputs, 2, &direction, 1), RK_ONNX_I64);
}

static rk_onnx_value binary_node_with_int(rk_onnx_model *m, const char *op, rk_onnx_value a, uint64_t b) {
    return rk_onnx_binary_node(m, op, a, rk_onnx_constant_int(&m->writer, (int64_t)b));
}

static rk_onnx_value xor_with_shifted(rk_onnx_model *m, rk_onnx_value bits, uint64_t by) {
    m->writer.uses_bits = true;
    return rk_onnx_binary_node(m, "BitwiseXor", bits, shift_right(m, bits, by));
}

/* rk_key_hash */
static rk_onnx_value hash_keys(rk_onnx_model *m, rk_onnx_value keys) {
    rk_onnx_value h = binary_node_with_int(m, "Add", keys, 0x9E3779B97F4A7C15u);
    h = binary_node_with_int(m, "Mul", xor_with_shifted(m, h, 30), 0xBF58476D1CE4E5B9u);
    h = binary_node_with_int(m, "Mul", xor_with_shifted(m, h, 27), 0x94D049BB133111EBu);
    return xor_with_shifted(m, h, 31);
}

/* rk_hash_bucket: the high 64 bits of hash * n. 16 bits of the hash at a time, times n of up to
 * RK_MOST_COLD_ROWS, stay below 2^63. */
static rk_onnx_value bucket_hashes(rk_onnx_model *m, rk_onnx_value hashes, int64_t n) {
    rk_onnx_value high = rk_onnx_constant_int(&m->writer, 0);
    for (uint64_t bit = 0; bit < 64; bit += 16) {
        rk_onnx_value part = binary_node_with_int(m, "BitwiseAnd", shift_right(m, hashes, bit), 0xFFFF);
        part = binary_node_with_int(m, "Mul", part, (uint64_t)n);
        high = shift_right(m, rk_onnx_binary_node(m, "Add", part, high), 16);
    }
    return high;
}

/* The numbers of rows that keys without one share, behind those of keys. */
static rk_onnx_value find_shared_rows(rk_onnx_model *m, const rk_exported_keys *keys, rk_onnx_value wanted) {
    int64_t n_shared = rk_exported_n_shared_rows(keys);
    rk_onnx_value first = rk_onnx_constant_int(&m->writer, keys->n);
    if (n_shared == 1) return first;
    return rk_onnx_binary_node(m, "Add", bucket_hashes(m, hash_keys(m, wanted), n_shared), first);
}

/* ONNX Runtime takes constants of up to 8 equal numbers for one. A key of 1 in another file would stand for
 * an axis of 1, which it has to read before it reads files. */
static rk_onnx_value initializer_of_keys(rk_onnx_model *m, const rk_exported_keys *keys) {
    enum { MOST_SHARED = 8 };
    return keys->n <= MOST_SHARED ? rk_onnx_constant_ints(&m->writer, keys->keys, (size_t)keys->n)
                                  : rk_onnx_keys_initializer(m, keys);
}

/* The numbers of keys, by bisection of those that there are; of others those of rows behind theirs. */
static rk_onnx_value find_rows_of_keys(rk_onnx_model *m, const rk_exported_keys *keys, rk_onnx_value wanted) {
    rk_onnx_value at = rk_onnx_constant_int(&m->writer, 0), shared = find_shared_rows(m, keys, wanted);
    if (keys->n == 0) return rk_onnx_binary_node(m, "Add", rk_onnx_binary_node(m, "Mul", wanted, at), shared);
    rk_onnx_value all = initializer_of_keys(m, keys);
    for (int64_t n = keys->n; n > 1; n -= n / 2) {
        rk_onnx_value middle = rk_onnx_binary_node(m, "Add", at, rk_onnx_constant_int(&m->writer, n / 2)),
                      reached = rk_onnx_binary_node(m, "LessOrEqual", rk_onnx_gather(m, all, middle), wanted);
        at = rk_onnx_ternary_node(m, "Where", reached, middle, at);
    }
    rk_onnx_value is_there = rk_onnx_binary_node(m, "Equal", rk_onnx_gather(m, all, at), wanted);
    return rk_onnx_ternary_node(m, "Where", is_there, at, shared);
}

rk_onnx_value rk_onnx_table_lookup(rk_onnx_model *m, int32_t table, rk_onnx_value ids, int32_t n_dims) {
    rk_export_rows rows = rk_onnx_table_row_format(m, table);
    int64_t dim = m->collection.tables[table].dim;
    const rk_exported_keys *keys = rk_onnx_table_keys(m, table);
    if (keys) ids = find_rows_of_keys(m, keys, ids);
    if (!rk_row_format_name(rows)) return gather_row_component(m, table, RK_ROW_WHOLE, ids);
    rk_onnx_value codes = gather_row_component(m, table, RK_ROW_CODES, ids);
    if (rows == RK_EXPORT_ROWS_INT4)
        codes = unpack_nibbles(m, codes, rk_row_format_component(rows, dim, RK_ROW_CODES).n, dim, n_dims);
    codes = rk_onnx_binary_node(m, "Mul", codes, gather_row_component(m, table, RK_ROW_SCALES, ids));
    return rk_onnx_binary_node(m, "Add", codes, gather_row_component(m, table, RK_ROW_MINIMA, ids));
}
