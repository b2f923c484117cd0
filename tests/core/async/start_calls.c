/* SPDX-License-Identifier: MIT */
/*
 * start_calls.c - a loop of dlock_op_start, between two calls of access(2) that start_calls.sh
 * looks for. It begins while the driver waits in the store for another operation.
 *
 *     start_calls URI
 */
#include "../../kit/notices.h"

#include <dlock/dlock.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOCKS = 1000, LONG_MS = 60000 };

static struct dlock_client *client, *other;
static struct dlock_handle *locks[LOCKS], *held, *waiting;

static void want(enum dlock_status status, const char *what)
{
    if (status == DLOCK_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, dlock_status_name((int)status));
    exit(1);
}

static void start_all(enum dlock_op op)
{
    for (int i = 0; i < LOCKS; i++)
        want(dlock_op_start(locks[i], op, LONG_MS, NULL), "start");
}

static void done_all(void)
{
    struct pollfd fd = {.fd = dlock_client_fd(client), .events = POLLIN};
    struct dlock_notice notice = {.struct_size = sizeof notice};

    for (int i = 0; i < LOCKS; i++) {
        if (poll(&fd, 1, LONG_MS) != 1 || dlt_notice_take(client, &notice, NULL) != 1)
            want(DLOCK_TIMEOUT, "next");
        want(notice.status, "DONE");
    }
}

static struct dlock_handle *lock_new(struct dlock_client *of, int number)
{
    struct dlock_handle *lock = NULL;
    char name[16];

    (void)snprintf(name, sizeof name, "start-%d", number);
    want(dlock_new(of, name, strlen(name), NULL, &lock, NULL), "new");
    return lock;
}

/* An operation waits, and the driver with it. */
static void wait_in_the_store(const char *uri)
{
    want(dlock_client_open(uri, NULL, &other, NULL), "open");
    held = lock_new(other, LOCKS);
    want(dlock_trylock(held, NULL), "trylock");
    waiting = lock_new(client, LOCKS);
    want(dlock_op_start(waiting, DLOCK_OP_LOCK, DLOCK_FOREVER, NULL), "start");
    (void)poll(NULL, 0, 500);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 64;
    want(dlock_client_open(argv[1], NULL, &client, NULL), "open");
    for (int i = 0; i < LOCKS; i++)
        locks[i] = lock_new(client, i);
    start_all(DLOCK_OP_LOCK); /* makes the threads, and the room for the notices of each handle */
    done_all();
    start_all(DLOCK_OP_UNLOCK);
    done_all();
    wait_in_the_store(argv[1]);
    (void)!access("/the-loop-begins", F_OK);
    start_all(DLOCK_OP_LOCK);
    (void)!access("/the-loop-ends", F_OK);
    done_all();
    for (int i = 0; i < LOCKS; i++)
        dlock_free(locks[i]);
    dlock_free(waiting);
    dlock_free(held);
    dlock_client_close(other);
    dlock_client_close(client);
    return 0;
}
