/* SPDX-License-Identifier: MIT */
/*
 * postgres_server.h - a PostgreSQL server of a test's own: on a free port of 127.0.0.1 and on a
 * unix socket, with a database "locks". Its directory is removed with it, and it ends with the
 * process that started it. Started by root, it runs as the user "postgres", or "nobody" if there is
 * none.
 *
 * Roles: "u" (password "secret") owns the database; "least" (password "least") may connect, and has
 * no right to create anything; "certified" logs in with a client's certificate, over TLS, and owns
 * what u owns. All but the administrator show their password, on the unix socket as well.
 */
#ifndef DLT_POSTGRES_SERVER_H
#define DLT_POSTGRES_SERVER_H

#include "process.h"

#define DLT_POSTGRES_ARGS_MAX 32

struct dlt_postgres {
    pid_t pid; /* 0: it does not run */
    unsigned port;
    char directory[DLT_DIRECTORY_SIZE]; /* the unix socket's directory; the data is in "data" */
    char socket[80];                    /* the unix socket: "DIRECTORY/.s.PGSQL.PORT" */
    char address[32];                   /* "127.0.0.1:PORT" */
    char why[768];                      /* after a false */
    const char *args[DLT_POSTGRES_ARGS_MAX]; /* borrowed: "-c", "fsync=off", ..., NULL */
    char tls_files[3][128];                  /* what args borrow with TLS */
    bool borrowed;                           /* somebody else's */
};

/* Makes one, which runs with our LD_PRELOAD, and waits until it answers. args ends with NULL, and
 * may be NULL: all settings have the defaults of PostgreSQL, fsync is on. False: why. */
bool dlt_postgres_start(struct dlt_postgres *server, const char *const *args);

/* The same, with TLS on the same port, and with dlt_certificates_make's certificates in its
 * directory. The server shows the one of this name ("server"), and knows the clients that "ca" has
 * signed. Not to be moved afterwards. */
bool dlt_postgres_start_tls(struct dlt_postgres *server, const char *certificate,
                            const char *const *args);

/* The one that with_server started; one of its own if there is none. */
bool dlt_postgres_borrow(struct dlt_postgres *server);

/* Runs it again, on the same port and with the same data. The arguments in server->args count. */
bool dlt_postgres_again(struct dlt_postgres *server);

/* SIGKILL to the server and all its processes, and waits for their end: what a crash of the machine
 * is like, except that the operating system has what was written. */
void dlt_postgres_kill(struct dlt_postgres *server);
/* SIGSTOP, and SIGCONT, to the server and all its processes. */
void dlt_postgres_pause(struct dlt_postgres *server, bool pause);

/* Ends it, and removes its directory; nothing happens to one that was borrowed. Harmless twice. */
void dlt_postgres_stop(struct dlt_postgres *server);

/* Asks it as its administrator, in the database "locks", one statement or several. The answer is
 * valid until the next question of this thread: the values of the first row of the last statement,
 * with blanks between them; "" when there is none; the error otherwise. */
__attribute__((format(printf, 2, 3))) const char *
dlt_postgres_ask(const struct dlt_postgres *server, const char *format, ...);

#endif
