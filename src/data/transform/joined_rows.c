#include "data/transform/joined_rows.h"

#include <string.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "base/text/name_index.h"
#include "base/text/text.h"

void rk_joined_rows_release(rk_joined_rows *r) {
    rk_source_free(r->source);
    for (size_t j = 0; j < r->n_joins; j++) {
        rk_columns_release(&r->joins[j].columns);
        rk_vocabulary_release(&r->joins[j].keys);
        rk_free(r->joins[j].path);
    }
    rk_free(r->joins);
    rk_text_list_release(&r->paths);
    rk_free(r->bindings);
    *r = (rk_joined_rows){0};
}

static rk_status index_join_keys(rk_join *join, const char *key) {
    int32_t column = rk_columns_find(&join->columns, key);
    RK_FAIL_IF(column < 0, RK_CONFIG, "'%s' has no column '%s' to join by", join->path, key);
    const rk_column *keys = &join->columns.columns[column];
    for (int64_t row = 0; row < join->columns.n_rows; row++) {
        rk_span text = keys->offsets[row] < keys->offsets[row + 1] ? rk_column_text(keys, keys->offsets[row])
                                                                   : (rk_span){"", 0};
        int64_t number;
        RK_TRY(rk_vocabulary_add(&join->keys, text, 1, &number));
        RK_FAIL_IF(number != row, RK_BAD_DATA, "'%s': duplicate key '%.*s'", join->path, (int)text.n_bytes,
                   text.data);
    }
    return RK_OK;
}

/* A run reads its files many times: to look at them, to fit, once an epoch. */
static rk_status refuse_stream_path(const char *path) {
    if (!rk_file_is_stream(path)) return RK_OK;
    return rk_error_hint(
        rk_error(RK_UNSUPPORTED, "'%s' is a pipe or a device; a run reads its data several times", path),
        "write it to a file first");
}

/* Read a joined file whole: always csv, in the data section's manner but for its own separator and
 * columns. */
static rk_status load_join(const rk_data_section *section, const char *directory, const rk_join_section *from,
                           rk_join *join) {
    RK_TRY(rk_path_join(directory, from->path, &join->path));
    RK_TRY(refuse_stream_path(join->path));
    if (section->whole) section = section->whole;
    rk_data_section manner = *section;
    manner.format = RK_DATA_CSV;
    manner.separator = from->separator                  ? from->separator
                       : section->separator             ? section->separator
                       : section->format == RK_DATA_TSV ? (char *)(size_t) "\t"
                                                        : NULL;
    manner.columns = from->columns;
    manner.n_columns = from->n_columns;
    manner.header = 0;
    manner.on_bad_row = 0;
    const char *path = join->path;
    RK_AUTO(rk_source_auto_free) rk_source *source = NULL;
    RK_TRY(rk_source_open(&(rk_source_options){.section = &manner, .paths = &path, .n_paths = 1}, &source));
    for (const rk_chunk *chunk;;) {
        RK_TRY(rk_source_read_chunk(source, &chunk));
        if (chunk->columns.n_rows == 0) break;
        if (!join->columns.columns) RK_TRY(rk_columns_init_like(&join->columns, &chunk->columns));
        RK_TRY(rk_columns_append(&join->columns, &chunk->columns));
    }
    return index_join_keys(join, from->file_key ? from->file_key : from->key);
}

/* The joined file's column of a name, or the file's own. A key is the file's. */
static rk_binding find_column_binding(const rk_joined_rows *r, const rk_data_section *section,
                                      const char *name) {
    for (size_t j = 0; j < r->n_joins; j++) {
        bool key = strcmp(name, section->joins[j].key) == 0;
        int32_t column = key ? -1 : rk_columns_find(&r->joins[j].columns, name);
        if (column >= 0) return (rk_binding){(int32_t)j, column, false};
    }
    return (rk_binding){-1, -1, false};
}

/* Names that a join has are taken from it; the others must be columns of the files. wanted [n_names +
 * n_joins] gets those, each once. */
static rk_status bind_columns_by_name(rk_joined_rows *r, const rk_data_section *section,
                                      const char *const *names, size_t n_names, size_t n_optional,
                                      rk_source_options *o, const char **wanted) {
    RK_AUTO(rk_name_index_release) rk_name_index index = {0};
    RK_TRY(rk_name_index_init(&index, names, sizeof *names, 0, (int32_t)n_names));
    for (size_t i = 0; i < n_names; i++) {
        rk_binding *first = &r->bindings[rk_name_index_find(&index, names[i])], *binding = &r->bindings[i];
        if (first != binding) {
            first->shared = true;
            *binding = *first;
            continue;
        }
        *binding = find_column_binding(r, section, names[i]);
        if (binding->join >= 0) continue;
        binding->column = (int32_t)o->n_wanted;
        wanted[o->n_wanted++] = names[i];
        if (i < n_optional) o->n_optional = o->n_wanted;
    }
    size_t n_own = o->n_wanted;
    for (size_t j = 0; j < r->n_joins; j++) {
        const char *key = section->joins[j].key;
        int32_t name = rk_name_index_find(&index, key);
        size_t k = n_own;
        while (k < o->n_wanted && strcmp(wanted[k], key) != 0) k++; /* another join's key */
        if (name >= 0 && r->bindings[name].join < 0) k = (size_t)r->bindings[name].column;
        if (k == o->n_wanted) wanted[o->n_wanted++] = key;
        r->joins[j].key_column = (int32_t)k;
    }
    return RK_OK;
}

static rk_status open_source(rk_joined_rows *r, const rk_data_section *section, const char *const *names,
                             size_t n_names, size_t n_optional) {
    RK_AUTOFREE const char **wanted = NULL;
    RK_TRY(rk_alloc(n_names + r->n_joins, sizeof *wanted, &wanted));
    rk_source_options options = {.section = section,
                                 .paths = (const char *const *)r->paths.texts,
                                 .n_paths = r->paths.n,
                                 .wanted = wanted};
    RK_TRY(bind_columns_by_name(r, section, names, n_names, n_optional, &options, wanted));
    return rk_source_open(&options, &r->source);
}

static rk_status load_joins(rk_joined_rows *r, const rk_data_section *section, const char *directory) {
    RK_TRY(rk_alloc((size_t)section->n_joins, sizeof *r->joins, &r->joins));
    r->n_joins = (size_t)section->n_joins;
    for (size_t j = 0; j < r->n_joins; j++)
        RK_TRY(load_join(section, directory, &section->joins[j], &r->joins[j]));
    return RK_OK;
}

/* The files, and what is joined to them. */
static rk_status open_files(rk_joined_rows *r, const rk_data_section *section, const char *directory,
                            char *const *paths, size_t n_paths) {
    RK_TRY(rk_expand_paths(section->paths_are_callers ? "" : directory, paths, n_paths, &r->paths));
    for (size_t i = 0; !section->paths_are_callers && i < r->paths.n; i++)
        RK_TRY(refuse_stream_path(r->paths.texts[i]));
    return load_joins(r, section, directory);
}

rk_status rk_joined_rows_open_joins(const rk_data_section *section, const char *directory,
                                    const char *const *names, size_t n_names, rk_joined_rows *out,
                                    const char **wanted, size_t *n_wanted) {
    RK_AUTO(rk_joined_rows_release) rk_joined_rows r = {0};
    rk_source_options found = {0};
    RK_TRY(load_joins(&r, section, directory));
    RK_TRY(rk_alloc(n_names, sizeof *r.bindings, &r.bindings));
    RK_TRY(bind_columns_by_name(&r, section, names, n_names, 0, &found, wanted));
    *n_wanted = found.n_wanted;
    *out = r;
    r = (rk_joined_rows){0};
    return RK_OK;
}

rk_status rk_joined_rows_open(const rk_data_section *section, const char *directory, char *const *paths,
                              size_t n_paths, const char *const *names, size_t n_names, size_t n_optional,
                              rk_joined_rows *out) {
    RK_AUTO(rk_joined_rows_release) rk_joined_rows r = {0};
    RK_TRY(open_files(&r, section, directory, paths, n_paths));
    RK_TRY(rk_alloc(n_names, sizeof *r.bindings, &r.bindings));
    RK_TRY(open_source(&r, section, names, n_names, n_optional));
    *out = r;
    r = (rk_joined_rows){0};
    return RK_OK;
}

rk_status rk_joined_rows_open_all_columns(const rk_data_section *section, const char *directory,
                                          char *const *paths, size_t n_paths, rk_joined_rows *out) {
    RK_AUTO(rk_joined_rows_release) rk_joined_rows r = {0};
    RK_TRY(open_files(&r, section, directory, paths, n_paths));
    RK_TRY(rk_source_open(
        &(rk_source_options){
            .section = section, .paths = (const char *const *)r.paths.texts, .n_paths = r.paths.n},
        &r.source));
    *out = r;
    r = (rk_joined_rows){0};
    return RK_OK;
}

rk_status rk_joined_rows_allow_packed_column(rk_joined_rows *r, int32_t name) {
    rk_binding binding = r->bindings[name];
    return r->n_joins || binding.column < 0 || binding.shared
               ? RK_OK
               : rk_source_allow_packed_column(r->source, binding.column);
}

rk_values rk_joined_rows_get_values(const rk_joined_rows *r, const rk_columns *chunk, int32_t name,
                                    int64_t row) {
    rk_binding binding = r->bindings[name];
    const rk_columns *columns = chunk;
    if (binding.join >= 0) {
        const rk_join *join = &r->joins[binding.join];
        const rk_column *keys = &chunk->columns[join->key_column];
        char scratch[RK_NUMBER_BYTES];
        int64_t found =
            keys->offsets[row] < keys->offsets[row + 1]
                ? rk_vocabulary_find(&join->keys, rk_value_as_text(keys, keys->offsets[row], scratch))
                : -1;
        if (found < 0) return (rk_values){0};
        columns = &join->columns;
        row = found;
    }
    const rk_column *column = &columns->columns[binding.column];
    return (rk_values){column, column->offsets[row], column->offsets[row + 1]};
}

rk_span rk_value_as_text(const rk_column *column, int64_t value, char scratch[RK_NUMBER_BYTES]) {
    if (column->type == RK_COLUMN_TEXT) return rk_column_text(column, value);
    if (column->type == RK_COLUMN_I64) {
        const int64_t bits = column->i64[value];
        return column->is_unsigned ? rk_format_u64((uint64_t)bits, scratch) : rk_format_i64(bits, scratch);
    }
    return column->type == RK_COLUMN_F32 ? rk_format_f32(column->f32[value], scratch)
                                         : rk_format_f64(column->f64[value], scratch);
}

bool rk_value_as_number(const rk_column *column, int64_t value, double *out) {
    if (column->type == RK_COLUMN_TEXT) return rk_parse_f64(rk_column_text(column, value), out);
    *out = rk_column_number(column, value);
    return true;
}
