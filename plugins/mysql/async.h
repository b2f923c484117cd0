/* SPDX-License-Identifier: MIT */
/*
 * async.h - one call of libmariadb by its non-blocking interface, until a deadline or an interrupt.
 * async.c is the only file that waits for the network.
 */
#ifndef MY_ASYNC_H
#define MY_ASYNC_H

#include "connection.h"

enum my_call_kind {
    MY_CONNECT,
    MY_QUERY,
    MY_NEXT,
    MY_STORE,
    MY_PREPARE,
    MY_EXECUTE,
    MY_STMT_STORE
};

struct my_call {
    enum my_call_kind kind;
    const char *text;  /* QUERY, PREPARE; CONNECT: the password */
    MYSQL_STMT *stmt;  /* PREPARE, EXECUTE, STMT_STORE */
    int failed;        /* out: the library's own answer; mysql_errno has the number */
    int pending;       /* of a call that was left: what the library waits for */
    int verdict;       /* out of CONNECT with TLS: see my_peer_verdict_keep */
    bool greeted;      /* CONNECT with TLS: the server offers it */
    MYSQL_RES *result; /* out of STORE */
    /* CONNECT: NULL, or is called with the socket before each wait for it. */
    void (*on_socket)(void *arg, int fd);
    void *on_socket_arg;
};

/* OK: the call has ended, see failed. TIMEOUT, CANCELED: it has not, and never will; the connection
 * is dead. The same with CONFIG: CONNECT with TLS, and the server offers none; it got nothing. */
enum dlock_status my_async_run(struct my_connection *conn, struct my_call *call);

/* The same, but after TIMEOUT and CANCELED the next call of this function goes on. */
enum dlock_status my_async_resume(struct my_connection *conn, struct my_call *call);

/* Sleeps, not past conn->deadline_ns: TIMEOUT. CANCELED: conn->stop. */
enum dlock_status my_async_sleep(struct my_connection *conn, int64_t pause_ns);

/* Says good-bye, waits for nothing, frees conn->mysql. */
void my_async_close(struct my_connection *conn);

#endif
