/* SPDX-License-Identifier: MIT */
/* config.h - the settings of a URI, the file that it names, and the path to that file. */
#ifndef SQLITE_CONFIG_H
#define SQLITE_CONFIG_H

#include <dlock/plugin.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define SQ_REAL_MAX 500 /* bytes of a path: SQLite takes 512, with a suffix */

/* How the file may be used. */
enum sqlite_access {
    SQ_ACCESS_WRITE,
    SQ_ACCESS_READ,    /* with the -wal and -shm of other users, which this user cannot make */
    SQ_ACCESS_SNAPSHOT /* nobody has it open, so that there are no -wal and -shm */
};

struct sqlite_config {
    char *path;            /* absolute, as in the URI */
    char *real;            /* the same without symbolic links */
    char *directory;       /* of real */
    int64_t waiter_ttl_ms; /* how long a queue entry lasts, and a grant to a waiter */
    bool create;           /* false: nothing is made or changed by opening; else NO_STORE */
    bool full;             /* sync=full */
    enum sqlite_access access;
};

/* The directory must be there; the file may be missing if `create` is set. If it is not set, a user
 * without the right to write gets access to read. INVALID, CONFIG, AUTH, NOMEM, NO_STORE. */
enum dlock_status sqlite_config_init(struct sqlite_config *config,
                                     const struct dlock_target *target, struct dlock_error *err);
void sqlite_config_fini(struct sqlite_config *config);

enum dlock_status sqlite_config_no_store(const struct sqlite_config *config,
                                         struct dlock_error *err);

/* CONFIG: fills err for a store that has to be written, and may be read only. */
enum dlock_status sqlite_config_read_only(const struct sqlite_config *config,
                                          struct dlock_error *err);

/* The permissions of the file allow this process R_OK or W_OK. */
bool sqlite_config_may(const struct sqlite_config *config, int mode);

/* 0, or the errno for which this process cannot make files in the directory. */
int sqlite_config_directory_errno(const struct sqlite_config *config);

/* False: "<real><suffix>" certainly does not exist now. */
bool sqlite_config_has_sibling(const struct sqlite_config *config, const char *suffix);

/* A new string "<real><suffix>"; NULL: no memory. The caller frees it. */
char *sqlite_config_sibling(const struct sqlite_config *config, const char *suffix);

/* False: other hosts may use the same files, or nobody knows. */
bool sqlite_config_is_local(const char *directory);

/* Its name, as "ext4"; or its number in hex, in buf. */
const char *sqlite_config_filesystem(const char *directory, char *buf, size_t size);

/* False: another user may have put this entry into the directory, which has the sticky bit, and in
 * which everybody may make files. The owner of the directory and this user are trusted. */
bool sqlite_config_may_follow(const char *directory, const struct stat *entry);

/* AUTH: fills err for such an entry. */
enum dlock_status sqlite_config_refuse(const char *path, struct dlock_error *err);

#endif
