/* What is in an export, for people: README.md with the header that Hugging Face's hub reads. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <reckon/version.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "export/export_internal.h"
#include "embedding/config/row_formats.h"
#include "model/presets/preset.h"

static const char *model_kind_of(const rk_exporting *x) {
    const rk_preset *preset = rk_preset_of(x->config->model.kind);
    return preset ? preset->name : "graph";
}

static void write_card_header(const rk_exporting *x, rk_buffer *out) {
    rk_buffer_append_text(out, "---\nlibrary_name: reckon\ntags:\n- recommendation\n");
    rk_buffer_printf(out, "- %s\n", model_kind_of(x));
    if (x->options->license) rk_buffer_printf(out, "license: %s\n", x->options->license);
    rk_buffer_append_text(out, "---\n\n");
}

static void write_training_summary(const rk_exporting *x, rk_buffer *out) {
    const rk_early_stopping *stopping = &x->manifest.progress.stopping;
    rk_buffer_printf(out, "# %s\n\nTrained by Reckon %s, exported after step %lld. ", model_kind_of(x),
                     rk_version(), (long long)x->manifest.progress.step);
    rk_buffer_append_text(
        out,
        "`config.yaml` is the run file, with every default; `transforms.json` and `vocabulary/` hold "
        "what was fitted to the training data.\n\n");
    if (!x->manifest.metric || !isfinite(stopping->best)) return;
    rk_buffer_printf(
        out,
        "## Metrics\n\n| metric | value | step |\n|---|---|---|\n| %s (validation, best) | %.6g | %lld |\n\n",
        x->manifest.metric, stopping->best, (long long)stopping->best_step);
}

static void write_data_paths(const char *split, const rk_split_section *of, rk_buffer *out) {
    for (int64_t i = 0; i < of->n_path; i++) {
        const char *name = strrchr(of->path[i], '/');
        rk_buffer_printf(out, "| %s | %s |\n", split, name ? name + 1 : of->path[i]);
    }
    if (of->fraction > 0) rk_buffer_printf(out, "| %s | %g of the training data |\n", split, of->fraction);
}

static void write_data_section(const rk_exporting *x, rk_buffer *out) {
    const rk_data_section *data = &x->config->data;
    rk_buffer_append_text(out, "## Data\n\n| split | files |\n|---|---|\n");
    write_data_paths("train", &data->train, out);
    write_data_paths("valid", &data->valid, out);
    write_data_paths("test", &data->test, out);
    rk_buffer_append_text(out, "\n");
}

static void write_tensor_section(const rk_exporting *x, rk_buffer *out) {
    uint64_t dense = 0;
    bool tables = false;
    for (size_t i = 0; i < x->n; i++) {
        const rk_exported_tensor *t = &x->list[i];
        if (!t->table) dense += (uint64_t)(t->stored->n_rows * t->stored->n_columns);
        if (!t->table || t->piece > RK_ROW_CODES || rk_exported_tensor_is_keys(t)) continue;
        const char *format = rk_row_format_name(t->rows);
        if (!tables)
            rk_buffer_append_text(
                out, "## Tables\n\n| table | tensor | rows | dim | format |\n|---|---|---|---|---|\n");
        tables = true;
        rk_buffer_printf(out, "| %s | `%s` | %lld | %lld | %s |\n", t->table, t->name,
                         (long long)rk_exported_tensor_rows(t), (long long)t->stored->n_columns,
                         t->piece != RK_ROW_WHOLE ? "codes, beside them scales and minima"
                         : format                 ? format
                                                  : rk_dtype_name(rk_exported_tensor_dtype(t)));
    }
    if (tables) rk_buffer_append_text(out, "\n");
    if (x->n_keyed)
        rk_buffer_append_text(
            out,
            "Where a table has a tensor `embeddings.<table>.keys`, row i is that of key i, and the last "
            "row that of all other keys, or the last rows are those that other keys share by their "
            "hash.\n\n");
    rk_buffer_printf(out, "The dense part has %" PRIu64 " values here. All tensors: %" PRIu64 " bytes.\n",
                     dense, x->total_bytes);
}

rk_status rk_export_write_model_card(const rk_exporting *x) {
    RK_AUTO(rk_buffer_release) rk_buffer text = {0};
    RK_AUTOFREE char *path = NULL;
    write_card_header(x, &text);
    write_training_summary(x, &text);
    write_data_section(x, &text);
    write_tensor_section(x, &text);
    RK_TRY(text.status);
    RK_TRY(rk_path_join(x->directory, "README.md", &path));
    return rk_file_write(path, text.data, text.n_bytes);
}
