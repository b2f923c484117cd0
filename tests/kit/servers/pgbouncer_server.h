/* SPDX-License-Identifier: MIT */
/*
 * pgbouncer_server.h - a pgbouncer of a test's own, on a free port of 127.0.0.1, in front of a
 * PostgreSQL server of the test: database "locks", roles "u" and "least". Its directory is removed
 * with it, and it ends with the process that started it. Started by root, it runs as the user
 * "postgres", or "nobody" if there is none.
 */
#ifndef DLT_PGBOUNCER_SERVER_H
#define DLT_PGBOUNCER_SERVER_H

#include "postgres_server.h"

struct dlt_pgbouncer {
    pid_t pid; /* 0: it does not run */
    unsigned port;
    char directory[DLT_DIRECTORY_SIZE];
    char why[768]; /* after a false */
};

/* mode: "session" or "transaction"; settings: more lines for [pgbouncer], or NULL. Waits until it
 * answers. False: why. */
bool dlt_pgbouncer_start(struct dlt_pgbouncer *pooler, const struct dlt_postgres *server,
                         const char *mode, const char *settings);

/* Runs it again in another mode, on the same port: all its connections have ended meanwhile. */
bool dlt_pgbouncer_again(struct dlt_pgbouncer *pooler, const struct dlt_postgres *server,
                         const char *mode, const char *settings);

/* SIGKILL, and waits for its end. */
void dlt_pgbouncer_kill(struct dlt_pgbouncer *pooler);

/* Ends it, and removes its directory. Harmless twice. */
void dlt_pgbouncer_stop(struct dlt_pgbouncer *pooler);

#endif
