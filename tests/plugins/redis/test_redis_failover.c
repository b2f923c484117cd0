/* SPDX-License-Identifier: MIT */
/*
 * C3, C13: clients of a service find the next master, waiters too, and no status of a failover
 * stays. TAP. Exclusion over failovers is the question of the torture.
 */
#include "drop.h"
#include "sentinel_server.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct dlt_sentinels service;

static void sleep_ms(int64_t ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

struct user {
    struct dlock_client *client;
    struct dlock_handle *lock;
    enum dlock_status status; /* of the thread that waits */
    struct dlock_error err;
};

static void user_open(struct user *user, const char *options)
{
    char uri[300];
    struct dlock_error err = DLOCK_ERROR_INIT;

    (void)snprintf(uri, sizeof uri, "redis+sentinel://%s/" DLT_SENTINELS_SERVICE "?%s%s",
                   service.hosts, "connect_timeout=30s", options);
    if (dlock_client_open(uri, NULL, &user->client, &err) != DLOCK_OK ||
        dlock_new(user->client, "job", 3, NULL, &user->lock, &err) != DLOCK_OK) {
        (void)dlt_ok(false, "opens: %s", err.message);
        exit(dlt_done());
    }
}

static void user_close(struct user *user)
{
    dlock_free(user->lock);
    dlock_client_close(user->client);
}

static void *wait_for_it(void *arg)
{
    struct user *user = arg;

    user->err = (struct dlock_error)DLOCK_ERROR_INIT;
    user->status = dlock_acquire(user->lock, DLOCK_EXCLUSIVE, 120000, &user->err);
    return NULL;
}

/* Asks until it has the lock. False: a status that a failover does not explain. */
static bool takes(struct user *user)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_BUSY;

    for (int tries = 0; status != DLOCK_OK && tries < 1200; tries++) {
        status = dlock_acquire(user->lock, DLOCK_EXCLUSIVE, 100, &err);
        if (status != DLOCK_OK && status != DLOCK_TIMEOUT && status != DLOCK_UNAVAILABLE &&
            status != DLOCK_UNKNOWN) {
            printf("# %d %s\n", (int)status, err.message);
            return false;
        }
        sleep_ms(50);
    }
    return status == DLOCK_OK;
}

/* The holder's lease is in the replicas, as they have been asked. */
static void the_waiter_gets_it_from_the_next_master(void)
{
    struct user holder, waiter;
    struct dlock_error err = DLOCK_ERROR_INIT;
    pthread_t thread;
    uint64_t fence = 0;
    int master = dlt_sentinels_master(&service), next = -1;
    enum dlock_status status = DLOCK_INTERNAL;

    user_open(&holder, "&restart_guard=0&ttl=60s");
    user_open(&waiter, "&restart_guard=0&ttl=60s");
    (void)dlt_ok(dlock_acquire(holder.lock, DLOCK_EXCLUSIVE, 30000, &err) == DLOCK_OK,
                 "C13 the holder has it: %s", err.message);
    fence = dlock_fence(holder.lock);
    if (pthread_create(&thread, NULL, wait_for_it, &waiter) != 0)
        abort();
    (void)dlt_redis_ask(&service.redis[master], "WAIT 2 10000");
    dlt_redis_kill(&service.redis[master]);
    next = dlt_sentinels_master_wait(&service, master);
    (void)dlt_ok(next >= 0, "another server is the master");
    for (int tries = 0; tries < 600 && status != DLOCK_OK && status != DLOCK_LOST; tries++) {
        status = dlock_unlock(holder.lock, &err);
        sleep_ms(50);
    }
    (void)dlt_ok(status == DLOCK_OK, "C3 the holder releases it there: %s", err.message);
    (void)pthread_join(thread, NULL);
    (void)dlt_ok(waiter.status == DLOCK_OK, "C13 the waiter gets it: %s", waiter.err.message);
    (void)dlt_ok(dlock_fence(waiter.lock) > fence, "C15 its fence is greater");
    dlt_drop(dlock_unlock(waiter.lock, &err));
    user_close(&holder);
    user_close(&waiter);
    (void)dlt_ok(dlt_redis_again(&service.redis[master]), "the old master comes back");
}

/* The client reaches a master that is cut off: it must not stay with it. */
static void a_master_that_is_cut_off_is_left(void)
{
    struct user user;
    struct dlock_error err = DLOCK_ERROR_INIT;
    int master = dlt_sentinels_master_wait(&service, -1);

    user_open(&user, "&restart_guard=0&ttl=5s");
    (void)dlt_ok(master >= 0 && takes(&user), "C1 a client has it");
    dlt_drop(dlock_unlock(user.lock, &err));
    dlt_sentinels_part(&service, (unsigned)master, true);
    (void)dlt_ok(dlt_sentinels_master_wait(&service, master) >= 0,
                 "another server is the master, and the client reaches both");
    (void)dlt_ok(takes(&user), "C1 it gets the lock, at the next master");
    (void)dlt_ok(strcmp(dlt_redis_ask(&service.redis[dlt_sentinels_master_wait(&service, -1)],
                                      "EXISTS dl:{job}"),
                        "1") == 0,
                 "and there it is");
    dlt_drop(dlock_unlock(user.lock, &err));
    dlt_sentinels_part(&service, (unsigned)master, false);
    user_close(&user);
}

/* ---- with the failover guard ---- */

/* Makes the term of this master older than T + D, if it has begun. */
static void term_age(int node)
{
    static const char script[] =
        "local r = {} "
        "for w in string.gmatch(redis.call('GET', 'dl:!') or '', '%S+') do r[#r + 1] = w end "
        "local since = tonumber(r[2] or 0) "
        "if since == 0 or tonumber(r[9]) - since > 200000000 then return 'OK' end "
        "r[2] = string.format('%.0f', since - 300000000) "
        "return redis.call('SET', 'dl:!', table.concat(r, ' '))";

    (void)dlt_redis_ask(&service.redis[node], "EVAL %s 0", script);
}

static bool takes_at_once(struct user *user, int master)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    enum dlock_status status = DLOCK_BUSY;

    for (int tries = 0; status != DLOCK_OK && tries < 120; tries++) {
        term_age(master);
        status = dlock_acquire(user->lock, DLOCK_EXCLUSIVE, 500, &err);
    }
    return dlt_ok(status == DLOCK_OK, "C1 a client has it: %s", err.message);
}

/* Asks until the lease is renewed. False: it is lost, or that takes too long. */
static bool renews(struct user *user, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_UNAVAILABLE;

    for (int tries = 0; tries < 600 && (status == DLOCK_UNAVAILABLE || status == DLOCK_UNKNOWN);
         tries++) {
        sleep_ms(100);
        status = dlock_renew(user->lock, 0, err);
    }
    return status == DLOCK_OK;
}

/* A master without replicas refuses by itself, and its connections live on. */
static void a_master_that_cannot_confirm_is_left(void)
{
    static const char options[] = "&restart_guard=100s&ttl=100s";
    struct user holder, waiter;
    struct dlock_error err = DLOCK_ERROR_INIT;
    pthread_t thread;
    int master = dlt_sentinels_master_wait(&service, -1), next = -1;

    user_open(&holder, options);
    user_open(&waiter, options);
    if (!takes_at_once(&holder, master) || pthread_create(&thread, NULL, wait_for_it, &waiter) != 0)
        exit(dlt_done());
    (void)dlt_redis_ask(&service.redis[master], "WAIT 2 10000");
    dlt_sentinels_part(&service, (unsigned)master, true);
    next = dlt_sentinels_master_wait(&service, master);
    (void)dlt_ok(next >= 0, "another server is the master, and the clients reach both");
    sleep_ms(4000); /* longer than D: the old master renews nothing more */
    (void)dlt_ok(renews(&holder, &err), "C4 the holder renews at the next master: %s", err.message);
    term_age(next);
    sleep_ms(1200); /* until both clients have looked again */
    (void)dlt_ok(dlock_unlock(holder.lock, &err) == DLOCK_OK, "C3 and releases there: %s",
                 err.message);
    (void)pthread_join(thread, NULL);
    (void)dlt_ok(waiter.status == DLOCK_OK, "C13 the waiter gets it: %s", waiter.err.message);
    dlt_drop(dlock_unlock(waiter.lock, &err));
    dlt_sentinels_part(&service, (unsigned)master, false);
    user_close(&holder);
    user_close(&waiter);
}

int main(void)
{
    if (!dlt_ok(dlt_sentinels_start(&service, NULL), "a service: %s", service.why))
        return dlt_done();
    the_waiter_gets_it_from_the_next_master();
    a_master_that_is_cut_off_is_left();
    a_master_that_cannot_confirm_is_left();
    dlt_sentinels_stop(&service);
    return dlt_done();
}
