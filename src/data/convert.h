/* rk_convert, from its parts. */
#ifndef RK_DATA_CONVERT_H
#define RK_DATA_CONVERT_H

#include <reckon/convert.h>

#include "data/data_config.h"

/* section: how to read the input (NULL: defaults). options->config is not looked at. */
rk_status rk_data_convert(const char *input, const char *output, const rk_convert_options *options,
                          const rk_data_section *section, int64_t *n_rows, int64_t *n_skipped);

#endif
