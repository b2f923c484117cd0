/* SPDX-License-Identifier: MIT */
/* version.c - the functions of version.h. */
#include <dlock/version.h>

#define TEXT_OF(number)           #number
#define TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

/* How much of a number has to be the same: the major version, or that and the minor one. */
#define SERIES (DLOCK_VERSION_MAJOR == 0 ? 1000 : 1000000)

const char *dlock_version(void)
{
    return TEXT(DLOCK_VERSION_MAJOR, DLOCK_VERSION_MINOR, DLOCK_VERSION_PATCH);
}

bool dlock_version_serves(int number)
{
    return number >= 0 && number / SERIES == DLOCK_VERSION_NUMBER / SERIES &&
           number <= DLOCK_VERSION_NUMBER;
}
