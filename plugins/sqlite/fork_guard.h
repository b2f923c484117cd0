/* SPDX-License-Identifier: MIT */
/*
 * fork_guard.h - noticing that this process is a forked child.
 *
 * SQLite keeps the file locks of a process in tables. A forked child inherits the tables, but the
 * kernel does not give it the locks: a connection that the child makes would believe in locks that
 * are not there. So the child of a process that opened a store must not open one before exec.
 */
#ifndef SQLITE_FORK_GUARD_H
#define SQLITE_FORK_GUARD_H

#include <dlock/plugin.h>
#include <stdbool.h>

/* Remembers this process, once. NOMEM. */
enum dlock_status sqlite_fork_guard_init(struct dlock_error *err);

bool sqlite_fork_guard_is_child(void);

#endif
