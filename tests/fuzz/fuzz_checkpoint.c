/* A whole small checkpoint of tensors of any name and shape, read into a model's: a line each, its type (a
 * digit), its dims and its name: "0 2,12 t[3:23:12]". Bytes, offsets and checksums are put right, so that
 * nothing but names and shapes can be wrong. */
#include <jansson.h>
#include <string.h>

#include "base/memory.h"
#include "base/state.h"
#include "fuzz/manifest.h"
#include "train/checkpoint/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { MOST_BYTES = 1 << 16, N_WANTED = 7 };

static const struct wanted {
    const char *name;
    rk_dtype type;
    int64_t dims[2];
} list[N_WANTED] = {
    {"t", RK_F32, {23, 12}},         {"t/slot", RK_F32, {23, 0}},        {"t/step", RK_I64, {1, 0}},
    {"u[1:23:2]", RK_F32, {11, 12}}, {"u/step[1:23:2]", RK_I64, {1, 0}}, {"v[0:10:1,4:8]", RK_BF16, {10, 4}},
    {"bytes", RK_U8, {5, 0}}};

/* One line into the header; returns false where it is none. */
static bool add_tensor(char *line, json_t *header, uint64_t *at) {
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
    if (added) *at += n;
    return added && *at <= MOST_BYTES;
}

static bool put_shard(char *text) {
    json_t *header = json_object();
    uint64_t n_values = 0;
    bool right = true;
    for (char *line = strtok(text, "\n"); line && right; line = strtok(NULL, "\n"))
        right = add_tensor(line, header, &n_values);
    char *written = right ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    if (!written) return false;
    static char zeros[MOST_BYTES], manifest[1000];
    rk_buffer micro_batch = {0};
    rk_buffer_u64le(&micro_batch, strlen(written));
    rk_buffer_text(&micro_batch, written);
    rk_buffer_append(&micro_batch, zeros, n_values);
    free(written);
    scratch_file("model-00001.safetensors", micro_batch.data, micro_batch.n_bytes);
    int n = snprintf(manifest, sizeof manifest,
                     "{\"version\":1,\"progress\":{\"step\":1,\"epoch\":0,\"row\":0,\"best\":null,\"plateau_"
                     "best\":null,\"best_step\":0,\"bad\":0,\"plateau_bad\":0,"
                     "\"learning_rate_factor\":1,\"n_evaluations\":0,\"loss_sum\":0,\"loss_steps\":0,\"log_"
                     "bytes\":0,\"events_bytes\":0,\"finished\":false},"
                     "\"files\":[{\"name\":\"model-00001.safetensors\",\"bytes\":%zu,\"crc32c\":%u}]}",
                     micro_batch.n_bytes, (unsigned)rk_crc32c(0, micro_batch.data, micro_batch.n_bytes));
    rk_buffer_release(&micro_batch);
    put_manifest(manifest, (size_t)n);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    char *text;
    if (rk_strndup((const char *)data, n_bytes, &text) != RK_OK) return 0;
    bool there = put_shard(text);
    rk_free(text);
    if (!there || rk_checkpoint_verify(scratch_folder()) != RK_OK) return 0;
    rk_state state = {0};
    void *values[N_WANTED] = {NULL};
    for (int i = 0; i < N_WANTED; i++) {
        rk_state_entry entry = {.type = list[i].type,
                                .n_dims = list[i].dims[1] ? 2 : 1,
                                .dims = {list[i].dims[0], list[i].dims[1]}};
        values[i] = calloc(1, rk_state_entry_bytes(&entry));
        if (rk_state_add(&state, list[i].name, list[i].type, list[i].dims[0], list[i].dims[1], values[i]) !=
            RK_OK)
            abort();
    }
    (void)!rk_checkpoint_read(scratch_folder(), &state);
    rk_state_release(&state);
    for (int i = 0; i < N_WANTED; i++) free(values[i]);
    return 0;
}
