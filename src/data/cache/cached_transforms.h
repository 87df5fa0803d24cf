/* rk_transforms_fit_section, except that what an earlier run has fitted to the same data is taken from the
 * cache, and what is fitted now is kept there. */
#ifndef RK_DATA_CACHE_CACHED_TRANSFORMS_H
#define RK_DATA_CACHE_CACHED_TRANSFORMS_H

#include "data/transform/transforms.h"

rk_status rk_cached_transforms_fit(const rk_data_section *section, const rk_yaml *yaml,
                                   const rk_fit_options *options, rk_transforms **out);
/* What was fitted, as one number: rows depend on it. */
rk_status rk_transforms_hash(const rk_transforms *transforms, uint64_t *out);

#endif
