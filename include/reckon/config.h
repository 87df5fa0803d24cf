/* A run file (YAML), checked and resolved. docs/config.md lists every key.
 * Stable (docs/api.md). */
#ifndef RECKON_CONFIG_H
#define RECKON_CONFIG_H

#include <stddef.h>

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
