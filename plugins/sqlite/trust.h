/* SPDX-License-Identifier: MIT */
/*
 * trust.h - files beside a store that another user may have put there.
 *
 * SQLite believes what it finds in -journal, -wal and -shm. In a directory in which users may make
 * files who may not write the store, these files must belong to the owner of the store.
 */
#ifndef SQLITE_TRUST_H
#define SQLITE_TRUST_H

#include "config.h"

#include <sys/stat.h>

/* True: a user who may not write `file` may have made `sibling`, which is in the same directory. */
bool sqlite_trust_is_foreign(const struct stat *sibling, const struct stat *file,
                             const char *directory);

/* True: users may make files beside the store who may not write it; file: of the store. */
bool sqlite_trust_others_may_make(const struct sqlite_config *config, const struct stat *file);

/* To be called before SQLite opens the store. AUTH: a file beside it is foreign; or others may make
 * files there, and SQLite would make files that are not the owner's. */
enum dlock_status sqlite_trust_check(const struct sqlite_config *config, struct dlock_error *err);

/* To be called after SQLite has read the store, before it writes: -wal and, with index_too, -shm
 * are those of the owner, and SQLite has them open. AUTH, or UNAVAILABLE: they were replaced. */
enum dlock_status sqlite_trust_check_open(const struct sqlite_config *config, bool index_too,
                                          struct dlock_error *err);

/* Before and after both: as root SQLite gives the -wal and -shm that it opens to the owner of the
 * store, and a foreign one would look like the owner's. Takes the right to do so from this thread
 * if root owns the store, and others may make files there; what root makes has the group of the
 * store nevertheless. False: it did not. *group: for restore. */
bool sqlite_trust_chown_drop(const struct sqlite_config *config, gid_t *group);
void sqlite_trust_chown_restore(gid_t group);

/* The name of a VFS that is SQLite's "unix", but does not see a foreign -journal: SQLite would play
 * it back in its first read. NULL: there is no VFS "unix", or no memory. */
const char *sqlite_trust_vfs(void);

#endif
