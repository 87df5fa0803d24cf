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
typedef struct rk_inputs {
    rk_input *files[RK_INPUT_KINDS];    /* [n] */
    rk_text_list paths[RK_INPUT_KINDS]; /* n; of a manifest's: none */
    size_t n[RK_INPUT_KINDS];
} rk_inputs;

void rk_inputs_release(rk_inputs *inputs);
rk_status rk_inputs_fingerprint(const rk_config *config, rk_inputs *out);
/* RK_CONFIG names the first file that is another, or says that there are more or fewer. */
rk_status rk_inputs_compare(const rk_inputs *then, const rk_inputs *now);

json_t *rk_inputs_to_json(const rk_inputs *inputs);          /* NULL: out of memory */
rk_status rk_inputs_from_json(json_t *json, rk_inputs *out); /* RK_BAD_DATA */

#endif
