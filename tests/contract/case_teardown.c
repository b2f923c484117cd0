/* SPDX-License-Identifier: MIT */
/* The end comes while others wait, while renewals run, from inside a callback, by exit and beside a
 * fork: nobody hangs, and nobody is kept waiting by what is gone. */
#include "../kit/drop.h"
#include "child.h"
#include "conformance.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEVER_MS 30000
#define SOON_MS  6000

enum end { END_SHUTDOWN, END_CLOSE, END_FREE, END_COUNT };

/* The head of the store's queue goes, in each of the ways; two more of its client stand behind it.
 */
static void end_of_the_head(struct dlt_run *run, enum end end)
{
    struct dlt_text lease = dlt_waiter_lease(run, NEVER_MS);
    struct dlock_client *client = dlt_client(run, NULL), *gone = dlt_client(run, lease.text),
                        *other = dlt_client(run, lease.text);
    struct dlock_handle *holder = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlock_handle *locks[3];
    struct dlt_waiter waiters[3], next;

    DLT_OK(dlock_trylock(holder, &dlt_err));
    for (int i = 0; i < 3; i++) {
        locks[i] = dlt_lock(run, gone, "x", 0);
        dlt_waiter_enter(&waiters[i], locks[i], DLOCK_EXCLUSIVE, 20000, 0);
        dlt_waiters_await(client, &name, 1, 1);
    }
    dlt_waiter_enter(&next, dlt_lock(run, other, "x", 0), DLOCK_EXCLUSIVE, 20000, 0);
    dlt_waiters_await(client, &name, 2, 2);
    if (end == END_SHUTDOWN)
        dlock_client_shutdown(gone);
    else if (end == END_CLOSE)
        dlock_client_close(gone);
    for (int i = 0; i < 3; i++) {
        if (end == END_FREE)
            dlock_free(locks[i]);
        DLT_STATUS(dlt_waiter_join_within(&waiters[i], SOON_MS),
                   end == END_FREE ? DLOCK_CANCELED : DLOCK_CLOSED);
    }
    DLT_OK(dlock_unlock(holder, &dlt_err));
    DLT_OK(dlt_waiter_join_within(&next, SOON_MS));
    for (int i = 0; end != END_FREE && i < 3; i++)
        dlock_free(locks[i]);
    if (end != END_CLOSE)
        dlock_client_close(gone);
    dlock_free(next.lock);
    dlock_free(holder);
    dlock_client_close(client);
    dlock_client_close(other);
}

void dlt_case_teardown_leaves_the_queue(struct dlt_run *run)
{
    for (enum end end = END_SHUTDOWN; end < END_COUNT; end++)
        end_of_the_head(run, end);
}

#define HELD 8

/* Leases so short that the renewer is always at work. */
void dlt_case_teardown_amid_renewals(struct dlt_run *run)
{
    struct dlock_client *other = dlt_client(run, NULL);
    int64_t ttl_ms = dlt_ttl(other, 60);
    char suffix[2] = "a";

    for (int round = 0; round < 12; round++) {
        struct dlock_client *client = dlt_client(run, NULL);
        struct dlock_handle *locks[HELD];

        for (int i = 0; i < HELD; i++) {
            suffix[0] = (char)('a' + i);
            locks[i] = dlt_lock(run, client, suffix, 60);
            (void)!dlock_timedlock(locks[i], 10000, &dlt_err);
        }
        dlt_sleep_ms(round * 7 % 40 * ttl_ms / 60);
        if (round % 2 == 0)
            dlock_client_shutdown(client);
        for (int i = 0; round % 3 == 0 && i < HELD; i++)
            dlock_free(locks[i]);
        dlock_client_close(client);
        for (int i = 0; round % 3 != 0 && i < HELD; i++)
            dlock_free(locks[i]);
        for (int i = 0; i < HELD; i++) {
            struct dlock_handle *lock = NULL;

            suffix[0] = (char)('a' + i);
            lock = dlt_lock(run, other, suffix, 0);
            DLT_OK(dlock_timedlock(lock, SOON_MS, &dlt_err));
            dlock_free(lock);
        }
    }
    dlock_client_close(other);
}

/* What a callback did, and what it was told. */
struct callback {
    struct dlock_client *client;
    struct dlock_handle *waiting; /* cancelled in there */
    int64_t pause_ms;
    _Atomic int entered, left, refusals, wrong;
};

static void callback_log(void *arg, enum dlock_log_level level, const char *message)
{
    struct callback *callback = arg;

    callback->refusals += level == DLOCK_LOG_ERROR && strstr(message, "refused") != NULL;
}

static void callback_ends_things(void *arg, const struct dlock_notice *event)
{
    struct callback *callback = arg;

    callback->entered = 1;
    dlock_free(event->lock);
    dlock_client_close(callback->client);
    if (callback->waiting != NULL)
        dlock_cancel(callback->waiting);
    callback->wrong += dlock_state(event->lock) != DLOCK_STATE_LOST;
    callback->wrong += dlock_unlock(event->lock, NULL) != DLOCK_LOST;
    dlt_sleep_ms(callback->pause_ms);
    callback->left = 1;
}

static struct dlock_client *callback_client(const struct dlt_run *run, struct callback *callback)
{
    struct dlock_client_options options = {.struct_size = sizeof options,
                                           .log = callback_log,
                                           .log_arg = callback,
                                           .on_lost = callback_ends_things,
                                           .on_lost_arg = callback};

    DLT_OK(dlock_client_open(run->uri, &options, &callback->client, &dlt_err));
    return callback->client;
}

static void callback_await(const _Atomic int *flag)
{
    int64_t start_ns = dlt_now_ns();

    while (!*flag) {
        DLT_WITHIN(start_ns, 10000, "no loss callback came");
        dlt_sleep_ms(1);
    }
}

/* free and close are refused there, cancel and unlock work, and all of it goes on afterwards. */
void dlt_case_teardown_in_a_callback(struct dlt_run *run)
{
    struct callback callback = {.pause_ms = 0};
    struct dlock_client *client = callback_client(run, &callback), *other = dlt_client(run, NULL);
    struct dlock_handle *lock = dlt_lease(run, client, "x", 1000),
                        *holder = dlt_lock(run, other, "y", 0);
    struct dlt_waiter waiter;

    DLT_OK(dlock_trylock(holder, &dlt_err));
    callback.waiting = dlt_lock(run, client, "y", 0);
    dlt_waiter_enter(&waiter, callback.waiting, DLOCK_EXCLUSIVE, 20000, -1);
    DLT_TAKE(lock);
    callback_await(&callback.left);
    DLT_STATUS(dlt_waiter_join_within(&waiter, SOON_MS), DLOCK_CANCELED);
    DLT_CHECK(callback.refusals == 2,
              "%d refusals of free and close in a callback were logged, want 2", callback.refusals);
    DLT_CHECK(callback.wrong == 0, "%d wrong answers in the callback, want 0", callback.wrong);
    DLT_STATUS(dlock_unlock(lock, &dlt_err), DLOCK_NOT_HELD);
    DLT_OK(dlock_timedlock(lock, 10000, &dlt_err));
    dlock_free(callback.waiting);
    dlock_free(lock);
    dlock_client_close(client);
    dlock_free(holder);
    dlock_client_close(other);
}

/* Nothing is taken away beneath a callback: who ends it waits for it. */
void dlt_case_teardown_awaits_a_callback(struct dlt_run *run)
{
    for (int by_close = 0; by_close <= 1; by_close++) {
        struct callback callback = {.pause_ms = 150};
        struct dlock_client *client = callback_client(run, &callback);
        struct dlock_handle *lock = dlt_lease(run, client, "x", 100);

        DLT_TAKE(lock);
        callback_await(&callback.entered);
        if (by_close)
            dlock_client_close(client);
        else
            dlock_free(lock);
        DLT_CHECK(callback.left, "the %s was gone before its callback ended",
                  by_close ? "client" : "handle");
        if (by_close)
            dlock_free(lock);
        else
            dlock_client_close(client);
    }
}

#define ROUNDS 40

/* One that may be freed while it waits, or when it has just got it. */
struct brittle {
    struct dlock_handle *lock;
    pthread_t thread;
    enum dlock_status status;
};

static void *brittle_run(void *arg)
{
    struct brittle *brittle = arg;

    brittle->status = dlock_timedlock(brittle->lock, 20000, NULL);
    return NULL;
}

static void brittle_start(struct brittle *brittle, const struct dlt_run *run,
                          struct dlock_client *client)
{
    brittle->lock = dlt_lock(run, client, "x", 0);
    brittle->thread = dlt_thread(brittle_run, brittle);
    while (dlock_unlock(brittle->lock, NULL) == DLOCK_NOT_HELD)
        dlt_sleep_until(dlt_now_ns() + 100000);
}

static void *unlock_run(void *arg)
{
    dlt_drop(dlock_unlock(arg, NULL));
    return NULL;
}

/* The one to whom it is being handed is freed, or the whole client closed. */
void dlt_case_teardown_at_the_handoff(struct dlt_run *run)
{
    struct dlock_client *other = dlt_client(run, NULL);
    struct dlock_handle *next = dlt_lock(run, other, "x", 0);

    for (int i = 0; i < ROUNDS; i++) {
        struct dlock_client *client = dlt_client(run, NULL);
        struct dlock_handle *holder = dlt_lock(run, client, "x", 0);
        struct brittle waiters[2];
        pthread_t thread;

        DLT_OK(dlock_timedlock(holder, 10000, &dlt_err));
        for (int k = 0; k < 2; k++)
            brittle_start(&waiters[k], run, client);
        dlt_sleep_until(dlt_now_ns() + i % 4 * INT64_C(400000));
        thread = dlt_thread(unlock_run, holder);
        dlt_sleep_until(dlt_now_ns() + i % 8 * INT64_C(10000));
        if (i % 2 == 0)
            dlock_free(waiters[0].lock);
        dlock_client_close(client);
        (void)dlt_join(thread);
        for (int k = 0; k < 2; k++) {
            (void)dlt_join(waiters[k].thread);
            DLT_CHECK(waiters[k].status == DLOCK_OK || waiters[k].status == DLOCK_CLOSED ||
                          (k == 0 && waiters[k].status == DLOCK_CANCELED),
                      "round %d: waiter %d ended with %s, want OK or CLOSED", i, k,
                      dlock_status_name((int)waiters[k].status));
        }
        DLT_OK(dlock_timedlock(next, SOON_MS, &dlt_err));
        DLT_OK(dlock_unlock(next, &dlt_err));
        dlock_free(holder);
        for (int k = i % 2 == 0; k < 2; k++)
            dlock_free(waiters[k].lock);
    }
    dlock_free(next);
    dlock_client_close(other);
}

/* exit() amid all that: the process ends, by itself and at once. What it held and waited for ends
 * with the leases: a store may execute a waiter's last request after the process. */
void dlt_case_teardown_by_exit(struct dlt_run *run)
{
    struct dlt_text lease = dlt_waiter_lease(run, 2000);
    struct dlock_client *client = dlt_client(run, NULL), *other = dlt_client(run, lease.text);
    struct dlock_handle *holder = dlt_lock(run, client, "y", 0),
                        *next = dlt_lock(run, other, "x", 0);
    struct dlt_child child;
    int64_t start_ns = 0, most_ms = dlt_death_ms(run, client, 2000) + 8000 + 10 * run->slack_ms;

    DLT_OK(dlock_trylock(holder, &dlt_err));
    dlt_child_start(&child, run, lease.text);
    dlt_child_want(&child, "OK", "new 0 %sx 1500 1", run->prefix);
    dlt_child_want(&child, "OK", "lock 0 15000");
    dlt_child_want(&child, "OK", "new 7 %sy 30000 1", run->prefix);
    if (run->is_private) /* the child has a store of its own */
        dlt_child_want(&child, "OK", "try 7");
    for (int i = 1; i <= 4; i++) {
        dlt_child_want(&child, "OK", "new %d %s%s 3000 1", i, run->prefix, i < 3 ? "x" : "y");
        dlt_child_want(&child, "OK", "wait %d x 60000 0", i);
    }
    dlt_sleep_ms(40);
    start_ns = dlt_now_ns();
    dlt_child_tell(&child, "exit 0");
    dlt_child_stop(&child);
    DLT_WITHIN(start_ns, SOON_MS, "exit of a process that holds and waits");
    DLT_OK(dlock_unlock(holder, &dlt_err));
    DLT_OK(dlock_timedlock(next, most_ms, &dlt_err));
    DLT_OK(dlock_timedlock(holder, most_ms, &dlt_err));
    dlock_free(holder);
    dlock_free(next);
    dlock_client_close(client);
    dlock_client_close(other);
}

/* In a forked child: the calls of those who wait in the parent. Returns how many were not told. */
static int forked_waiters(struct dlock_client **clients, struct dlt_waiter *waiters, int count)
{
    int wrong = 0;

    for (int i = 0; i < count; i++) {
        wrong += dlock_trylock(waiters[i].lock, NULL) != DLOCK_FORKED;
        wrong += dlock_timedlock(waiters[i].lock, 20000, NULL) != DLOCK_FORKED;
        dlock_cancel(waiters[i].lock);
        dlock_free(waiters[i].lock);
        dlock_client_close(clients[i]);
    }
    return wrong;
}

/* A child neither takes the places of its parent along nor gives them up. */
void dlt_case_teardown_in_a_forked_child(struct dlt_run *run)
{
    struct dlt_text lease = dlt_waiter_lease(run, NEVER_MS);
    struct dlock_client *client = dlt_client(run, NULL), *clients[2];
    struct dlock_handle *holder = dlt_lock(run, client, "x", 0);
    struct dlt_name name = dlt_name(run, "x");
    struct dlt_waiter waiters[2];
    int status = 0;
    pid_t pid = 0;

    DLT_OK(dlock_trylock(holder, &dlt_err));
    for (uint32_t i = 0; i < 2; i++) {
        clients[i] = dlt_client(run, lease.text);
        dlt_waiter_enter(&waiters[i], dlt_lock(run, clients[i], "x", 0), DLOCK_EXCLUSIVE, 20000, 0);
        dlt_waiters_await(client, &name, i + 1, i + 1);
    }
    (void)fflush(stdout);
    pid = fork();
    DLT_CHECK(pid >= 0, "no process");
    if (pid == 0)
        _exit(forked_waiters(clients, waiters, 2));
    DLT_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status),
              "the forked child died, status %#x", status);
    DLT_CHECK(WEXITSTATUS(status) == 0, "%d calls in the child did not answer FORKED, want 0",
              WEXITSTATUS(status));
    dlt_waiters_await(client, &name, 2, 2);
    DLT_OK(dlock_unlock(holder, &dlt_err));
    for (int i = 0; i < 2; i++)
        DLT_OK(dlt_waiter_join_within(&waiters[i], SOON_MS));
    DLT_CHECK(waiters[1].done_ns > waiters[0].done_ns,
              "the second waiter acquired before the first");
    for (int i = 0; i < 2; i++) {
        dlock_free(waiters[i].lock);
        dlock_client_close(clients[i]);
    }
    dlock_free(holder);
    dlock_client_close(client);
}
