/* SPDX-License-Identifier: MIT */
/* setup.h - session settings, set and read back, and the kind of the server. */
#ifndef MY_SETUP_H
#define MY_SETUP_H

#include "connection.h"

/* A head that sends nothing for so long is ended by the server. */
#define MY_HEAD_S 3

/* What differs between MariaDB and MySQL. */
struct my_dialect {
    const char *name;
    const char *isolation, *read_only, *statement_time, *statement_time_off;
    bool idle_transaction; /* has idle_transaction_timeout */
    bool mariadb;
    const char *processlist; /* the table of the connections */
    const char *share;       /* ends a locking read in shared mode */
    const char *at_once;     /* begins a statement that fails if the row is locked */
    const char *in_line;     /* one that waits for the row for three quarters of @i
                                microseconds; NULL: all wait */
};

/* CONFIG: a setting that did not take, a server or tables that cannot keep locks. */
enum dlock_status my_setup(struct my_connection *conn, struct dlock_error *err);

#endif
