/* SPDX-License-Identifier: MIT */
/* grant.h - the line on standard output that tells a script what it got. */
#ifndef CLI_GRANT_H
#define CLI_GRANT_H

#include "acquire.h"

/* Prints the token and the fence of the lock, on one line in either form: "TOKEN FENCE", with "-"
 * for a store without fencing tokens; with --json an object. Returns the exit code: of a failed
 * write, else 0. */
int grant_print(const struct acquire *acquire);

#endif
