/* SPDX-License-Identifier: MIT */
#include "storm_days.h"
#include "tap.h"

#include <stdlib.h>
#include <time.h>

#define PATIENCE_MS 60000 /* a thread of a calm storm waits for a lock as long as it takes */

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

void dlt_storm_disconnects(const struct dlt_store_server *server)
{
    for (int i = 0; i < 15; i++) {
        sleep_ms(60);
        server->disconnect(server->self);
    }
}

void dlt_storm_restarts(const struct dlt_store_server *server)
{
    for (int i = 0; i < 2; i++) {
        sleep_ms(100);
        server->kill(server->self);
        sleep_ms(i * 500);
        if (!server->again(server->self))
            abort();
    }
}

void dlt_storm_pause(const struct dlt_store_server *server)
{
    server->pause(server->self, true);
    sleep_ms(1500);
    server->pause(server->self, false);
}

void dlt_storm_verdict(const struct dlt_storm *storm, bool exclusive)
{
    if (exclusive) {
        (void)dlt_ok(storm->overlaps == 0, "C1 %d overlaps in %ld acquisitions",
                     (int)storm->overlaps, (long)storm->acquisitions);
        (void)dlt_ok(storm->fences_fallen == 0, "C6 %d fences that were not above the one before",
                     (int)storm->fences_fallen);
    } else {
        printf("# %d overlaps after ended sessions, in %ld acquisitions\n", (int)storm->overlaps,
               (long)storm->acquisitions);
    }
    (void)dlt_ok(storm->late == 0, "C8 %d calls ended late", (int)storm->late);
    (void)dlt_ok(storm->oddities == 0, "C4 %d answers that a fault does not explain",
                 (int)storm->oddities);
}

static void begin(struct dlt_storm *storm)
{
    if (!dlt_storm_start(storm))
        abort();
}

void dlt_storm_calm(struct dlt_storm *storm, const char *what)
{
    storm->calm = true;
    storm->wait_ms = PATIENCE_MS;
    begin(storm);
    (void)dlt_ok(dlt_storm_goes_on(storm), "%s", what);
    sleep_ms(1000);
    (void)dlt_ok(dlt_storm_goes_on(storm), "C13 they all go on");
    dlt_storm_end(storm);
    dlt_storm_verdict(storm, true);
}

void dlt_storm_readers_and_writers(const char *uri, unsigned readers_every, const char *what)
{
    struct dlt_storm storm = {
        .uri = uri, .clients = 8, .threads = 24, .names = 2, .readers_every = readers_every};

    dlt_storm_calm(&storm, what);
}

void dlt_storm_small_pool(const char *uri)
{
    char small[256];
    struct dlt_storm storm = {.uri = small, .clients = 1, .threads = 200, .names = 5};

    (void)snprintf(small, sizeof small, "%s&connections=8", uri);
    dlt_storm_calm(&storm, "C13 200 threads on a pool of 8 take turns");
}

void dlt_storm_days(const char *uri, const struct dlt_store_server *server,
                    const struct dlt_storm_day *days, size_t count, bool exclusive)
{
    struct dlt_storm storm = {.uri = uri, .clients = 4, .threads = 24, .names = 3, .ttl_ms = 6000};

    begin(&storm);
    (void)dlt_ok(dlt_storm_goes_on(&storm), "C13 24 threads of 4 clients take turns");
    for (size_t i = 0; i < count; i++) {
        days[i].happens(server);
        (void)dlt_ok(dlt_storm_goes_on(&storm), "%s: they go on afterwards", days[i].what);
    }
    dlt_storm_end(&storm);
    dlt_storm_verdict(&storm, exclusive);
}
