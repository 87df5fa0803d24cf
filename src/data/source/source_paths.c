/* Which files there are, and how each is written. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "data/source/source.h"

static bool has_suffix(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && memcmp(path + n - m, ending, m) == 0;
}

rk_status rk_source_format(const rk_data_section *section, const char *path, rk_data_format *out) {
    static const struct {
        const char *ending;
        rk_data_format format;
    } endings[] = {{".csv", RK_DATA_CSV},           {".txt", RK_DATA_CSV},
                   {".data", RK_DATA_CSV},          {".tsv", RK_DATA_TSV},
                   {".libsvm", RK_DATA_LIBSVM},     {".svm", RK_DATA_LIBSVM},
                   {".tfrecord", RK_DATA_TFRECORD}, {".tfrecords", RK_DATA_TFRECORD},
                   {".rkb", RK_DATA_RKB},           {".parquet", RK_DATA_PARQUET}};
    /* Some files tell themselves, whatever the section says of the text files beside them. */
    const bool is_told = has_suffix(path, ".rkb") || has_suffix(path, ".parquet");
    *out = !is_told && section ? (rk_data_format)section->format : RK_DATA_AUTO;
    if (*out != RK_DATA_AUTO) return RK_OK;
    char name[4096];
    snprintf(name, sizeof name, "%s", path);
    if (has_suffix(name, ".gz")) name[strlen(name) - 3] = 0;
    if (has_suffix(name, ".zst")) name[strlen(name) - 4] = 0;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (has_suffix(name, endings[i].ending)) {
            *out = endings[i].format;
            return RK_OK;
        }
    bool is_stream =
        rk_file_is_stream(path) && section && section->paths_are_callers && section->train.n_path > 0;
    if (is_stream && !rk_file_is_stream(section->train.path[0])) /* of rows as those that were trained on */
        return rk_source_format(section, section->train.path[0], out);
    return rk_error_hint(rk_error(RK_CONFIG, "'%s': the format cannot be told from the file's name", path),
                         "set data.format to csv, tsv, libsvm, tfrecord, rkb, parquet or adjacency");
}

static bool is_directory(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static rk_status add_path_files(const char *path, int depth, rk_text_list *out);

/* All files in it and below. Names with a dot or an underscore before them are notes of who wrote the others
 * (_SUCCESS, .part-0.parquet.crc). */
static rk_status add_directory_files(const char *path, int depth, rk_text_list *out) {
    enum { MOST_DEPTH = 32 };
    RK_FAIL_IF(depth == MOST_DEPTH, RK_UNSUPPORTED, "'%s': directories within directories, %d deep", path,
               depth);
    RK_AUTO(rk_text_list_release) rk_text_list names = {0};
    RK_TRY(rk_list_directory(path, &names));
    for (size_t i = 0; i < names.n; i++) {
        RK_AUTOFREE char *file = NULL;
        if (names.texts[i][0] == '.' || names.texts[i][0] == '_') continue;
        RK_TRY(rk_path_join(path, names.texts[i], &file));
        RK_TRY(add_path_files(file, depth + 1, out));
    }
    return RK_OK;
}

static rk_status add_path_files(const char *path, int depth, rk_text_list *out) {
    const size_t n_before = out->n;
    if (!is_directory(path)) return rk_text_list_add(out, path);
    RK_TRY(add_directory_files(path, depth, out));
    RK_FAIL_IF(depth == 0 && out->n == n_before, RK_NOT_FOUND, "there is no file in the directory '%s'",
               path);
    return RK_OK;
}

static rk_status expand_pattern(const char *pattern, rk_text_list *out) {
    if (rk_path_is_memory_stream(pattern)) return rk_text_list_add(out, pattern);
    if (!strpbrk(pattern, "*?[") || rk_file_exists(pattern)) return add_path_files(pattern, 0, out);
    glob_t found;
    int code = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (code == GLOB_NOSPACE) return RK_NO_MEMORY_ERROR(0);
    RK_FAIL_IF(code != 0, RK_NOT_FOUND, "no file matches '%s'", pattern);
    rk_status status = RK_OK;
    rk_text_list_sort(&(rk_text_list){found.gl_pathv, found.gl_pathc, 0}); /* glob would by the locale */
    for (size_t i = 0; status == RK_OK && i < found.gl_pathc; i++)
        status = add_path_files(found.gl_pathv[i], 0, out);
    globfree(&found);
    return status;
}

rk_status rk_expand_paths(const char *directory, char *const *paths, size_t n_paths, rk_text_list *out) {
    for (size_t i = 0; i < n_paths; i++) {
        RK_AUTOFREE char *pattern = NULL;
        RK_TRY(rk_path_join(directory, paths[i], &pattern));
        RK_TRY(expand_pattern(pattern, out));
    }
    return RK_OK;
}

/* What stands behind "NAME=" in the last directory of the path that begins so, up to the next '/'; NULL: none
 * does. */
static const char *find_partition_value(const char *path, const char *name) {
    const char *found = NULL;
    const size_t n = strlen(name);
    for (const char *at = path, *end; (end = strchr(at, '/')); at = end + 1)
        if (strncmp(at, name, n) == 0 && at[n] == '=') found = at + n + 1;
    return found;
}

bool rk_path_has_partition_value(const char *path, const char *name) {
    return find_partition_value(path, name) != NULL;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

rk_status rk_path_partition_value(const char *path, const char *name, char **out) {
    static const char none[] = "__HIVE_DEFAULT_PARTITION__";
    const char *from = find_partition_value(path, name);
    char *value;
    RK_TRY(rk_strndup(from, strcspn(from, "/"), &value));
    if (strcmp(value, none) == 0) *value = 0;
    *out = value;
    char *end = value;
    for (from = value; *from; from++) {
        int high = *from == '%' ? hex_digit(from[1]) : -1, low = high >= 0 ? hex_digit(from[2]) : -1;
        *end++ = low >= 0 && high + low > 0 ? (char)(high * 16 + low) : *from;
        if (low >= 0 && high + low > 0) from += 2;
    }
    *end = 0;
    return RK_OK;
}

static bool is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool split_has_file(const rk_split_section *split, const char *directory, const char *path) {
    RK_AUTO(rk_text_list_release) rk_text_list paths = {0};
    bool found = false;
    if (rk_expand_paths(directory, split->path, (size_t)split->n_path, &paths) != RK_OK)
        return false; /* whose files are not there now */
    for (size_t i = 0; i < paths.n; i++) found |= is_same_file(paths.texts[i], path);
    return found;
}

rk_data_section rk_data_section_of_file(const rk_data_section *section, const char *directory,
                                        const char *path) {
    const rk_split_section *const splits[] = {&section->train, &section->valid, &section->test}, *of = NULL;
    for (int i = 0; i < 3 && !of; i++)
        if (splits[i]->line && split_has_file(splits[i], directory, path)) of = splits[i];
    rk_data_section s = rk_data_section_of_split(section, of);
    s.paths_are_callers = true;
    return s;
}
