/* SPDX-License-Identifier: MIT */
/*
 * test_pg_storm STRATEGY [brief] - many threads on few names, while the server's backends are
 * terminated, it crashes and is stopped (C1, C4, C6, C8, C13). A commit of this server does not
 * wait for its log, whatever is not asked for loses the last seconds in a crash. brief: some of
 * that.
 */
#include "postgres_server.h"
#include "storm.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const lazy[] = {"-c", "synchronous_commit=off",     "-c", "wal_writer_delay=10s",
                                   "-c", "wal_writer_flush_after=1GB", NULL};

static struct dlt_postgres server;
static char uri[160];
static bool brief, session;

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void verdict(const struct dlt_storm *storm, bool exclusive)
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
    (void)dlt_ok(storm->oddities == 0, "C4 %d answers that nothing explains", (int)storm->oddities);
}

static void begin(struct dlt_storm *storm)
{
    storm->uri = uri;
    if (!dlt_storm_start(storm))
        abort();
}

/* Nothing happens to the server meanwhile. */
static void calm(struct dlt_storm *storm, const char *what)
{
    begin(storm);
    (void)dlt_ok(dlt_storm_goes_on(storm), "%s", what);
    sleep_ms(500);
    (void)dlt_ok(dlt_storm_goes_on(storm), "C13 they all go on");
    dlt_storm_end(storm);
    verdict(storm, true);
}

static void readers_and_writers(void)
{
    static struct dlt_storm storm = {.clients = 8,
                                     .threads = 24,
                                     .names = 2,
                                     .readers_every = 3,
                                     .wait_ms = 60000,
                                     .calm = true};

    calm(&storm, "C1 readers and writers on 2 names side by side");
}

static void many_on_a_small_pool(void)
{
    static struct dlt_storm storm = {
        .clients = 1, .threads = 200, .names = 5, .wait_ms = 60000, .calm = true};
    size_t len = strlen(uri);

    (void)snprintf(uri + len, sizeof uri - len, "&connections=8");
    begin(&storm);
    (void)dlt_ok(dlt_storm_goes_on(&storm), "C13 200 threads on a pool of 8 take turns");
    dlt_storm_end(&storm);
    verdict(&storm, true);
    uri[len] = '\0';
}

static void backends_terminated(void)
{
    for (int i = 0; i < 15; i++) {
        sleep_ms(60);
        (void)dlt_postgres_ask(&server, "SELECT count(pg_terminate_backend(pid)) FROM "
                                        "pg_stat_activity WHERE usename = 'u'");
    }
}

static void crashes(void)
{
    for (int i = 0; i < 2; i++) {
        sleep_ms(100);
        dlt_postgres_kill(&server);
        sleep_ms(i * 500);
        if (!dlt_postgres_again(&server))
            abort();
    }
}

static void stopped_for_a_while(void)
{
    dlt_postgres_pause(&server, true);
    sleep_ms(1500);
    dlt_postgres_pause(&server, false);
}

static void no_connection_left(void)
{
    (void)dlt_postgres_ask(&server, "ALTER ROLE u CONNECTION LIMIT 2; "
                                    "SELECT count(pg_terminate_backend(pid)) FROM "
                                    "pg_stat_activity WHERE usename = 'u'");
    sleep_ms(1500);
    (void)dlt_postgres_ask(&server, "ALTER ROLE u CONNECTION LIMIT -1");
}

/* What strategy row promises throughout, strategy session promises while nobody ends its sessions;
 * then its fences tell them apart. */
static void bad_days(void)
{
    static const struct {
        const char *what;
        void (*happens)(void);
    } days[] = {
        {"C4 terminated backends", backends_terminated},
        {"C6 two crashes", crashes},
        {"C8 a stopped server", stopped_for_a_while},
        {"C13 no connections left", no_connection_left},
    };
    static struct dlt_storm storm = {.clients = 4, .threads = 24, .names = 3, .ttl_ms = 6000};

    begin(&storm);
    (void)dlt_ok(dlt_storm_goes_on(&storm), "C13 24 threads of 4 clients take turns");
    for (size_t i = 0; i < (brief ? 2 : sizeof days / sizeof days[0]); i++) {
        days[i].happens();
        (void)dlt_ok(dlt_storm_goes_on(&storm), "%s: they go on afterwards", days[i].what);
    }
    dlt_storm_end(&storm);
    verdict(&storm, !session);
}

int main(int argc, char **argv)
{
    const char *strategy = argc > 1 ? argv[1] : "row";

    brief = argc > 2 && strcmp(argv[2], "brief") == 0;
    session = strcmp(strategy, "session") == 0;
    if (!dlt_postgres_start(&server, lazy)) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    (void)snprintf(uri, sizeof uri, "postgresql://u:secret@%s/locks?strategy=%s", server.address,
                   strategy);
    readers_and_writers();
    if (!brief && !session) /* there each lock and each wait is a connection */
        many_on_a_small_pool();
    bad_days();
    dlt_postgres_stop(&server);
    return dlt_done();
}
