/* SPDX-License-Identifier: MIT */
/*
 * run_server.h - a server that lives for one run of ctest, and that tests share: the fixtures of
 * servers.cmake begin it and end it. It belongs to the process of ctest, so that two runs in one
 * build tree have servers of their own, and it ends with that process, however it ends. A file that
 * says where it is (KIND.PID-OF-CTEST) is locked for as long as it runs: one that a killed run has
 * left behind says nothing.
 */
#ifndef DLT_RUN_SERVER_H
#define DLT_RUN_SERVER_H

#include "kinds.h"

#include <stdio.h>

/* Begins one for the parent process, and returns when it answers; ends it. They print TAP, and
 * return an exit code. `print` writes what tests have to know, a "NAME=VALUE" a line. */
int dlt_run_begin(const struct dlt_kind *kind,
                  void (*print)(FILE *file, const struct dlt_server *server));
int dlt_run_end(const struct dlt_kind *kind);

/* Do we have to use the one of the run? DLT_RUN_SERVER of the environment says of which kind. */
bool dlt_run_wanted(const struct dlt_kind *kind);
/* The lines that `print` wrote, of the run that we are a process of. NULL: it has none. */
FILE *dlt_run_open(const struct dlt_kind *kind);

#endif
