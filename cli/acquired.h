/* SPDX-License-Identifier: MIT */
/* acquired.h - what `dlock run` reports of the locks that it got. */
#ifndef CLI_ACQUIRED_H
#define CLI_ACQUIRED_H

#include "environment.h"
#include "outcome.h"
#include "output.h"

/* With --verbose a line for each name; and the event "acquired": of a set, its fields have the
 * index of the name. */
void acquired_report(const struct cli *cli, struct outcome *outcome, const char *server,
                     const struct environment_lock *locks, size_t count);

#endif
