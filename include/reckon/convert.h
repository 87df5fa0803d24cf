/* Files from one format to another: csv, libsvm, tfrecord, rkb; out of Parquet.
 * Stable (docs/api.md). */
#ifndef RECKON_CONVERT_H
#define RECKON_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include <reckon/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_convert_options {
    size_t struct_size;
    const char *from, *to; /* "csv", "tsv", "libsvm", "tfrecord", "rkb", from "parquet"; NULL: by the file
                            * names */
    const rk_config
        *config; /* how to read the input (separator, header, columns); NULL: a header line and ',' (csv) */
    bool skip_bad_rows;
    int compression_level; /* rkb's zstd level; 0: the default, 3; negative: none */
    /* Called now and then; fraction < 0: unknown. Returning true asks to stop (RK_INTERRUPTED). May be
     * NULL. */
    bool (*on_progress)(void *user, int64_t n_rows, double fraction);
    void *user;
} rk_convert_options;
#define RK_CONVERT_OPTIONS_INIT \
    { sizeof(rk_convert_options), 0, 0, 0, false, 0, 0, 0 }

/* input: a file, a pattern, or a directory. *n_rows written, *n_skipped bad. The output appears whole or not
 * at all. */
RK_API rk_status rk_convert(const char *input, const char *output, const rk_convert_options *options,
                            int64_t *n_rows, int64_t *n_skipped);

#ifdef __cplusplus
}
#endif
#endif
