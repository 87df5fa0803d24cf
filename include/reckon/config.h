/* A run file (YAML), checked and resolved. docs/config.md lists every key.
 * Stable (docs/api.md). */
#ifndef RECKON_CONFIG_H
#define RECKON_CONFIG_H

#include <stddef.h>

#include <reckon/arrow.h>
#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_config rk_config;

/* Read a run file. overrides [n]: "train.optimizer.learning_rate=0.1", applied in order. Relative paths in
 * the file are relative to the file's directory, those in overrides to the current one. Any mistake is
 * RK_CONFIG with "file:line: key '...': ..." and a hint. */
RK_API rk_status rk_config_load(const char *path, const char *const *overrides, size_t n_overrides,
                                rk_config **out);
/* The same from text; `name` stands for the file in messages, `directory` (NULL: the current one) is what
 * paths are relative to. */
RK_API rk_status rk_config_parse(const char *text, const char *name, const char *directory,
                                 const char *const *overrides, size_t n_overrides, rk_config **out);
RK_API void rk_config_free(rk_config *config);

/* Begins a stream of the Arrow C data interface: sets *out and returns 0, or returns an errno value. */
typedef int (*rk_open_stream)(void *user, struct ArrowArrayStream *out);

/* Rows from memory in place of files: where data of the run file or of a call has the path "arrow:NAME"
 * (data.train: arrow:train), its rows are those of a stream that `open` begins. Each pass over the rows
 * begins one (to fit transforms, for an epoch, for an evaluation), and all must have the same rows in the
 * same order. Arrays are structs ('+s') of any number of rows, whose children are found by name, and are of
 * the types that rk_transforms_apply takes; nulls are missing values.
 *
 * Numbers of 8 bytes and float32 without nulls, and all texts, are read where they stand. The library
 * releases each array and each stream when it has been read, or is not needed any more. `open`, a stream's
 * functions and releases are called on any thread, but one at a time for each stream; several streams may be
 * open at once.
 *
 * To be called before any other function has the config. `open` and `user` must outlive the config and what
 * is made from it. Errors: RK_INVALID_ARGUMENT: no open, an empty name or a second stream of the name.
 * Reading fails with RK_IO and the stream's own message where the stream fails, and names row (from 0) and
 * column. */
RK_API rk_status rk_config_add_stream(rk_config *config, const char *name, rk_open_stream open, void *user);

/* The whole configuration with every default filled in, as YAML. Free with rk_text_free. */
RK_API rk_status rk_config_to_yaml(const rk_config *config, char **out);
/* A Markdown reference of every key. Free with rk_text_free. */
RK_API rk_status rk_config_reference(char **out);
RK_API void rk_text_free(char *text);

/* The directory that the run writes to (train.output). */
RK_API const char *rk_config_output(const rk_config *config);
/* Seconds that one rank waits for another (cluster.timeout_s): for rk_comm_world. */
RK_API double rk_config_timeout_s(const rk_config *config);

#ifdef __cplusplus
}
#endif
#endif
