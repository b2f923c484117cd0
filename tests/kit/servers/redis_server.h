/* SPDX-License-Identifier: MIT */
/*
 * redis_server.h - a redis-server of a test's own: on a free port of 127.0.0.1 and on a unix
 * socket, in a directory of its own, ended with the process that started it.
 */
#ifndef DLT_REDIS_SERVER_H
#define DLT_REDIS_SERVER_H

#include "process.h"

#define DLT_REDIS_ARGS_MAX 48

/* User, and password, of each server who may do what plugins/redis/least.acl says, and nothing
 * else. */
#define DLT_REDIS_LEAST "least"

struct dlt_redis {
    pid_t pid;         /* 0: it does not run */
    unsigned port;     /* plain; with TLS, too */
    unsigned tls_port; /* 0: no TLS */
    char directory[DLT_DIRECTORY_SIZE];
    char socket[80];
    char address[32];                     /* "127.0.0.1:PORT" */
    char why[768];                        /* after a false */
    const char *args[DLT_REDIS_ARGS_MAX]; /* borrowed: "--appendonly", "yes", ..., NULL */
    char tls_files[3][96];                /* what args borrow with TLS */
    bool tls;
    bool paused; /* it answers nothing */
};

/* Starts one that forgets all when it ends, and waits until it answers. args ends with NULL; it may
 * be NULL, and may change what was set before it. It runs with our LD_PRELOAD. False: why. */
bool dlt_redis_start(struct dlt_redis *server, const char *const *args);

/* The same, with TLS on tls_port, and with dlt_certificates_make's certificates in its directory.
 * The server shows the one of this name ("server"). Not to be moved afterwards. */
bool dlt_redis_start_tls(struct dlt_redis *server, const char *certificate, const char *clients);

/* Runs it again, on the same ports and in the same directory. */
bool dlt_redis_again(struct dlt_redis *server);

/* SIGKILL, and waits for the end. */
void dlt_redis_kill(struct dlt_redis *server);
/* SIGSTOP, and SIGCONT. */
void dlt_redis_pause(struct dlt_redis *server, bool pause);

/* Ends it, and removes its directory. Harmless twice. */
void dlt_redis_stop(struct dlt_redis *server);

/* Asks the server, as the default user of database 0, and keeps the answer as text until the next
 * question: a string, a number, "nil", an error, or the elements one a line. */
__attribute__((format(printf, 2, 3))) const char *dlt_redis_ask(struct dlt_redis *server,
                                                                const char *format, ...);

#endif
