/* SPDX-License-Identifier: MIT */
/*
 * test_mysql_storm STRATEGY [brief] - many threads on few names, while the server's connections are
 * killed, it is restarted and stopped (failures T38, T39, T62, T63; C1, C4, C6, C8, C13). brief:
 * some of that, in seconds.
 */
#include "maria_server.h"
#include "storm.h"
#include "tap.h"

#include <mysql.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct dlt_maria server;
static char uri[160];
static bool brief;

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
        printf("# %d overlaps after killed sessions, in %ld acquisitions\n", (int)storm->overlaps,
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
    sleep_ms(1000);
    (void)dlt_ok(dlt_storm_goes_on(storm), "C13 they all go on");
    dlt_storm_end(storm);
    verdict(storm, true);
}

/* T63: 1205, 1213, 1020 and 1062 reach nobody. */
static void neighbours(void)
{
    static struct dlt_storm storm = {
        .clients = 8, .threads = 16, .names = 2, .wait_ms = 60000, .calm = true};

    calm(&storm, "T63 16 threads of 8 clients on 2 rows side by side");
}

/* Shared mode changes two tables in a transaction. */
static void readers_and_writers(void)
{
    static struct dlt_storm storm = {.clients = 8,
                                     .threads = 24,
                                     .names = 2,
                                     .readers_every = 2,
                                     .wait_ms = 60000,
                                     .calm = true};

    calm(&storm, "T63 readers and writers on 2 rows side by side");
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

/* Each of the two would like to have 16 connections, and as many again for its waiters. */
static void few_connections(void)
{
    static struct dlt_storm storm = {
        .clients = 2, .threads = 48, .names = 8, .wait_ms = 60000, .calm = true};

    (void)dlt_maria_ask(&server, "SET GLOBAL max_connections = 10");
    calm(&storm, "T38 48 threads share what connections there are");
    (void)dlt_maria_ask(&server, "SET GLOBAL max_connections = 200");
}

static void connections_killed(void)
{
    for (int i = 0; i < 15; i++) {
        sleep_ms(60);
        (void)dlt_maria_ask(&server, "KILL USER u");
    }
}

static void restarts(void)
{
    for (int i = 0; i < 2; i++) {
        sleep_ms(100);
        dlt_maria_kill(&server);
        sleep_ms(i * 500);
        if (!dlt_maria_again(&server))
            abort();
    }
}

static void stopped_for_a_while(void)
{
    dlt_maria_pause(&server, true);
    sleep_ms(1500);
    dlt_maria_pause(&server, false);
}

/* By a connection of before: the administrator, too, would have to find one. */
static void no_connection_left(void)
{
    static const char *const less = "SET GLOBAL max_connections = 10";
    static const char *const more = "SET GLOBAL max_connections = 200";
    MYSQL *admin = mysql_init(NULL);

    if (admin == NULL ||
        mysql_real_connect(admin, NULL, "root", "", NULL, 0, server.socket, 0) == NULL ||
        mysql_query(admin, less) != 0)
        abort();
    (void)mysql_query(admin, "KILL USER u");
    sleep_ms(1500);
    if (mysql_query(admin, more) != 0)
        abort();
    mysql_close(admin);
}

/* What the row strategies promise throughout, strategy session promises while nobody ends its
 * sessions; then its fences tell them apart. */
static void bad_days(bool exclusive)
{
    static const struct {
        const char *what;
        void (*happens)(void);
    } days[] = {
        {"T62 killed connections", connections_killed},
        {"T39 two restarts", restarts},
        {"C8 a stopped server", stopped_for_a_while},
        {"T38 no connections left", no_connection_left},
    };
    static struct dlt_storm storm = {.clients = 4, .threads = 24, .names = 3, .ttl_ms = 6000};

    begin(&storm);
    (void)dlt_ok(dlt_storm_goes_on(&storm), "C13 24 threads of 4 clients take turns");
    for (size_t i = 0; i < (brief ? 2 : sizeof days / sizeof days[0]); i++) {
        days[i].happens();
        (void)dlt_ok(dlt_storm_goes_on(&storm), "%s: they go on afterwards", days[i].what);
    }
    dlt_storm_end(&storm);
    verdict(&storm, exclusive);
}

int main(int argc, char **argv)
{
    const char *strategy = argc > 1 ? argv[1] : "row";

    brief = argc > 2 && strcmp(argv[2], "brief") == 0;
    if (!dlt_maria_start(&server, (const char *[]){"--max-connections=200", NULL})) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    (void)snprintf(uri, sizeof uri, "mysql://u:secret@%s/locks?strategy=%s", server.address,
                   strategy);
    neighbours();
    readers_and_writers();
    if (!brief)
        many_on_a_small_pool();
    if (strcmp(strategy, "session") != 0) /* there each lock and each wait is a connection */
        few_connections();
    bad_days(strcmp(strategy, "session") != 0);
    dlt_maria_stop(&server);
    return dlt_done();
}
