/* SPDX-License-Identifier: MIT */
/*
 * open_tests.h - what the file of a store defines for open_tests.c, the tests of opening and of
 * forks that are the same for all plugins whose sessions are connections, which are linked with it.
 * The program exports its symbols: the library finds the getaddrinfo and the socket of the tests.
 */
#ifndef DLT_OPEN_TESTS_H
#define DLT_OPEN_TESTS_H

#include "sql_session.h"

struct dlt_open {
    const char *denied;  /* in the message for a wrong password */
    int user_timeout_ms; /* TCP_USER_TIMEOUT of a connection; 0: the system's */
    int lookups;         /* how many name lookups of three attempts run at once */
};

extern const struct dlt_open dlt_open;

/* A target at a server that runs, by its address. */
void dlt_open_session(struct dlt_session *session);

/* A socket that listens, whose clients nobody accepts; address: "127.0.0.1:PORT". */
int dlt_open_silent(char *address, size_t size);

#endif
