/* SPDX-License-Identifier: MIT */
/* connect_thread.h - a connection is made by a thread that may be abandoned. */
#ifndef MY_CONNECT_THREAD_H
#define MY_CONNECT_THREAD_H

#include "async.h"

/* Once in a process; non-zero: no memory. */
int my_connect_thread_init(void);

/* my_async_run of MY_CONNECT. NOMEM: no memory or no thread. TIMEOUT: the thread goes on for a
 * while, and the next call for that client may get its connection. */
enum dlock_status my_connect_thread_run(struct my_connection *conn, struct my_call *call);

/* No more calls for this client (conn->host) come. */
void my_connect_thread_end(const void *client);

#endif
