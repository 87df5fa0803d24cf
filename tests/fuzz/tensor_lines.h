/* A safetensors file of tensors of any name and shape, a line each: its type (a digit), its dims and its
 * name: "0 2,12 t[3:23:12]". A line that begins with '{' is what its metadata say of rows. Bytes and offsets
 * are put right, so that nothing but names, shapes and metadata can be wrong. I64 are 0, 1, ..., as keys may
 * be; all else is zeros. */
#ifndef RK_FUZZ_TENSOR_LINES_H
#define RK_FUZZ_TENSOR_LINES_H

#include <jansson.h>
#include <string.h>

#include "base/buffer.h"

enum { MOST_BYTES = 1 << 16 };

/* One line into the header; returns false where it is none. */
static bool add_tensor(char *line, json_t *header, char *values, uint64_t *at) {
    static const char *const types[] = {"F32", "BF16", "F16", "I64", "U8"};
    static const uint64_t widths[] = {4, 2, 2, 8, 1};
    if (line[0] < '0' || line[0] > '4' || line[1] != ' ') return false;
    uint64_t n = widths[line[0] - '0'];
    json_t *shape = json_array();
    char *dim = line + 2;
    for (; *dim >= '0' && *dim <= '9'; dim += *dim == ',') {
        long long value = strtoll(dim, &dim, 10);
        json_array_append_new(shape, json_integer(value));
        if (__builtin_mul_overflow(n, (uint64_t)value, &n) || n > MOST_BYTES) n = 0;
    }
    json_t *tensor = json_pack("{s:s, s:o, s:[I, I]}", "dtype", types[line[0] - '0'], "shape", shape,
                               "data_offsets", (json_int_t)*at, (json_int_t)(*at + n));
    bool added =
        *dim == ' ' && !json_object_get(header, dim + 1) && json_object_set(header, dim + 1, tensor) == 0;
    json_decref(tensor);
    if (!added || *at + n > MOST_BYTES) return false;
    for (int64_t i = 0; line[0] == '3' && i < (int64_t)(n / sizeof i); i++)
        memcpy(values + *at + (size_t)i * sizeof i, &i, sizeof i);
    *at += n;
    return true;
}

static void put_file(const char *header, const char *values, uint64_t n_bytes, rk_buffer *out) {
    rk_buffer_append_u64le(out, strlen(header));
    rk_buffer_append_text(out, header);
    rk_buffer_append(out, values, n_bytes);
}

/* The file's bytes into out; false where a line is none. text is cut up. */
static bool put_tensors(char *text, rk_buffer *out) {
    static char values[MOST_BYTES];
    json_t *header = json_object();
    uint64_t n_values = 0;
    memset(values, 0, sizeof values);
    bool right = true;
    for (char *line = strtok(text, "\n"); line && right; line = strtok(NULL, "\n"))
        if (line[0] == '{')
            json_object_set_new(header, "__metadata__", json_pack("{s:s}", "reckon.rows", line));
        else
            right = add_tensor(line, header, values, &n_values);
    char *written = right ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    if (written) put_file(written, values, n_values, out);
    free(written);
    return written != NULL;
}

#endif
