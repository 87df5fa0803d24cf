/* The data files of a run, as they were when it began, so that a resumed run notices changed ones. Manifests
 * keep them. */
#ifndef RK_TRAIN_SOURCE_INPUT_FINGERPRINTS_H
#define RK_TRAIN_SOURCE_INPUT_FINGERPRINTS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "train/config/run_config.h"

/* A file's size, and the checksum of its beginning, its end and places between: all of a small one. -1: it is
 * no ordinary file, and nothing is known of it. */
typedef struct rk_input {
    int64_t n_bytes, crc32c;
} rk_input;

enum { RK_INPUT_TRAIN, RK_INPUT_VALID, RK_INPUT_JOINS, RK_INPUT_KINDS };
typedef struct rk_input_fingerprints {
    rk_input *files[RK_INPUT_KINDS];    /* [n] */
    rk_text_list paths[RK_INPUT_KINDS]; /* n; of a manifest's: none */
    size_t n[RK_INPUT_KINDS];
} rk_input_fingerprints;

void rk_input_fingerprints_release(rk_input_fingerprints *inputs);
rk_status rk_input_fingerprints_compute(const rk_config *config, rk_input_fingerprints *out);
/* RK_CONFIG names the first file that is another, or says that there are more or fewer. */
rk_status rk_input_fingerprints_compare(const rk_input_fingerprints *then, const rk_input_fingerprints *now);

json_t *rk_input_fingerprints_to_json(const rk_input_fingerprints *inputs);          /* NULL: out of memory */
rk_status rk_input_fingerprints_from_json(json_t *json, rk_input_fingerprints *out); /* RK_BAD_DATA */

#endif
