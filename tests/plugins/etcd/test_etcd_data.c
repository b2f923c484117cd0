/* SPDX-License-Identifier: MIT */
/*
 * A member that is killed has its data afterwards, or has lost them: who holds what then? (C1, C6,
 * CRASH_SAFE, TRY-6, REN-2) With its data a lock outlives it. Without them nobody may hold anything
 * any more, and fences begin anew: a store that forgets keeps no promise but that its clients go
 * on.
 */
#include "drop.h"
#include "etcd_server.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TTL_MS  6000
#define WAIT_MS 20000

static struct dlt_etcd server;
static struct dlock_client *one, *other;
static struct dlock_error err = DLOCK_ERROR_INIT;

static void check(enum dlock_status got, enum dlock_status want, const char *what)
{
    (void)dlt_ok(got == want, "%s (%s%s%s)", what, dlock_status_name((int)got),
                 got == DLOCK_OK ? "" : ": ", got == DLOCK_OK ? "" : err.message);
}

static struct dlock_client *client_open(void)
{
    struct dlock_client *client = NULL;
    char uri[256];

    (void)snprintf(uri, sizeof uri, "etcd://%s/data", server.hosts);
    if (dlock_client_open(uri, NULL, &client, &err) != DLOCK_OK) {
        printf("Bail out! %s\n", err.message);
        exit(1);
    }
    return client;
}

/* Nobody renews it but the test. */
static struct dlock_handle *lock_new(struct dlock_client *client, const char *name)
{
    struct dlock_options options = {.struct_size = sizeof options,
                                    .wait_ms = DLOCK_AS_OPTIONS,
                                    .ttl_ms = TTL_MS,
                                    .renew = DLOCK_OFF};
    struct dlock_handle *lock = NULL;

    if (dlock_new(client, name, strlen(name), &options, &lock, &err) != DLOCK_OK)
        abort();
    return lock;
}

static void restart(bool forget)
{
    dlt_etcd_kill(&server, 0);
    if (forget)
        dlt_etcd_forget(&server, 0);
    if (!dlt_etcd_again(&server, 0)) {
        printf("Bail out! %s\n", server.why);
        exit(1);
    }
}

/* The first request after the restart may find that its connection is gone. */
static enum dlock_status renew(struct dlock_handle *lock)
{
    enum dlock_status status = dlock_renew(lock, 0, &err);

    for (int i = 0; i < 5 && (status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE); i++)
        status = dlock_renew(lock, 0, &err);
    return status;
}

static void with_its_data(void)
{
    struct dlock_handle *held = lock_new(one, "kept"), *next = lock_new(other, "kept");
    uint64_t fence = 0;

    check(dlock_timedlock(held, WAIT_MS, &err), DLOCK_OK, "a lock is taken");
    fence = dlock_fence(held);
    restart(false);
    check(renew(held), DLOCK_OK, "CRASH_SAFE: its holder renews it after a crash");
    check(dlock_timedlock(next, 100, &err), DLOCK_TIMEOUT, "C1 nobody else gets it");
    check(dlock_unlock(held, &err), DLOCK_OK, "its holder releases it");
    check(dlock_timedlock(next, WAIT_MS, &err), DLOCK_OK, "the next one takes it");
    (void)dlt_ok(dlock_fence(next) > fence, "TRY-6 fences go on rising");
    dlt_drop(dlock_unlock(next, &err));
    dlock_free(next);
    dlock_free(held);
}

static void without_its_data(void)
{
    struct dlock_handle *held = lock_new(one, "gone"), *next = lock_new(other, "gone");
    uint64_t fence = 0;

    check(dlock_timedlock(held, WAIT_MS, &err), DLOCK_OK, "a lock is taken");
    fence = dlock_fence(held);
    restart(true);
    check(renew(held), DLOCK_LOST, "REN-2 without the data its holder is told that it lost it");
    dlt_drop(dlock_unlock(held, &err));
    check(dlock_timedlock(next, WAIT_MS, &err), DLOCK_OK, "the other client goes on");
    (void)dlt_ok(dlock_fence(next) < fence, "fences begin anew: %" PRIu64 " after %" PRIu64,
                 dlock_fence(next), fence);
    check(dlock_unlock(next, &err), DLOCK_OK, "it releases what it has");
    check(dlock_timedlock(held, WAIT_MS, &err), DLOCK_OK, "and so does the first client");
    (void)dlt_ok(dlock_fence(held) > dlock_fence(next), "TRY-6 its fence is above that");
    check(dlock_unlock(held, &err), DLOCK_OK, "it releases it");
    dlock_free(next);
    dlock_free(held);
}

int main(void)
{
    if (!dlt_etcd_start(&server, NULL)) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    one = client_open();
    other = client_open();
    with_its_data();
    without_its_data();
    dlock_client_close(other);
    dlock_client_close(one);
    dlt_etcd_stop(&server);
    return dlt_done();
}
