/* An exported directory's file, read into a model's tensors, and mapped (fuzz/tensor_lines.h). */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fuzz/scratch.h"
#include "fuzz/tensor_lines.h"
#include "kernels/kernels.h"
#include "train/checkpoint/model_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

enum { N_WANTED = 6 };

static const struct wanted {
    const char *name;
    rk_state_dict_kind kind;
    int64_t dims[2];
} list[N_WANTED] = {{"table/t/rows", RK_STATE_ROWS, {23, 12}},
                    {"table/u/rows[1:23:2]", RK_STATE_ROWS, {11, 12}},
                    {"table/v/rows[0:10:1,4:8]", RK_STATE_ROWS, {10, 4}},
                    {"dense/out/bias", RK_STATE_DENSE, {5, 0}},
                    {"table/k/rows", RK_STATE_ROWS, {22, 12}},
                    {"table/k/oov_rows", RK_STATE_ROWS, {1, 12}}};

static void read_model(rk_export_rows rows) {
    rk_model_reader model = {0};
    rk_state_dict state = {0};
    static float values[N_WANTED][23 * 12];
    if (rk_model_reader_open(scratch_folder(), rows, &model) != RK_OK) return;
    for (int i = 0; i < N_WANTED; i++) {
        if (rk_state_dict_add(&state, list[i].name, RK_F32, list[i].dims[0], list[i].dims[1], values[i]) !=
            RK_OK)
            abort();
        rk_state_dict_set_kind(&state, list[i].kind);
    }
    (void)!rk_model_reader_read_state(&model, &state);
    rk_state_dict_release(&state);
    rk_model_reader_close(&model);
}

/* Those of a dynamic table have rows, and so have all others. */
static void look_up_keys(const rk_row_source *source) {
    static float values[12];
    rk_sorted_keys *sorted = rk_key_tables_find_table(source->keys, "k");
    rk_rows rows = {0};
    if (!sorted || source->ops->find(source, "k", sorted->n + 1, 12, &rows) != RK_OK || !rows.data) return;
    for (int64_t key = -1; key <= sorted->n; key++) {
        int64_t row;
        rk_sorted_keys_find(sorted, &key, 1, &row);
        if (row != (key < 0 ? sorted->n : key)) abort();
        rk_row_load(&rows, row, values);
    }
}

/* Every row of the tables that the file's are found to be. */
static void read_mapped(void) {
    static const char *const tables[] = {"t", "u", "v"};
    static float row[12];
    rk_model_reader model = {0};
    RK_AUTO(rk_row_source_auto) rk_row_source *source = NULL;
    if (rk_model_reader_open(scratch_folder(), RK_EXPORT_ROWS_TRAINED, &model) != RK_OK) return;
    const rk_row_reading how = {.timeout = 1};
    (void)!rk_model_reader_row_source(&model, scratch_folder(), true, &how, &source);
    rk_model_reader_close(&model);
    if (source) look_up_keys(source);
    for (int t = 0; source && t < 3; t++) {
        rk_rows rows = {0};
        int64_t n_rows = t < 2 ? 23 : 10;
        if (source->ops->find(source, tables[t], n_rows, 12, &rows) != RK_OK || !rows.data) continue;
        for (int64_t r = 0; r < n_rows; r++) rk_row_load(&rows, r, row);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    char *text;
    rk_buffer file = {0};
    if (rk_strndup((const char *)data, n_bytes, &text) != RK_OK) return 0;
    if (put_tensors(text, &file) && file.status == RK_OK) {
        scratch_file("config.yaml", "", 0);
        scratch_file("model.safetensors", file.data, file.n_bytes);
        read_model(RK_EXPORT_ROWS_TRAINED);
        read_model(RK_EXPORT_ROWS_INT4);
        read_mapped();
    }
    rk_buffer_release(&file);
    rk_free(text);
    return 0;
}
