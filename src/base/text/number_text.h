/* Numbers as a CSV file has them: all digits of a whole number, else as few as read back as it (0.1). */
#ifndef RK_NUMBER_TEXT_H
#define RK_NUMBER_TEXT_H

#include "base/text/text.h"

enum { RK_NUMBER_BYTES = 32 };

rk_span rk_format_f32(float value, char scratch[RK_NUMBER_BYTES]);
rk_span rk_format_f64(double value, char scratch[RK_NUMBER_BYTES]);
/* The f64 that the text of an f32 is read as: .1, not .10000000149. What is no number stays as it is. */
double rk_f64_of_f32_text(float value);

#endif
