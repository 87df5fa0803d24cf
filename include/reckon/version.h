/* The version of the library: of these headers at compile time, of the library itself at run time.
 * Stable (docs/api.md). */
#ifndef RECKON_VERSION_H
#define RECKON_VERSION_H

#include <reckon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RK_VERSION_MAJOR 0
#define RK_VERSION_MINOR 1
#define RK_VERSION_PATCH 0

/* A version as one number that grows with it: `#if RK_VERSION_NUMBER >= RK_VERSION_MAKE(1, 2, 0)`. */
#define RK_VERSION_MAKE(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
/* That of these headers. */
#define RK_VERSION_NUMBER RK_VERSION_MAKE(RK_VERSION_MAJOR, RK_VERSION_MINOR, RK_VERSION_PATCH)

/* The version of the library in use, "major.minor.patch"; owned by the library. */
RK_API const char *rk_version(void);

#ifdef __cplusplus
}
#endif
#endif
