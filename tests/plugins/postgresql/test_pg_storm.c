/* SPDX-License-Identifier: MIT */
/*
 * test_pg_storm STRATEGY [brief] - many threads on few names, while the server's backends are
 * terminated, it crashes and is stopped (C1, C4, C6, C8, C13). A commit of this server does not
 * wait for its log, whatever is not asked for loses the last seconds in a crash. brief: some of
 * that.
 */
#include "storm_days.h"
#include "tap.h"

#include <string.h>
#include <time.h>

static const char *const lazy[] = {"-c", "synchronous_commit=off",     "-c", "wal_writer_delay=10s",
                                   "-c", "wal_writer_flush_after=1GB", NULL};

static struct dlt_postgres postgres;

static void no_connection_left(const struct dlt_store_server *server)
{
    (void)dlt_postgres_ask(&postgres, "ALTER ROLE u CONNECTION LIMIT 2");
    server->disconnect(server->self);
    (void)nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 500000000}, NULL);
    (void)dlt_postgres_ask(&postgres, "ALTER ROLE u CONNECTION LIMIT -1");
}

static const struct dlt_storm_day days[] = {
    {"C4 terminated backends", dlt_storm_disconnects},
    {"C6 two crashes", dlt_storm_restarts},
    {"C8 a stopped server", dlt_storm_pause},
    {"C13 no connections left", no_connection_left},
};

/* What strategy row promises throughout, strategy session promises while nobody ends its sessions;
 * then its fences tell them apart. */
int main(int argc, char **argv)
{
    const struct dlt_store_server server = dlt_store_postgres(&postgres);
    const char *strategy = argc > 1 ? argv[1] : "row";
    bool brief = argc > 2 && strcmp(argv[2], "brief") == 0;
    bool session = strcmp(strategy, "session") == 0;
    char uri[160];

    if (!dlt_postgres_start(&postgres, lazy)) {
        printf("Bail out! %s\n", postgres.why);
        return 1;
    }
    (void)snprintf(uri, sizeof uri, "postgresql://u:secret@%s/locks?strategy=%s", postgres.address,
                   strategy);
    dlt_storm_readers_and_writers(uri, 3, "C1 readers and writers on 2 names side by side");
    if (!brief && !session) /* there each lock and each wait is a connection */
        dlt_storm_small_pool(uri);
    dlt_storm_days(uri, &server, days, brief ? 2 : sizeof days / sizeof days[0], !session);
    server.stop(server.self);
    return dlt_done();
}
