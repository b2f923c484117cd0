/* SPDX-License-Identifier: MIT */
/*
 * version.h - the version of dlock: that of the headers as macros, that of the library as
 * functions.
 *
 * The build system reads the three numbers from here.
 */
#ifndef DLOCK_VERSION_H
#define DLOCK_VERSION_H

#include <dlock/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLOCK_VERSION_MAJOR 0
#define DLOCK_VERSION_MINOR 9
#define DLOCK_VERSION_PATCH 0

/* One number that rises with each version: 1002003 is 1.2.3. */
#define DLOCK_VERSION_NUMBER \
    (DLOCK_VERSION_MAJOR * 1000000 + DLOCK_VERSION_MINOR * 1000 + DLOCK_VERSION_PATCH)

/* The version of the library that runs: "0.9.0". */
DLOCK_API const char *dlock_version(void);

/*
 * Returns true if the library that runs serves a program that was compiled with headers of version
 * `number`: it has the same major version, and is not older. While the major version is 0, the
 * minor version must be the same, too.
 */
DLOCK_API bool dlock_version_serves(int number);

/* Checks these headers against the library that runs. */
#define DLOCK_VERSION_CHECK() dlock_version_serves(DLOCK_VERSION_NUMBER)

#ifdef __cplusplus
}
#endif
#endif
