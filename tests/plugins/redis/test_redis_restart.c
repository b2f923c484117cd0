/* SPDX-License-Identifier: MIT */
/*
 * C1, C16: a server that was restarted without its data grants a lock only when the one who held it
 * before can claim it no more, as the URI is by default. TAP.
 */
#include "redis_server.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HELD_MS 6000

static struct dlt_redis server;
static struct dlock_error err = DLOCK_ERROR_INIT;

static void sleep_ms(int64_t ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

struct user {
    struct dlock_client *client;
    struct dlock_handle *lock;
};

static enum dlock_status user_open(struct user *user, const char *options)
{
    char uri[160];
    enum dlock_status status = DLOCK_INTERNAL;

    (void)snprintf(uri, sizeof uri, "redis://%s%s", server.address, options);
    status = dlock_client_open(uri, NULL, &user->client, &err);
    if (status == DLOCK_OK &&
        dlock_new(user->client, "job", 3, NULL, &user->lock, &err) != DLOCK_OK)
        abort();
    return status;
}

static void user_close(struct user *user)
{
    dlock_free(user->lock);
    dlock_client_close(user->client);
}

static void restart(void)
{
    dlt_redis_kill(&server);
    if (!dlt_redis_again(&server))
        abort();
}

/* The first one may claim the lock for all of its 6 s: nothing renews it, and nothing tells it. */
static void the_second_is_refused(void)
{
    struct user first, fresh, second;
    enum dlock_status status = DLOCK_BUSY;
    int refused = 0;

    if (user_open(&first, "?restart_guard=0&renew=off&ttl=6s") != DLOCK_OK ||
        dlock_trylock(first.lock, &err) != DLOCK_OK)
        abort();
    restart();
    if (user_open(&fresh, "") != DLOCK_OK ||
        user_open(&second, "?restart_guard=6s&ttl=6s") != DLOCK_OK)
        abort();
    (void)dlt_ok(dlock_client_caps(fresh.client) & DLOCK_CAP_CRASH_SAFE,
                 "C16 the default is crash-safe");
    (void)dlt_ok(dlock_trylock(fresh.lock, &err) == DLOCK_BUSY, "C1 by default it is refused: %s",
                 err.message);
    while (status == DLOCK_BUSY) {
        status = dlock_trylock(second.lock, &err);
        refused += status == DLOCK_BUSY;
        if (status == DLOCK_BUSY)
            sleep_ms(50);
    }
    (void)dlt_ok(status == DLOCK_OK && refused > 0,
                 "C13 it is had in the end, after %d refusals: %s", refused, err.message);
    (void)dlt_ok(dlock_state(first.lock) == DLOCK_STATE_LOST, "C1 and then the first has lost it");
    user_close(&first);
    user_close(&fresh);
    user_close(&second);
}

static void a_longer_ttl_wants_a_longer_guard(void)
{
    struct user user;

    (void)dlt_ok(user_open(&user, "?ttl=60s") == DLOCK_CONFIG &&
                     strstr(err.message, "add restart_guard=60s to the URI of all clients") != NULL,
                 "C16 a ttl above the guard is refused when it is opened: %s", err.message);
    (void)dlt_ok(user_open(&user, "?ttl=60s&restart_guard=0") == DLOCK_OK,
                 "C16 not where the guard is off: %s", err.message);
    user_close(&user);
    dlt_redis_kill(&server);
    server.args[0] = "--appendonly";
    server.args[1] = "yes";
    server.args[2] = "--appendfsync";
    server.args[3] = "always";
    server.args[4] = NULL;
    if (!dlt_redis_again(&server))
        abort();
    (void)dlt_ok(user_open(&user, "?ttl=60s") == DLOCK_CONFIG,
                 "C16 also where the server forgets nothing now: %s", err.message);
    (void)dlt_ok(user_open(&user, "") == DLOCK_OK && dlock_trylock(user.lock, &err) == DLOCK_BUSY,
                 "C1 a server that is durable since this restart has forgotten: %s", err.message);
    user_close(&user);
}

int main(void)
{
    if (!dlt_redis_start(&server, (const char *[]){"--save", "", NULL}))
        abort();
    the_second_is_refused();
    a_longer_ttl_wants_a_longer_guard();
    dlt_redis_stop(&server);
    return dlt_done();
}
