/* SPDX-License-Identifier: MIT */
/*
 * Waiters through restarts, killed connections and flushed scripts (failures T39, T40, T49; C1, C6,
 * C8, C13). The server forgets nothing, so that exclusion is promised throughout. Runs under
 * ThreadSanitizer, too.
 *
 *     test_redis_storm        in plain text
 *     test_redis_storm tls    over TLS, and without restarts: that server would forget
 */
#include "storm_days.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CLIENTS = 5, RESTARTS = 5 };

static struct dlt_redis server;
static struct dlt_storm storm = {.clients = CLIENTS, .threads = 50, .names = 3};

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void disturb(void)
{
    for (int i = 0; i < 20; i++) {
        sleep_ms(20);
        (void)dlt_redis_ask(&server, "SCRIPT FLUSH");
        (void)dlt_redis_ask(&server, "CLIENT KILL TYPE %s SKIPME yes",
                            i % 3 == 0 ? "pubsub" : "normal");
    }
}

static void restart(void)
{
    for (int i = 0; i < RESTARTS; i++) {
        sleep_ms(100);
        dlt_redis_kill(&server);
        sleep_ms(i * 100);
        if (!dlt_redis_again(&server))
            abort();
    }
}

static bool start(bool secure)
{
    return secure ? dlt_redis_start_tls(&server, "server", "no")
                  : dlt_redis_start(&server, (const char *[]){"--appendonly", "yes",
                                                              "--appendfsync", "always", NULL});
}

int main(int argc, char **argv)
{
    bool secure = argc > 1 && strcmp(argv[1], "tls") == 0;
    char uri[256];
    int before = 0;

    if (!start(secure))
        abort();
    if (secure)
        (void)snprintf(uri, sizeof uri, "rediss://%s:%s@127.0.0.1:%u?ca=%s/ca.pem&restart_guard=0",
                       DLT_REDIS_LEAST, DLT_REDIS_LEAST, server.tls_port, server.directory);
    else
        (void)snprintf(uri, sizeof uri, "redis://%s:%s@%s?restart_guard=0", DLT_REDIS_LEAST,
                       DLT_REDIS_LEAST, server.address);
    storm.uri = uri;
    if (!dlt_storm_start(&storm))
        abort();
    (void)dlt_ok(dlt_storm_goes_on(&storm), "C13 50 waiters of 5 clients take turns");
    before = dlt_descriptors();
    disturb();
    (void)dlt_ok(dlt_storm_goes_on(&storm),
                 "T40 T49 they go on after flushed scripts and killed connections");
    if (!secure) {
        restart();
        (void)dlt_ok(dlt_storm_goes_on(&storm), "T39 they go on after %d restarts", RESTARTS);
    }
    dlt_redis_pause(&server, true);
    sleep_ms(500);
    dlt_redis_pause(&server, false);
    (void)dlt_ok(dlt_storm_goes_on(&storm), "C8 they go on after a pause of the server");
    (void)dlt_ok(dlt_descriptors() <= before + CLIENTS * 18, "no descriptors are lost: %d, then %d",
                 before, dlt_descriptors());
    dlt_storm_end(&storm);
    dlt_storm_verdict(&storm, true);
    dlt_redis_stop(&server);
    return dlt_done();
}
