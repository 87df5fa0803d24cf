/* Whether a run may go on from a checkpoint of another configuration. */
#ifndef RK_TRAIN_CONFIG_RESUME_CHECK_H
#define RK_TRAIN_CONFIG_RESUME_CHECK_H

#include <stdbool.h>

#include "base/error.h"

/* Both resolved, as YAML. Keys that change no step (epochs, logging, stopping, checkpoints) may differ;
 * RK_CONFIG names the first other key and shows what it was and is. converts: tables may differ, too, the
 * column of timestamps, and whether features are ids or keys. */
rk_status rk_resume_check(const char *stored, const char *now, bool converts);

#endif
