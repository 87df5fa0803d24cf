/* Which files there are, and how each is written. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file/file.h"
#include "base/memory.h"
#include "data/source/source.h"

static bool has_ending(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && memcmp(path + n - m, ending, m) == 0;
}

rk_status rk_source_format(const rk_data_section *section, const char *path, rk_data_format *out) {
    static const struct {
        const char *ending;
        rk_data_format format;
    } endings[] = {{".csv", RK_DATA_CSV},
                   {".txt", RK_DATA_CSV},
                   {".data", RK_DATA_CSV},
                   {".tsv", RK_DATA_TSV},
                   {".libsvm", RK_DATA_LIBSVM},
                   {".svm", RK_DATA_LIBSVM},
                   {".tfrecord", RK_DATA_TFRECORD},
                   {".tfrecords", RK_DATA_TFRECORD},
                   {".rkb", RK_DATA_RKB}};
    /* An rkb file tells itself, whatever the section says of the text files beside it. */
    *out = !has_ending(path, ".rkb") && section ? (rk_data_format)section->format : RK_DATA_AUTO;
    if (*out != RK_DATA_AUTO) return RK_OK;
    char name[4096];
    snprintf(name, sizeof name, "%s", path);
    if (has_ending(name, ".gz")) name[strlen(name) - 3] = 0;
    if (has_ending(name, ".zst")) name[strlen(name) - 4] = 0;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (has_ending(name, endings[i].ending)) {
            *out = endings[i].format;
            return RK_OK;
        }
    bool is_stream =
        rk_file_is_stream(path) && section && section->paths_are_callers && section->train.n_path > 0;
    if (is_stream && !rk_file_is_stream(section->train.path[0])) /* of rows as those that were trained on */
        return rk_source_format(section, section->train.path[0], out);
    return rk_error_hint(rk_error(RK_CONFIG, "'%s': the format cannot be told from the file's name", path),
                         "set data.format to csv, tsv, libsvm, tfrecord, rkb or adjacency");
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static rk_status expand_one(const char *pattern, rk_text_list *out) {
    if (!strpbrk(pattern, "*?[") || rk_path_is_memory(pattern) || rk_file_exists(pattern))
        return rk_text_list_add(out, pattern);
    glob_t found;
    int code = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (code == GLOB_NOSPACE) return RK_NO_MEMORY_ERROR(0);
    RK_FAIL_IF(code != 0, RK_NOT_FOUND, "no file matches '%s'", pattern);
    rk_status status = RK_OK;
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes); /* glob would by the locale */
    for (size_t i = 0; status == RK_OK && i < found.gl_pathc; i++)
        status = rk_text_list_add(out, found.gl_pathv[i]);
    globfree(&found);
    return status;
}

rk_status rk_expand_paths(const char *directory, char *const *paths, size_t n_paths, rk_text_list *out) {
    for (size_t i = 0; i < n_paths; i++) {
        RK_AUTOFREE char *pattern = NULL;
        RK_TRY(rk_path_join(directory, paths[i], &pattern));
        RK_TRY(expand_one(pattern, out));
    }
    return RK_OK;
}

static bool is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool has_file(const rk_split_section *split, const char *directory, const char *path) {
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
        if (splits[i]->line && has_file(splits[i], directory, path)) of = splits[i];
    rk_data_section s = rk_data_section_of_split(section, of);
    s.paths_are_callers = true;
    return s;
}
