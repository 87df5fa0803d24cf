/* Text inside HTML and SVG. */
#ifndef RK_BASE_TEXT_MARKUP_ESCAPE_H
#define RK_BASE_TEXT_MARKUP_ESCAPE_H

#include "base/buffer.h"

/* The text with &, <, > and quotes escaped; what XML may not hold (control characters, bytes that are not
 * UTF-8) becomes U+FFFD. */
void rk_markup_escape(const char *text, rk_buffer *out);

#endif
