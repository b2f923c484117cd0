/* SPDX-License-Identifier: MIT */
/*
 * hiding_proxy.h - a proxy before one server that keeps its clients' connections when the server's
 * end, and connects to the server again: clients do not see a restart, as behind a proxy that
 * speaks the protocol. For clients that do not log in, and have no request under way then.
 */
#ifndef DLT_HIDING_PROXY_H
#define DLT_HIDING_PROXY_H

#include <pthread.h>
#include <stdbool.h>

struct dlt_hiding_proxy {
    int listener, stop[2];
    unsigned to;
    char address[32]; /* "127.0.0.1:PORT" */
    pthread_t thread;
};

/* To this port of 127.0.0.1. It serves eight connections. */
bool dlt_hiding_proxy_start(struct dlt_hiding_proxy *proxy, unsigned port);
void dlt_hiding_proxy_stop(struct dlt_hiding_proxy *proxy);

/* A connection to this port of 127.0.0.1, for which it waits for 4 s; -1: there is none. */
int dlt_hiding_proxy_dial(unsigned port);

#endif
