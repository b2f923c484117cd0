/* SPDX-License-Identifier: MIT */
#include "told.h"
#include "notices.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAMES = 5, EACH = 4, WAITERS = NAMES * EACH, STILL_MS = 2000, LONG_MS = 10000 };

/* Of what is late on a busy machine, or repeated after a message that crossed it. */
enum { REQUESTS_MOST = 2 };

static struct dlock_client *holder, *waiter;
static struct dlock_handle *held[NAMES], *waiting[WAITERS];

static void want(enum dlock_status status, const char *what)
{
    if (status == DLOCK_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, dlock_status_name((int)status));
    abort();
}

static struct dlock_handle *lock_new(struct dlock_client *client, int name)
{
    const struct dlock_options options = {
        .struct_size = sizeof options, .wait_ms = DLOCK_AS_OPTIONS, .ttl_ms = 300000};
    struct dlock_handle *lock = NULL;
    char text[16];

    (void)snprintf(text, sizeof text, "told-%d", name);
    want(dlock_new(client, text, strlen(text), &options, &lock, NULL), "new");
    return lock;
}

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Until the next DONE, and no longer than until the first poll; each handle that has acquired gives
 * the name back. Returns whether it was an acquisition; -1: none in time. */
static int notice_take(void)
{
    struct pollfd fd = {.fd = dlock_client_fd(waiter), .events = POLLIN};
    struct dlock_notice notice = {.struct_size = sizeof notice};

    if (poll(&fd, 1, LONG_MS) != 1 || dlt_notice_take(waiter, &notice, NULL) != 1)
        return -1;
    want(notice.status, "DONE");
    if (notice.op != DLOCK_OP_LOCK)
        return 0;
    want(dlock_op_start(notice.lock, DLOCK_OP_UNLOCK, 0, NULL), "start unlock");
    return 1;
}

static void begin(const char *uri)
{
    want(dlock_client_open(uri, NULL, &holder, NULL), "open");
    want(dlock_client_open(uri, NULL, &waiter, NULL), "open");
    for (int i = 0; i < NAMES; i++)
        held[i] = lock_new(holder, i);
    for (int i = 0; i < WAITERS; i++)
        waiting[i] = lock_new(waiter, i % NAMES);
}

static void end(void)
{
    for (int i = 0; i < NAMES; i++)
        dlock_free(held[i]);
    for (int i = 0; i < WAITERS; i++)
        dlock_free(waiting[i]);
    dlock_client_close(waiter);
    dlock_client_close(holder);
}

void dlt_told_check(const char *uri, unsigned long (*requests)(void *arg), void *arg)
{
    unsigned long before = 0, after = 0;
    int acquired = 0, taken = 0;

    begin(uri);
    for (int i = 0; i < NAMES; i++)
        want(dlock_trylock(held[i], NULL), "trylock");
    for (int i = 0; i < WAITERS; i++)
        want(dlock_op_start(waiting[i], DLOCK_OP_LOCK, DLOCK_FOREVER, NULL), "start");
    sleep_ms(STILL_MS); /* all of them have asked */
    before = requests(arg);
    sleep_ms(STILL_MS);
    after = requests(arg);
    (void)dlt_ok(after - before <= REQUESTS_MOST,
                 "%d operations that wait made %lu requests in %d ms", WAITERS, after - before,
                 STILL_MS);
    for (int i = 0; i < NAMES; i++)
        want(dlock_unlock(held[i], NULL), "unlock");
    while (acquired < WAITERS && taken >= 0) {
        taken = notice_take();
        acquired += taken > 0;
    }
    (void)dlt_ok(acquired == WAITERS, "%d of %d acquired without a poll", acquired, WAITERS);
    (void)dlt_ok(requests(arg) > after, "what counts requests has counted");
    end();
}

static void try_by_operation(struct dlock_handle *lock)
{
    struct pollfd fd = {.fd = dlock_client_fd(waiter), .events = POLLIN};
    struct dlock_notice notice = {.struct_size = sizeof notice};

    want(dlock_op_start(lock, DLOCK_OP_LOCK, 0, NULL), "start");
    if (poll(&fd, 1, LONG_MS) != 1 || dlt_notice_take(waiter, &notice, NULL) != 1 ||
        notice.status != DLOCK_BUSY)
        want(DLOCK_INTERNAL, "a try of a held name");
}

static void try_by_call(struct dlock_handle *lock)
{
    if (dlock_trylock(lock, NULL) != DLOCK_BUSY)
        want(DLOCK_INTERNAL, "a trylock of a held name");
}

/* A node of a quorum may run a script when the call is long over. */
static unsigned long settled(unsigned long (*requests)(void *arg), void *arg)
{
    unsigned long seen = 0, now = requests(arg);

    do {
        seen = now;
        sleep_ms(200);
        now = requests(arg);
    } while (now != seen);
    return now;
}

void dlt_told_try_check(const char *uri, unsigned long (*requests)(void *arg), void *arg)
{
    unsigned long before = 0, between = 0, after = 0;
    int rounds = 0;

    begin(uri);
    want(dlock_trylock(held[0], NULL), "trylock");
    try_by_call(waiting[0]); /* the server has the scripts */
    do {                     /* a node that is late is asked again, by either */
        before = settled(requests, arg);
        try_by_call(waiting[0]);
        between = settled(requests, arg);
        try_by_operation(waiting[0]);
        after = settled(requests, arg);
    } while (after - between != between - before && ++rounds < 5);
    (void)dlt_ok(after - between == between - before,
                 "an operation that does not wait makes %lu requests, and a call %lu",
                 after - between, between - before);
    want(dlock_unlock(held[0], NULL), "unlock");
    end();
}
