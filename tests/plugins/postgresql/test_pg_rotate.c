/* SPDX-License-Identifier: MIT */
/*
 * test_pg_rotate - the password is changed under a holder, in the file and at the server, and the
 * holder's connections are ended: a lease goes on (C14), and so do new locks of each strategy.
 */
#include "postgres_server.h"
#include "rotation.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct dlt_postgres server;
static char file[96];

static void rotate(const char *password)
{
    (void)dlt_postgres_ask(&server, "ALTER ROLE u PASSWORD '%s'", password);
    dlt_password_write(file, password);
}

static void strategy_test(const char *strategy, bool leased, const char *from, const char *to)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct dlock *held = NULL, *other = NULL;
    enum dlock_status status = DLOCK_INTERNAL;
    char uri[256];

    dlt_password_write(file, from);
    (void)snprintf(uri, sizeof uri,
                   "postgresql://u@%s/locks?strategy=%s&table_prefix=%s_&pass_file=%s&ttl=60s",
                   server.address, strategy, strategy, file);
    status = dlock_client_open(uri, NULL, &client, &err);
    if (!dlt_ok(status == DLOCK_OK, "%s: the store is opened: %s", strategy, err.message))
        return;
    held = dlt_lock_new(client, "held");
    other = dlt_lock_new(client, "other");
    (void)dlt_ok(dlock_lock(held, &err) == DLOCK_OK, "%s: a lock is held: %s", strategy,
                 err.message);
    rotate(to);
    (void)dlt_ok(dlock_timedlock(other, 10000, &err) == DLOCK_OK &&
                     dlock_unlock(other, &err) == DLOCK_OK,
                 "%s: another lock is had after the rotation: %s", strategy, err.message);
    (void)dlt_postgres_ask(&server, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                    "WHERE usename = 'u'");
    status = dlt_renew_until_answered(held, &err);
    (void)dlt_ok(status == (leased ? DLOCK_OK : DLOCK_LOST),
                 "C14 %s: the holder whose connections were ended: %s, %s", strategy,
                 dlock_status_name((int)status), err.message);
    (void)dlock_unlock(held, &err);
    (void)dlt_ok(dlock_timedlock(other, 10000, &err) == DLOCK_OK, "%s: and a new lock is had: %s",
                 strategy, err.message);
    dlock_free(other);
    dlock_free(held);
    dlock_client_close(client);
}

int main(void)
{
    if (!dlt_postgres_start(&server, NULL)) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    (void)snprintf(file, sizeof file, "%s/password", server.directory);
    strategy_test("row", true, "secret", "second");
    strategy_test("session", false, "second", "third");
    dlt_postgres_stop(&server);
    return dlt_done();
}
