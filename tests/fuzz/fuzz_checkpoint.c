/* A whole small checkpoint of tensors of any name and shape, read into a model's: a line each, its type (a
 * digit), its dims and its name: "0 2,12 t[3:23:12]". Bytes, offsets and checksums are put right, so that
 * nothing but names and shapes can be wrong. */
#include <string.h>

#include "base/memory.h"
#include "base/state_dict.h"
#include "fuzz/manifest.h"
#include "fuzz/tensor_lines.h"
#include "train/checkpoint/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { N_WANTED = 7 };

static const struct wanted {
    const char *name;
    rk_dtype type;
    int64_t dims[2];
} list[N_WANTED] = {
    {"t", RK_F32, {23, 12}},         {"t/slot", RK_F32, {23, 0}},        {"t/step", RK_I64, {1, 0}},
    {"u[1:23:2]", RK_F32, {11, 12}}, {"u/step[1:23:2]", RK_I64, {1, 0}}, {"v[0:10:1,4:8]", RK_BF16, {10, 4}},
    {"bytes", RK_U8, {5, 0}}};

static bool put_shard(char *text) {
    rk_buffer shard = {0};
    if (!put_tensors(text, &shard)) return false;
    scratch_file("model-00001.safetensors", shard.data, shard.n_bytes);
    static char manifest[1000];
    int n = snprintf(manifest, sizeof manifest,
                     "{\"version\":1,\"progress\":{\"step\":1,\"epoch\":0,\"row\":0,\"best\":null,\"plateau_"
                     "best\":null,\"best_step\":0,\"bad\":0,\"plateau_bad\":0,"
                     "\"learning_rate_factor\":1,\"n_evaluations\":0,\"loss_sum\":0,\"loss_steps\":0,\"log_"
                     "bytes\":0,\"events_bytes\":0,\"finished\":false},"
                     "\"files\":[{\"name\":\"model-00001.safetensors\",\"bytes\":%zu,\"crc32c\":%u}]}",
                     shard.n_bytes, (unsigned)rk_crc32c(0, shard.data, shard.n_bytes));
    rk_buffer_release(&shard);
    put_manifest(manifest, (size_t)n);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    char *text;
    if (rk_strndup((const char *)data, n_bytes, &text) != RK_OK) return 0;
    bool there = put_shard(text);
    rk_free(text);
    if (!there || rk_checkpoint_verify(scratch_folder()) != RK_OK) return 0;
    rk_state_dict state = {0};
    void *values[N_WANTED] = {NULL};
    for (int i = 0; i < N_WANTED; i++) {
        rk_state_dict_entry entry = {.type = list[i].type,
                                     .n_dims = list[i].dims[1] ? 2 : 1,
                                     .dims = {list[i].dims[0], list[i].dims[1]}};
        values[i] = calloc(1, rk_state_dict_entry_bytes(&entry));
        if (rk_state_dict_add(&state, list[i].name, list[i].type, list[i].dims[0], list[i].dims[1],
                              values[i]) != RK_OK)
            abort();
    }
    (void)!rk_checkpoint_read_tensors(scratch_folder(), &state);
    rk_state_dict_release(&state);
    for (int i = 0; i < N_WANTED; i++) free(values[i]);
    return 0;
}
