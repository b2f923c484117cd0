/* SPDX-License-Identifier: MIT */
/*
 * maria_server.h - a mariadbd of a test's own: on a free port of 127.0.0.1 and on a unix socket,
 * with a database "locks" and a user "u" (password "secret") who may do everything in it. Its
 * directory is removed with it, and it ends with the process that started it. With DLT_REAL_MYSQL
 * in the environment it is the mysqld of Debian sid instead.
 */
#ifndef DLT_MARIA_SERVER_H
#define DLT_MARIA_SERVER_H

#include "process.h"

#define DLT_MARIA_ARGS_MAX 32

struct dlt_maria {
    pid_t pid; /* 0: it does not run */
    unsigned port;
    char directory[DLT_DIRECTORY_SIZE];
    char socket[80];
    char address[32];                     /* "127.0.0.1:PORT" */
    char why[768];                        /* after a false */
    const char *args[DLT_MARIA_ARGS_MAX]; /* borrowed: "--sql-mode=", ..., NULL */
    char tls_files[3][96];                /* what args borrow with TLS */
    bool borrowed;                        /* somebody else's */
};

/* Makes one, which runs with our LD_PRELOAD, and waits until it answers. args ends with NULL, and
 * may be NULL. False: why. */
bool dlt_maria_start(struct dlt_maria *server, const char *const *args);

/* The same, with TLS on the same port, and with dlt_certificates_make's certificates in its
 * directory. The server shows the one of this name ("server"), and knows the clients that "ca" has
 * signed. Not to be moved afterwards. */
bool dlt_maria_start_tls(struct dlt_maria *server, const char *certificate,
                         const char *const *args);

/* The one that with_server started; one of its own if there is none. */
bool dlt_maria_borrow(struct dlt_maria *server);

/* Runs it again, on the same port and with the same data. */
bool dlt_maria_again(struct dlt_maria *server);

/* SIGKILL, and waits for the end. */
void dlt_maria_kill(struct dlt_maria *server);
/* SIGSTOP, and SIGCONT. */
void dlt_maria_pause(struct dlt_maria *server, bool pause);

/* Ends it, and removes its directory; nothing happens to one that was borrowed. */
void dlt_maria_stop(struct dlt_maria *server);

/* Asks it as its administrator, in the database "locks", one statement or several. The answer is
 * valid until the next question of this thread: the values of the first row of the last of them
 * that has rows, with blanks between them; "" when there is none; the error otherwise. */
__attribute__((format(printf, 2, 3))) const char *dlt_maria_ask(const struct dlt_maria *server,
                                                                const char *format, ...);

#endif
