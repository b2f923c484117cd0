/* SPDX-License-Identifier: MIT */
/* Tests: plugins/redlock/wait.c */
/* Does one thread hear when a majority is free for an attempt of a client? Three real servers, the
 * slots of the plugin (C19, ANY, INT-4). */
#include "batch_calls.h"
#include "client.h"
#include "redis_server.h"
#include "redlock_slots.h"
#include "session.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define NODES  3
#define TTL_MS 120000

static struct dlt_redis servers[NODES];
static struct dlt_session holder, waiter; /* of two clients */
static struct dlt_request held, other, a, b;

static void open_at(struct dlt_session *session)
{
    const char *addresses[NODES];

    for (unsigned i = 0; i < NODES; i++)
        addresses[i] = servers[i].address;
    dlt_redlock_target(session, addresses, NODES);
    cr_assert_eq(dlt_session_open(session), DLOCK_OK, "%s", session->err.message);
}

static void request(struct dlt_session *session, struct dlt_request *req, const char *name,
                    unsigned char owner, uint32_t number)
{
    dlt_request(session, req, name, owner, TTL_MS);
    req->req.waiter = number;
}

/* As dlt_watch, for all. Returns the numbers as bits; 0: *status is not OK. */
static unsigned wait_any(int64_t ms, enum dlock_status *status)
{
    uint32_t numbers[4];
    size_t count = 4;
    unsigned bits = 0;

    *status = waiter.ops->wait_any(waiter.self, numbers, &count, dlt_host_in(waiter.shared, ms),
                                   &waiter.err);
    for (size_t i = 0; *status == DLOCK_OK && i < count; i++)
        bits |= 1u << numbers[i];
    return bits;
}

#define WANT(ms, want_status, want_bits)                                                \
    do {                                                                                \
        enum dlock_status status_ = DLOCK_INTERNAL;                                     \
        unsigned bits_ = wait_any(ms, &status_);                                        \
        cr_assert_eq(status_, want_status, "%d: %s", (int)status_, waiter.err.message); \
        cr_assert_eq(bits_, (unsigned)(want_bits), "attempts with the bits %x", bits_); \
    } while (0)

/* Both ask and wait; one that is told to ask again does so, also when the time of that comes later.
 */
static enum dlock_status both_wait(int64_t ms)
{
    enum dlock_status status = DLOCK_OK;
    struct dlt_request *both[] = {&a, &b};

    for (int round = 0; round < 20 && status == DLOCK_OK; round++) {
        for (size_t i = 0; i < 2; i++)
            cr_assert_eq(dlt_try(&waiter, both[i]), DLOCK_BUSY, "%s", waiter.err.message);
        (void)wait_any(ms, &status);
    }
    return status;
}

/* A node that answered too late has nothing of the lease, and the next renewal gives it. */
static void held_everywhere(struct dlt_request *req, const char *key)
{
    bool everywhere = false;

    for (int round = 0; round < 200 && !everywhere; round++) {
        everywhere = true;
        for (unsigned i = 0; i < NODES; i++)
            everywhere &= strcmp(dlt_redis_ask(&servers[i], "EXISTS %s", key), "1") == 0;
        if (!everywhere) {
            (void)dlt_renew(&holder, req);
            dlt_sleep_ms(50);
        }
    }
    cr_assert(everywhere, "%s: %s", key, holder.err.message);
}

static void set_up(void)
{
    for (unsigned i = 0; i < NODES; i++)
        cr_assert(dlt_redis_start(&servers[i], NULL), "%s", servers[i].why);
    open_at(&holder);
    open_at(&waiter);
    request(&holder, &held, "job", 'h', 0);
    request(&holder, &other, "other", 'o', 0);
    cr_assert_eq(dlt_try(&holder, &held), DLOCK_OK, "%s", holder.err.message);
    cr_assert_eq(dlt_try(&holder, &other), DLOCK_OK, "%s", holder.err.message);
    held_everywhere(&held, "rl:{job}");
    held_everywhere(&other, "rl:{other}");
    request(&waiter, &a, "job", 'a', 7);
    request(&waiter, &b, "other", 'b', 8);
    cr_assert_eq(both_wait(1000), DLOCK_TIMEOUT, "both wait: %s", waiter.err.message);
}

static void tear_down(void)
{
    waiter.ops->forget(waiter.self, &a.req);
    waiter.ops->forget(waiter.self, &b.req);
    dlt_session_close(&waiter);
    dlt_session_close(&holder);
    for (unsigned i = 0; i < NODES; i++)
        dlt_redis_stop(&servers[i]);
}

TestSuite(redlock_any, .init = set_up, .fini = tear_down, .timeout = 120);

/* On one of three nodes the holder's lease is gone: too few, but nobody sends more. */
Test(redlock_any, ANY_1_an_attempt_for_which_too_few_nodes_are_free_asks_again_later)
{
    (void)dlt_redis_ask(&servers[0], "DEL rl:{job}");
    (void)dlt_redis_ask(&servers[0], "DEL rl:job");
    cr_assert_eq(dlt_try(&waiter, &a), DLOCK_BUSY);
    WANT(20000, DLOCK_OK, 1u << 7);
}

/* Another thread asks for the attempt, and finds one node free. The thread that waits for all has
 * to know, because the attempt is due sooner than what it sleeps for. */
Test(redlock_any, ANY_1_what_another_thread_finds_wakes_the_one_that_waits)
{
    struct waiters *waiters = &((struct redlock_session *)waiter.self)->client->subscriber.waiters;
    uint64_t wakes = 0;

    (void)dlt_redis_ask(&servers[0], "DEL rl:{job}");
    (void)dlt_redis_ask(&servers[0], "DEL rl:job");
    (void)!read(waiters->wake_fd, &wakes, sizeof wakes);
    (void)pthread_mutex_lock(&waiters->mutex);
    waiters->led = waiters->any.watching = waiters->any.leading = true;
    (void)pthread_mutex_unlock(&waiters->mutex);
    cr_assert_eq(dlt_try(&waiter, &a), DLOCK_BUSY);
    cr_assert_eq(read(waiters->wake_fd, &wakes, sizeof wakes), (ssize_t)sizeof wakes,
                 "the thread that reads sleeps on");
    waiters->led = waiters->any.watching = waiters->any.leading = false;
}

/* Attempts that a batch refused enter the queues of the nodes as well. */
Test(redlock_any, ANY_1_a_batch_waits)
{
    static struct dlt_batch batch;
    unsigned bits = 0;
    enum dlock_status status = DLOCK_OK;

    waiter.ops->forget(waiter.self, &a.req);
    waiter.ops->forget(waiter.self, &b.req);
    dlt_batch_init(&batch, &waiter, 3, "free");
    memcpy(batch.names[0], "job", sizeof "job");
    memcpy(batch.names[2], "other", sizeof "other");
    for (uint32_t i = 0; i < 3; i++) {
        batch.requests[i].req.name_len = (uint32_t)strlen(batch.names[i]);
        batch.requests[i].req.waiter = 20 + i;
    }
    dlt_batch_try(&batch, &waiter);
    dlt_batch_others_are(&batch, 1, DLOCK_BUSY);
    dlt_batch_is(&batch, 1, 2, DLOCK_OK);
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(batch.elements[i].grant.flags, 0u, "%zu is not reported", i);
    cr_assert_eq(dlt_unlock(&holder, &held), DLOCK_OK);
    cr_assert_eq(dlt_unlock(&holder, &other), DLOCK_OK);
    while (status == DLOCK_OK && bits != (1u << 20 | 1u << 22))
        bits |= wait_any(20000, &status);
    cr_assert_eq(bits, 1u << 20 | 1u << 22, "%x: %s", bits, waiter.err.message);
    dlt_batch_try(&batch, &waiter);
    dlt_batch_is(&batch, 0, 3, DLOCK_OK);
    dlt_batch_unlock(&batch, &waiter);
    dlt_batch_is(&batch, 0, 3, DLOCK_OK);
}
