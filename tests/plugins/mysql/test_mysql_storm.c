/* SPDX-License-Identifier: MIT */
/*
 * test_mysql_storm STRATEGY [brief] - many threads on few names, while the server's connections are
 * killed, it is restarted and stopped (failures T38, T39, T62, T63; C1, C4, C6, C8, C13). brief:
 * some of that, in seconds.
 */
#include "storm_days.h"
#include "tap.h"

#include <mysql.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct dlt_maria maria;

/* T63: 1205, 1213, 1020 and 1062 reach nobody. */
static void neighbours(const char *uri)
{
    struct dlt_storm storm = {.uri = uri, .clients = 8, .threads = 16, .names = 2};

    dlt_storm_calm(&storm, "T63 16 threads of 8 clients on 2 rows side by side");
}

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* The connections of the storm before count until the server has seen their ends. */
static void await_no_connection(void)
{
    const char *left = "";

    for (int i = 0; i < 1000 && strcmp(left, "0") != 0; i++) {
        sleep_ms(10);
        left = dlt_maria_ask(&maria, "SELECT COUNT(*) FROM information_schema.processlist WHERE "
                                     "user = 'u'");
    }
}

/* Each of the two would like to have 16 connections, and as many again for its waiters. */
static void few_connections(const char *uri)
{
    struct dlt_storm storm = {.uri = uri, .clients = 2, .threads = 48, .names = 8};

    await_no_connection();
    (void)dlt_maria_ask(&maria, "SET GLOBAL max_connections = 10");
    dlt_storm_calm(&storm, "T38 48 threads share what connections there are");
    (void)dlt_maria_ask(&maria, "SET GLOBAL max_connections = 200");
}

/* By a connection of before: the administrator, too, would have to find one. */
static void no_connection_left(const struct dlt_store_server *server)
{
    static const char *const less = "SET GLOBAL max_connections = 10";
    static const char *const more = "SET GLOBAL max_connections = 200";
    MYSQL *admin = mysql_init(NULL);

    (void)server;
    if (admin == NULL ||
        mysql_real_connect(admin, NULL, "root", "", NULL, 0, maria.socket, 0) == NULL ||
        mysql_query(admin, less) != 0)
        abort();
    (void)mysql_query(admin, "KILL USER u");
    sleep_ms(1500);
    if (mysql_query(admin, more) != 0)
        abort();
    mysql_close(admin);
}

static const struct dlt_storm_day days[] = {
    {"T62 killed connections", dlt_storm_disconnects},
    {"T39 two restarts", dlt_storm_restarts},
    {"C8 a stopped server", dlt_storm_pause},
    {"T38 no connections left", no_connection_left},
};

/* What the row strategies promise throughout, strategy session promises while nobody ends its
 * sessions; then its fences tell them apart. */
int main(int argc, char **argv)
{
    const struct dlt_store_server server = dlt_store_maria(&maria);
    const char *strategy = argc > 1 ? argv[1] : "row";
    bool brief = argc > 2 && strcmp(argv[2], "brief") == 0;
    bool session = strcmp(strategy, "session") == 0;
    char uri[160];

    if (!dlt_maria_start(&maria, (const char *[]){"--max-connections=200", NULL})) {
        printf("Bail out! %s\n", maria.why);
        return 1;
    }
    (void)snprintf(uri, sizeof uri, "mysql://u:secret@%s/locks?strategy=%s", maria.address,
                   strategy);
    neighbours(uri);
    /* Shared mode changes two tables in a transaction. */
    dlt_storm_readers_and_writers(uri, 2, "T63 readers and writers on 2 rows side by side");
    if (!brief)
        dlt_storm_small_pool(uri);
    if (!session) /* there each lock and each wait is a connection */
        few_connections(uri);
    dlt_storm_days(uri, &server, days, brief ? 2 : sizeof days / sizeof days[0], !session);
    server.stop(server.self);
    return dlt_done();
}
