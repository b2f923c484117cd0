/* SPDX-License-Identifier: MIT */
/* Does a client of the library know what its server gives after it was started again, otherwise?
 And after it was set otherwise as it runs, and a probe has seen that? (C16)
 */
#include "redis_server.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <stdlib.h>

#define DURABLE (DLOCK_CAP_CRASH_SAFE | DLOCK_CAP_FENCE_DURABLE)

static struct dlt_redis server;
static struct dlock_client *client;
static struct dlock_handle *lock;
static struct dlock_error err = DLOCK_ERROR_INIT;

/* The end of the connection may be found by the first question. */
static enum dlock_status take(void)
{
    enum dlock_status status = dlock_trylock(lock, &err);

    return status == DLOCK_UNKNOWN || status == DLOCK_UNAVAILABLE ? dlock_trylock(lock, &err)
                                                                  : status;
}

static void start_again(const char *const *args)
{
    size_t i = 0;

    dlt_redis_kill(&server);
    for (; args[i] != NULL; i++)
        server.args[i] = args[i];
    server.args[i] = NULL;
    if (!dlt_redis_again(&server))
        abort();
}

/* A client of its own: what is gone for a client stays gone. */
static void probe_test(const char *uri)
{
    struct dlock_client *other = NULL;
    struct dlock_handle *held = NULL;
    uint64_t caps = 0;

    if (dlock_client_open(uri, NULL, &other, &err) != DLOCK_OK ||
        dlock_new(other, "probed", 6, NULL, &held, &err) != DLOCK_OK)
        abort();
    caps = dlock_client_caps(other);
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru");
    (void)dlt_ok((caps & DURABLE) == DURABLE && dlock_client_caps(other) == caps,
                 "C16 a setting that nobody has looked at changes nothing");
    (void)dlt_ok(dlock_client_probe(other, NULL, NULL, &err) == DLOCK_CONFIG,
                 "C16 a probe sees that the server evicts: %s", err.message);
    (void)dlt_ok(dlock_client_caps(other) == (caps & ~DURABLE),
                 "C16 and takes back both: CRASH_SAFE and FENCE_DURABLE");
    (void)dlt_ok(dlock_trylock(held, &err) == DLOCK_CONFIG, "OPN-1 it gives no lock");
    (void)dlt_redis_ask(&server, "CONFIG SET maxmemory-policy noeviction");
    (void)dlt_ok(dlock_client_probe(other, NULL, NULL, &err) == DLOCK_OK &&
                     dlock_trylock(held, &err) == DLOCK_OK,
                 "and gives it when a probe sees that it was mended: %s", err.message);
    (void)dlt_ok(dlock_client_caps(other) == (caps & ~DURABLE), "C16 without what was taken back");
    dlock_free(held);
    dlock_client_close(other);
}

int main(void)
{
    char uri[64];
    uint64_t caps = 0;

    if (!dlt_redis_start(&server,
                         (const char *[]){"--appendonly", "yes", "--appendfsync", "always", NULL}))
        abort();
    (void)snprintf(uri, sizeof uri, "redis://%s?restart_guard=0", server.address);
    if (dlock_client_open(uri, NULL, &client, &err) != DLOCK_OK ||
        dlock_new(client, "job", 3, NULL, &lock, &err) != DLOCK_OK)
        abort();
    caps = dlock_client_caps(client);
    (void)dlt_ok((caps & DURABLE) == DURABLE, "C16 a server that syncs each change is durable");
    probe_test(uri);

    start_again((const char *[]){"--appendonly", "no", NULL});
    (void)dlt_ok(take() == DLOCK_OK, "started again without its file it gives locks: %s",
                 err.message);
    (void)dlt_ok(dlock_client_caps(client) == (caps & ~DURABLE), "C16 and is durable no more");
    (void)dlt_ok(dlock_unlock(lock, &err) == DLOCK_OK, "unlock");

    start_again((const char *[]){"--appendonly", "yes", "--appendfsync", "always", NULL});
    (void)dlt_ok(take() == DLOCK_OK, "with it once more: %s", err.message);
    (void)dlt_ok(dlock_client_caps(client) == (caps & ~DURABLE),
                 "C16 what was lost stays lost for this client");
    (void)dlt_ok(dlock_unlock(lock, &err) == DLOCK_OK, "unlock");

    start_again(
        (const char *[]){"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", NULL});
    (void)dlt_ok(take() == DLOCK_CONFIG, "OPN-1 one that evicts gives none: %s", err.message);
    dlock_free(lock);
    dlock_client_close(client);
    dlt_redis_stop(&server);
    return dlt_done();
}
