/* SPDX-License-Identifier: MIT */
/* config.h - the settings of a URI, and the file that it names. */
#ifndef SQLITE_CONFIG_H
#define SQLITE_CONFIG_H

#include <dlock/plugin.h>
#include <stdbool.h>

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

#endif
