/* SPDX-License-Identifier: MIT */
/*
 * test_mysql_rotate - the password is changed under a holder, in the file and at the server, and
 * the holder's connections are ended: a lease goes on (C14), and so do new locks of each strategy.
 */
#include "maria_server.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct dlt_maria server;
static char file[96];

static void password_write(const char *password)
{
    char half[112];
    FILE *out = NULL;

    (void)snprintf(half, sizeof half, "%s.half", file);
    out = fopen(half, "we");
    if (out == NULL || fchmod(fileno(out), 0600) != 0 || fprintf(out, "%s\n", password) < 0 ||
        fclose(out) != 0 || rename(half, file) != 0)
        abort();
}

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static struct dlock *lock_new(struct dlock_client *client, const char *name)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock *lock = NULL;

    if (dlock_new(client, name, strlen(name), NULL, &lock, &err) != DLOCK_OK)
        abort();
    return lock;
}

/* As the keeper does it: until it is answered, or 10 s are over. */
static enum dlock_status renewed(struct dlock *lock, struct dlock_error *err)
{
    enum dlock_status status = DLOCK_UNKNOWN;

    for (int i = 0; i < 100 && status != DLOCK_OK && status != DLOCK_LOST; i++) {
        status = dlock_renew(lock, 0, err);
        sleep_ms(status == DLOCK_OK ? 0 : 100);
    }
    return status;
}

static void rotate(const char *password)
{
    (void)dlt_maria_ask(&server, "ALTER USER u IDENTIFIED BY '%s'", password);
    password_write(password);
}

static void strategy_test(const char *strategy, bool leased, const char *from, const char *to)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct dlock *held = NULL, *other = NULL;
    enum dlock_status status = DLOCK_INTERNAL;
    char uri[256];

    password_write(from);
    (void)snprintf(uri, sizeof uri,
                   "mysql://u@%s/locks?strategy=%s&table_prefix=%s_&pass_file=%s&ttl=60s",
                   server.address, strategy, strategy, file);
    status = dlock_client_open(uri, NULL, &client, &err);
    if (!dlt_ok(status == DLOCK_OK, "%s: the store is opened: %s", strategy, err.message))
        return;
    held = lock_new(client, "held");
    other = lock_new(client, "other");
    (void)dlt_ok(dlock_lock(held, &err) == DLOCK_OK, "%s: a lock is held: %s", strategy,
                 err.message);
    rotate(to);
    (void)dlt_ok(dlock_timedlock(other, 10000, &err) == DLOCK_OK &&
                     dlock_unlock(other, &err) == DLOCK_OK,
                 "%s: another lock is had after the rotation: %s", strategy, err.message);
    (void)dlt_maria_ask(&server, "KILL USER u");
    status = renewed(held, &err);
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
    if (!dlt_maria_start(&server, NULL)) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    (void)snprintf(file, sizeof file, "%s/password", server.directory);
    strategy_test("row", true, "secret", "second");
    strategy_test("session", false, "second", "third");
    dlt_maria_stop(&server);
    return dlt_done();
}
