/* SPDX-License-Identifier: MIT */
/*
 * default_uri.h - which URI applies when: the caller's, else the environment's DLOCK_URI, else the
 * embedded default, a SQLite file with one path for each user; and "@/path", a URI kept in a file.
 * docs/adr/0003-embedded-default-path.md has the reasons.
 */
#ifndef DL_DEFAULT_URI_H
#define DL_DEFAULT_URI_H

#include <dlock/status.h>
#include <sys/types.h>

/*
 * uri: of the caller, or NULL. *text: the URI that applies; caller frees it with dl_secret_free.
 * *what: "URI", "DLOCK_URI", "@/path" or "default URI", for messages; caller frees. Both stay NULL
 * on failure. INVALID, CONFIG (no place for the embedded default) or NOMEM.
 */
enum dlock_status dl_default_uri(const char *uri, char **text, char **what,
                                 struct dlock_error *err);

/* The database of a user: /var/lib/dlock/locks.db for root, else .local/state/dlock/locks.db in
 * the home directory of the password database. Caller frees. CONFIG: there is none. */
enum dlock_status dl_default_path(uid_t uid, char **path, struct dlock_error *err);

/*
 * Makes the directory of `file` with mode 0700, and its parents where they are missing. CONFIG: it
 * cannot be made, or is there and belongs to another user or may be written by others.
 */
enum dlock_status dl_default_directory(const char *file, struct dlock_error *err);

#endif
