/* SPDX-License-Identifier: MIT */
/*
 * default_uri.h - which URI applies when: the caller's, else the environment's DLOCK_URI, else the
 * embedded default, a SQLite file with one path for each user; and "@/path", a URI kept in a file.
 * docs/adr/0003-embedded-default-path.md has the reasons.
 */
#ifndef DL_DEFAULT_URI_H
#define DL_DEFAULT_URI_H

#include "lib/text_file.h"

#include <dlock/types.h>
#include <stdbool.h>
#include <sys/types.h>

/* The URI that applies, and where it comes from. */
struct dl_default_uri_source {
    char *text;                /* may hold a password */
    char *what;                /* for messages: "URI", "DLOCK_URI", "@/path" or "default URI" */
    char *file;                /* NULL, or the path of the file that the text was read from */
    enum dl_exposure exposure; /* of that file */
};

/*
 * uri: of the caller, or NULL. create: make the directory of the embedded default. out: for
 * dl_default_uri_fini, also after a failure. INVALID, CONFIG (no place for the embedded default),
 * NO_STORE (its directory is not there, and create is false) or NOMEM.
 */
enum dlock_status dl_default_uri(const char *uri, bool create, struct dl_default_uri_source *out,
                                 struct dlock_error *err);
void dl_default_uri_fini(struct dl_default_uri_source *source);

/* The database of a user: /var/lib/dlock/locks.db for root, else .local/state/dlock/locks.db in
 * the home directory of the password database. Caller frees. CONFIG: there is none. */
enum dlock_status dl_default_path(uid_t uid, char **path, struct dlock_error *err);

/*
 * create: makes the directory of `file` with mode 0700, and its parents where they are missing;
 * else NO_STORE if it is not there. CONFIG: it cannot be made, or is there and belongs to another
 * user or may be written by others.
 */
enum dlock_status dl_default_directory(const char *file, bool create, struct dlock_error *err);

#endif
