#include "data/source.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/source_parts.h"

static bool has_ending(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && memcmp(path + n - m, ending, m) == 0;
}

rk_status rk_source_format(const rk_data_section *section, const char *path, rk_data_format *out) {
    static const struct {
        const char *ending;
        rk_data_format format;
    } endings[] = {{".csv", RK_DATA_CSV},   {".txt", RK_DATA_CSV},        {".data", RK_DATA_CSV},         {".tsv", RK_DATA_TSV},    {".libsvm", RK_DATA_LIBSVM},
                   {".svm", RK_DATA_LIBSVM}, {".tfrecord", RK_DATA_TFRECORD}, {".tfrecords", RK_DATA_TFRECORD}, {".rkb", RK_DATA_RKB}};
    if (has_ending(path, ".rkb")) { /* tells itself, whatever the section says of the text files beside it */
        *out = RK_DATA_RKB;
        return RK_OK;
    }
    if (section && section->format != RK_DATA_AUTO) {
        *out = (rk_data_format)section->format;
        return RK_OK;
    }
    char name[4096];
    snprintf(name, sizeof name, "%s", path);
    if (has_ending(name, ".gz")) name[strlen(name) - 3] = 0;
    if (has_ending(name, ".zst")) name[strlen(name) - 4] = 0;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (has_ending(name, endings[i].ending)) {
            *out = endings[i].format;
            return RK_OK;
        }
    return rk_error_hint(rk_error(RK_CONFIG, "'%s': its name does not tell the format", path), "set data.format to csv, tsv, libsvm, tfrecord or rkb");
}

static rk_status add_path(const char *path, char ***out, size_t *n, size_t *capacity) {
    RK_TRY(rk_grow(out, *n, capacity, sizeof **out));
    RK_TRY(rk_strdup(path, &(*out)[*n]));
    (*n)++;
    return RK_OK;
}

static rk_status expand_one(const char *pattern, char ***paths, size_t *n, size_t *capacity) {
    if (!strpbrk(pattern, "*?[") || rk_file_exists(pattern)) return add_path(pattern, paths, n, capacity);
    glob_t found;
    int code = glob(pattern, 0, NULL, &found);
    if (code == GLOB_NOSPACE) return RK_NO_MEMORY_ERROR(0);
    RK_FAIL_IF(code != 0, RK_NOT_FOUND, "no file matches '%s'", pattern);
    rk_status status = RK_OK;
    for (size_t i = 0; status == RK_OK && i < found.gl_pathc; i++) status = add_path(found.gl_pathv[i], paths, n, capacity);
    globfree(&found);
    return status;
}

rk_status rk_expand_paths(const char *directory, char *const *paths, size_t n_paths, char ***out, size_t *n_out) {
    char **expanded = NULL;
    size_t n = 0, capacity = 0;
    rk_status status = RK_OK;
    for (size_t i = 0; status == RK_OK && i < n_paths; i++) {
        char *pattern;
        status = rk_path_join(directory, paths[i], &pattern);
        if (status != RK_OK) break;
        status = expand_one(pattern, &expanded, &n, &capacity);
        rk_free(pattern);
    }
    if (status != RK_OK) {
        rk_free_strings(expanded, n);
        return status;
    }
    *out = expanded;
    *n_out = n;
    return RK_OK;
}

rk_status rk_source_open(const rk_source_options *options, rk_source **out) {
    rk_source *s;
    RK_TRY(rk_alloc(1, sizeof *s, &s));
    s->options = *options;
    s->options.wanted = NULL;
    rk_status copied = options->wanted ? rk_alloc(options->n_wanted, sizeof *s->wanted, &s->wanted) : RK_OK;
    for (size_t i = 0; copied == RK_OK && options->wanted && i < options->n_wanted; i++) copied = rk_strdup(options->wanted[i], &s->wanted[i]);
    if (copied != RK_OK) {
        rk_source_free(s);
        return copied;
    }
    if (options->wanted) s->options.wanted = (const char *const *)s->wanted;
    for (size_t i = 0; i < options->n_paths; i++) {
        uint64_t n_bytes = 0;
        if (strcmp(options->paths[i], "-") == 0) continue;
        rk_status status = rk_file_size(options->paths[i], &n_bytes);
        if (status != RK_OK) {
            rk_source_free(s);
            return status;
        }
        s->total_bytes += (double)n_bytes;
    }
    *out = s;
    return RK_OK;
}

static void close_file(rk_source *s) {
    if (s->reader) s->reader->close(s);
    s->reader = NULL;
    s->state = NULL;
    if (s->stream) s->finished_bytes += (double)rk_stream_file_position(s->stream);
    rk_lookahead_release(&s->lookahead);
    rk_stream_free(s->stream);
    s->stream = NULL;
}

void rk_source_free(rk_source *s) {
    if (!s) return;
    close_file(s);
    rk_columns_release(&s->columns);
    rk_free(s->lines);
    if (s->wanted) rk_free_strings(s->wanted, s->options.n_wanted);
    rk_free(s);
}

static rk_status open_file(rk_source *s) {
    rk_data_format format;
    RK_TRY(rk_source_format(s->options.section, rk_source_path(s), &format));
    s->line = 0;
    if (format == RK_DATA_RKB) return rk_rkb_reader_open(s);
    RK_TRY(rk_stream_open(rk_source_path(s), &s->stream));
    s->lookahead.stream = s->stream;
    switch (format) {
        case RK_DATA_LIBSVM: return rk_libsvm_reader_open(s);
        case RK_DATA_TFRECORD: return rk_tfrecord_reader_open(s);
        case RK_DATA_TSV: return rk_csv_reader_open(s, '\t');
        default: return rk_csv_reader_open(s, ',');
    }
}

rk_status rk_source_map_columns(rk_source *s, const char *const *names, const rk_column_type *types, size_t n, int32_t *map) {
    const rk_source_options *o = &s->options;
    for (size_t w = o->n_optional; o->wanted && w < o->n_wanted; w++) {
        size_t i = 0;
        while (i < n && strcmp(names[i], o->wanted[w]) != 0) i++;
        if (i < n) continue;
        rk_status status = rk_error(RK_CONFIG, "'%s' has no column '%s'", rk_source_path(s), o->wanted[w]);
        const char *nearest = rk_nearest(o->wanted[w], names, n);
        if (nearest) return rk_error_hint(status, "did you mean '%s'?", nearest);
        char list[512] = "";
        for (size_t k = 0; k < n && strlen(list) + strlen(names[k]) + 3 < sizeof list; k++) {
            if (k) strcat(list, ", ");
            strcat(list, names[k]);
        }
        return rk_error_hint(status, "its columns are %s", list);
    }
    if (!s->has_columns) {
        rk_column_type *kinds = NULL;
        size_t n_made = o->wanted ? o->n_wanted : n;
        RK_TRY(rk_alloc(n_made, sizeof *kinds, &kinds));
        for (size_t w = 0; w < n_made; w++)
            for (size_t i = 0; i < n; i++)
                if (!o->wanted || strcmp(names[i], o->wanted[w]) == 0) kinds[o->wanted ? w : i] = types[i];
        rk_status status = rk_columns_init(&s->columns, (int32_t)n_made, o->wanted ? o->wanted : names, kinds);
        rk_free(kinds);
        RK_TRY(status);
        s->has_columns = true;
    }
    for (size_t i = 0; i < n; i++) map[i] = rk_columns_find(&s->columns, names[i]);
    for (size_t i = 0; i < n; i++)
        RK_FAIL_IF(map[i] >= 0 && s->columns.columns[map[i]].type != types[i], RK_BAD_DATA, "'%s': column '%s' is %s here and %s in the files before", rk_source_path(s), names[i],
                   rk_column_type_name(types[i]), rk_column_type_name(s->columns.columns[map[i]].type));
    return RK_OK;
}

rk_status rk_source_end_row(rk_source *s, rk_status status) {
    if (status == RK_BAD_DATA && s->options.section && s->options.section->on_bad_row == 1) {
        rk_columns_drop_row(&s->columns);
        s->n_skipped++;
        return RK_OK;
    }
    if (status != RK_OK) return rk_error_context(status, "'%s': line %lld", rk_source_path(s), (long long)s->line);
    if (s->columns.n_rows >= s->lines_capacity) {
        size_t capacity = (size_t)s->lines_capacity;
        RK_TRY(rk_grow(&s->lines, capacity, &capacity, sizeof *s->lines));
        s->lines_capacity = (int64_t)capacity;
    }
    s->lines[s->columns.n_rows] = s->line;
    return rk_columns_end_row(&s->columns);
}

rk_status rk_source_read(rk_source *s, int64_t max_rows, const rk_columns **out) {
    if (s->has_columns) rk_columns_clear(&s->columns);
    while (s->file < s->options.n_paths && s->columns.n_rows == 0) { /* a chunk's rows are of one file */
        if (!s->reader) {
            rk_status status = open_file(s);
            if (status != RK_OK) {
                close_file(s);
                return status;
            }
        }
        bool at_end = false;
        RK_TRY(s->reader->read(s, max_rows, &at_end));
        if (!at_end) break;
        if (s->columns.n_rows > 0) break; /* `where` still needs this file; the next call finds its end again */
        close_file(s);
        s->file++;
    }
    *out = &s->columns;
    return RK_OK;
}

int64_t rk_source_n_skipped(const rk_source *s) {
    return s->n_skipped;
}

void rk_source_where(const rk_source *s, int64_t row, char *out, size_t out_bytes) {
    snprintf(out, out_bytes, "'%s': line %lld", rk_source_path(s), (long long)(row < s->columns.n_rows ? s->lines[row] : s->line));
}

double rk_source_progress(const rk_source *s) {
    if (s->total_bytes <= 0) return -1;
    double done = s->finished_bytes + (s->stream ? (double)rk_stream_file_position(s->stream) : 0);
    return done < s->total_bytes ? done / s->total_bytes : 1;
}
