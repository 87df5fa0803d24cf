/* A run file's settings as a flat list, so that those of several runs can be put side by side. */
#ifndef RK_REPORT_RUN_SETTINGS_H
#define RK_REPORT_RUN_SETTINGS_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/text/text_list.h"

/* "model.dropout" = "0.2"; an entry of a list that has a name or a kind goes by it:
 * "data.features[age].hash". */
typedef struct rk_setting {
    char *key, *value;
} rk_setting;

typedef struct rk_settings {
    rk_setting *list; /* [n], in the file's order */
    size_t n, capacity;
} rk_settings;

/* Of a resolved run file. */
rk_status rk_settings_read(const char *yaml, rk_settings *out);
void rk_settings_release(rk_settings *settings);
const char *rk_settings_find(const rk_settings *settings, const char *key); /* NULL: it is not there */

/* Adds the keys that have not the same value in all of them, each once; train.output is left out. Of a
 * section, or an entry of a list, that only some of them have there is one: "train.plateau",
 * "data.features[]". */
rk_status rk_settings_list_differing(const rk_settings *settings, size_t n_settings, rk_text_list *keys);
/* What settings `which` say of such a key, into out: the value, or a few of the section's, or names of a few
 * entries that others lack; "": nothing. */
void rk_settings_write_value(const rk_settings *settings, size_t n_settings, size_t which, const char *key,
                             rk_buffer *out);

#endif
