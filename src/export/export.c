/* An export from its checkpoint to its directory: what is chosen, and that it is there whole or not at all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "base/text/find_text.h"
#include "base/text/text.h"
#include "export/export_internal.h"
#include "embedding/config/row_formats.h"

static void release_exporting(rk_exporting *x) {
    for (size_t i = 0; i < x->n; i++) {
        RK_FREE_ALL(x->list[i].name, x->list[i].table);
    }
    if (x->lock) {
        rk_directory_lock_free(x->lock);
        (void)rmdir(x->temporary); /* unless another export is in it by now */
    }
    rk_export_free_keys(x);
    RK_FREE_ALL(x->list, x->stored, x->written, x->values, x->directory, x->temporary);
    rk_stored_tensors_close(&x->tensors);
    rk_manifest_release(&x->manifest);
    rk_state_dict_release(&x->shard);
    rk_config_free(x->config);
    rk_text_free(x->checkpoint);
}

/* "table/<name>/rows" or "table/<name>/keys"; NULL: neither of them. */
static rk_status parse_table_name(const char *name, char **out) {
    RK_AUTOFREE char *table = NULL;
    const char *what;
    *out = NULL;
    RK_TRY(rk_parse_table_tensor_name(name, &table, &what));
    if (!table || (strcmp(what, "rows") != 0 && strcmp(what, "keys") != 0)) return RK_OK;
    *out = table;
    table = NULL;
    return RK_OK;
}

/* What the optimizer keeps of a tensor is named "<tensor>/<slot>". */
static bool is_slot_tensor(const rk_stored_tensors *tensors, const char *name) {
    const char *last = strrchr(name, '/');
    RK_AUTOFREE char *parent = NULL;
    if (!last || rk_strndup(name, (size_t)(last - name), &parent) != RK_OK) return false;
    return rk_stored_tensors_find(tensors, parent) != NULL;
}

static bool is_table_selected(const rk_exporting *x, const char *table) {
    if (!table) return !x->options->tables;
    if (x->options->no_tables) return false;
    return !x->options->tables || rk_text_is_one_of(table, x->options->tables, x->options->n_tables);
}

/* "dense/<node>/<parameter>" as "dense.<node>.<parameter>". */
static rk_status make_exported_name(const rk_exported_tensor *t, char **out) {
    static const char *const pieces[] = {"weight", "codes", "scales", "minima"};
    rk_buffer name = {0};
    const char *stored = t->stored->name, *last = strrchr(stored, '/');
    if (t->table)
        rk_buffer_printf(&name, "embeddings.%s.%s", t->table,
                         rk_exported_tensor_is_keys(t) ? "keys" : pieces[t->piece]);
    else
        rk_buffer_printf(&name, "dense.%.*s.%s", (int)(last - (stored + 6)), stored + 6, last + 1);
    return rk_buffer_detach(&name, out);
}

static rk_status add_exported_tensor(rk_exporting *x, const rk_stored_tensor *stored, const char *table,
                                     rk_export_rows rows, rk_row_component piece) {
    rk_exported_tensor *t = &x->list[x->n++];
    *t = (rk_exported_tensor){.stored = stored, .rows = rows, .piece = piece};
    if (table) {
        RK_TRY(rk_strdup(table, &t->table));
        RK_TRY(rk_export_load_keys(x, table, &t->keyed));
    }
    t->is_elsewhere = x->options->rows_to && table && !rk_exported_tensor_is_keys(t);
    return make_exported_name(t, &t->name);
}

static rk_status select_tensor(rk_exporting *x, const rk_stored_tensor *stored) {
    char *table;
    RK_TRY(parse_table_name(stored->name, &table));
    bool is_dense = strncmp(stored->name, "dense/", 6) == 0 &&
                    strrchr(stored->name, '/') > stored->name + 6 &&
                    !is_slot_tensor(&x->tensors, stored->name);
    if ((!table && !is_dense) || !is_table_selected(x, table)) {
        rk_free(table);
        return RK_OK;
    }
    bool are_rows = table && stored->type != RK_I64;
    rk_export_rows rows = are_rows
                              ? rk_row_format_if_smaller(x->options->rows, stored->n_columns, stored->type)
                              : RK_EXPORT_ROWS_TRAINED;
    bool in_pieces = x->format == RK_EXPORT_ONNX && rk_row_format_name(rows);
    rk_status status = RK_OK;
    for (int piece = in_pieces ? RK_ROW_CODES : RK_ROW_WHOLE;
         status == RK_OK && piece <= (in_pieces ? RK_ROW_MINIMA : RK_ROW_WHOLE); piece++)
        status = add_exported_tensor(x, stored, table, rows, (rk_row_component)piece);
    rk_free(table);
    return status;
}

static rk_status unknown_table_error(const rk_exporting *x, const char *wanted) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    for (size_t i = 0; i < x->tensors.n; i++) {
        RK_AUTOFREE char *table = NULL;
        RK_TRY(parse_table_name(x->tensors.list[i].name, &table));
        if (table && x->tensors.list[i].type != RK_I64) RK_TRY(rk_text_list_add(&names, table));
    }
    rk_status status = rk_error(RK_NOT_FOUND, "the model has no table '%s'", wanted);
    const char *nearest = rk_nearest_name(wanted, (const char *const *)names.texts, names.n);
    return nearest ? rk_error_hint(status, "did you mean '%s'?", nearest) : status;
}

static int compare_names(const void *a, const void *b) {
    const rk_exported_tensor *x = a, *y = b;
    return x->is_elsewhere != y->is_elsewhere ? x->is_elsewhere - y->is_elsewhere : strcmp(x->name, y->name);
}

/* In an order that does not depend on who wrote which part: "dense.", then "embeddings.", and what is in no
 * file. */
static rk_status select_tensors(rk_exporting *x) {
    RK_TRY(rk_alloc(x->tensors.n * RK_ROW_MINIMA, sizeof *x->list, &x->list));
    for (size_t i = 0; i < x->tensors.n; i++) RK_TRY(select_tensor(x, &x->tensors.list[i]));
    if (x->n) qsort(x->list, x->n, sizeof *x->list, compare_names);
    while (x->n_in_files < x->n && !x->list[x->n_in_files].is_elsewhere) x->n_in_files++;
    for (size_t i = 0; i < x->options->n_tables; i++) {
        if (!RK_FIND_BY(table, x->options->tables[i], x->list, x->n))
            return unknown_table_error(x, x->options->tables[i]);
    }
    RK_FAIL_IF(x->n == 0, RK_NOT_FOUND, "'%s' has nothing to export: the model has no %s", x->checkpoint,
               x->options->no_tables ? "dense part" : "tables");
    return RK_OK;
}

/* The run file, and what was fitted to the training data: with these the tensors are a model. */
static rk_status copy_run_file(const rk_exporting *x, const char *name) {
    RK_AUTOFREE char *from = NULL, *to = NULL;
    RK_TRY(rk_path_join(x->checkpoint, name, &from));
    RK_TRY(rk_path_join(x->directory, name, &to));
    char *end = strrchr(to, '/');
    *end = 0;
    RK_TRY(rk_make_directories(to));
    *end = '/';
    return rk_file_copy(from, to);
}

static rk_status copy_run_files(const rk_exporting *x) {
    for (size_t i = 0; i < x->manifest.n_files; i++) {
        const char *name = x->manifest.files[i].name;
        /* not where the run's machine had its data */
        if (!strstr(name, ".safetensors") && strcmp(name, "directory.txt") != 0)
            RK_TRY(copy_run_file(x, name));
    }
    return RK_OK;
}

static rk_status write_export_directory(rk_exporting *x) {
    RK_TRY(rk_make_directories(x->directory));
    if (x->options->rows_to) RK_TRY(rk_export_write_redis_rows(x));
    RK_TRY(rk_export_write_safetensors(x));
    if (x->format == RK_EXPORT_ONNX) RK_TRY(rk_export_write_onnx(x));
    RK_TRY(copy_run_files(x));
    RK_TRY(rk_export_write_model_card(x));
    return rk_sync_directory(x->directory);
}

static rk_status check_export_options(const rk_export_options *o, const char *directory) {
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_FAIL_IF((unsigned)o->rows > RK_EXPORT_ROWS_INT4, RK_INVALID_ARGUMENT, "invalid format of rows: %d",
               (int)o->rows);
    RK_FAIL_IF((unsigned)o->bags > RK_EXPORT_BAGS_PADDED, RK_INVALID_ARGUMENT, "invalid form of bags: %d",
               (int)o->bags);
    RK_FAIL_IF(o->id_bits != 0 && o->id_bits != 32 && o->id_bits != 64, RK_INVALID_ARGUMENT,
               "'id_bits' must be 32 or 64, not %d", (int)o->id_bits);
    RK_FAIL_IF(o->no_tables && o->tables, RK_INVALID_ARGUMENT,
               "'no_tables' and 'tables' cannot be used together");
    RK_FAIL_IF(o->rows_to && (o->no_tables || o->tables), RK_INVALID_ARGUMENT,
               "rows go elsewhere from a whole model\nhint: leave out 'tables' and 'no_tables'");
    if (!rk_file_exists(directory)) return RK_OK;
    RK_TRY(rk_list_directory(directory, &names));
    if (!names.n) return RK_OK;
    return rk_error_hint(rk_error(RK_INVALID_ARGUMENT, "'%s' exists already and is not empty", directory),
                         "name a directory that does not exist yet");
}

/* A model computes with tables. */
static rk_status check_onnx_options(const rk_export_options *o) {
    RK_FAIL_IF(o->no_tables, RK_UNSUPPORTED,
               "an ONNX model has tables\nhint: leave out 'no_tables', or export safetensors");
    RK_FAIL_IF(o->rows_to, RK_UNSUPPORTED, "an ONNX model has its rows in files\nhint: export safetensors");
    return RK_OK;
}

/* Beside the directory, so that a rename makes it appear, a directory that one export at a time writes in;
 * what a crash has left in it is removed. */
static rk_status open_temporary_directory(rk_exporting *x, const char *directory) {
    rk_buffer name = {0};
    size_t n = strlen(directory);
    while (n > 1 && directory[n - 1] == '/') n--;
    rk_buffer_printf(&name, "%.*s.reckon-export", (int)n, directory);
    RK_TRY(rk_buffer_detach(&name, &x->temporary));
    RK_TRY(rk_path_join(x->temporary, "files", &x->directory));
    RK_TRY(rk_directory_lock_acquire(x->temporary, &x->lock));
    return rk_remove_tree(x->directory);
}

static rk_status check_safetensors_options(const rk_export_options *o) {
    RK_FAIL_IF(o->bags || o->id_bits || o->values, RK_INVALID_ARGUMENT,
               "'bags', 'id_bits' and 'values' are of a model's inputs\nhint: export ONNX");
    return RK_OK;
}

static rk_status publish_directory(const rk_exporting *x, const char *directory) {
    RK_FAIL_IF(rename(x->directory, directory) != 0, RK_IO, "'%s' could not be renamed to '%s': %s",
               x->directory, directory, strerror(errno));
    return RK_OK;
}

static rk_status load_checkpoint(rk_exporting *x, const char *path) {
    RK_TRY(rk_checkpoint_find_best(path, &x->checkpoint));
    RK_TRY(rk_manifest_read(x->checkpoint, &x->manifest));
    RK_TRY((x->format == RK_EXPORT_ONNX ? rk_checkpoint_config : rk_checkpoint_load_run_file)(
        x->checkpoint, NULL, 0, &x->config));
    return rk_stored_tensors_open(x->checkpoint, &x->tensors);
}

/* A failure's message outlives the clean-up. */
static void remove_temporary_directory(const rk_exporting *x, rk_status status) {
    char reason[4096];
    rk_error_copy(reason, sizeof reason);
    (void)rk_remove_tree(x->directory);
    rk_error(status, "%s", reason);
}

static rk_status export_checkpoint(rk_export_format format, const char *path,
                                   const rk_export_options *options, const char *directory) {
    rk_export_options o = RK_EXPORT_OPTIONS_INIT;
    rk_exporting x = {.options = &o, .format = format};
    rk_status status;
    RK_GOTO(rk_options_copy_in(&o, sizeof o, options, RK_SIZE_WITH(rk_export_options, license),
                               "rk_export_options"));
    RK_GOTO(rk_path_check(directory));
    RK_GOTO(check_export_options(&o, directory));
    RK_GOTO((format == RK_EXPORT_ONNX ? check_onnx_options : check_safetensors_options)(&o));
    RK_GOTO(load_checkpoint(&x, path));
    RK_GOTO(select_tensors(&x));
    RK_GOTO(open_temporary_directory(&x, directory));
    RK_GOTO(write_export_directory(&x));
    RK_GOTO(publish_directory(&x, directory));
done:
    if (status != RK_OK && x.lock) remove_temporary_directory(&x, status);
    release_exporting(&x);
    return status;
}

rk_status rk_export_safetensors(const char *path, const rk_export_options *options, const char *directory) {
    return export_checkpoint(RK_EXPORT_SAFETENSORS, path, options, directory);
}

rk_status rk_export_onnx(const char *path, const rk_export_options *options, const char *directory) {
    return export_checkpoint(RK_EXPORT_ONNX, path, options, directory);
}
