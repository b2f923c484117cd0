/* SPDX-License-Identifier: MIT */
/* under_shim.h - test programs that are themselves to run under a shim. */
#ifndef DLT_UNDER_SHIM_H
#define DLT_UNDER_SHIM_H

#include <stdbool.h>

/*
 * The path of the shim's file, in the environment as `variable`. When the program does not run
 * under the shim yet, starts it again with the same arguments, `preload` having set the environment
 * for a file in a directory of its own, and ends with its exit status.
 */
const char *dlt_under_shim(char **argv, const char *variable, bool (*preload)(const char *path));

#endif
