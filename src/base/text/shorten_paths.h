/* Messages for readers who are not to learn where files stand. */
#ifndef RK_BASE_TEXT_SHORTEN_PATHS_H
#define RK_BASE_TEXT_SHORTEN_PATHS_H

#include "base/buffer.h"

/* A message, in which paths below `root` begin behind it, and of other absolute paths only the last name is
 * left. Paths begin where the message, a word or a quotation does. */
void rk_shorten_paths(const char *message, const char *root, rk_buffer *out);

#endif
