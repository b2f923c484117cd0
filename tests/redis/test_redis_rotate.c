/* SPDX-License-Identifier: MIT */
/*
 * The password is changed under a holder, in the file and at the server, and the holder's
 * connections are ended: the lock goes on (C14), and new ones are had. TAP.
 */
#include "redis_server.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static struct dlt_redis server;
static char file[160];

static void password_write(const char *password)
{
    char half[176];
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

int main(void)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct dlock *held = NULL, *other = NULL;
    enum dlock_status status = DLOCK_INTERNAL;
    char uri[300];

    if (!dlt_redis_start(&server, NULL))
        abort();
    (void)snprintf(file, sizeof file, "%s/password", server.directory);
    password_write("first");
    (void)dlt_redis_ask(&server, "ACL SETUSER app on >first ~* &* +@all");
    (void)snprintf(uri, sizeof uri, "redis://app@%s?restart_guard=0&ttl=60s&pass_file=%s",
                   server.address, file);
    status = dlock_client_open(uri, NULL, &client, &err);
    if (!dlt_ok(status == DLOCK_OK, "the store is opened: %s", err.message))
        return dlt_done();
    held = lock_new(client, "held");
    other = lock_new(client, "other");
    (void)dlt_ok(dlock_lock(held, &err) == DLOCK_OK, "a lock is held: %s", err.message);
    (void)dlt_redis_ask(&server, "ACL SETUSER app resetpass >second");
    password_write("second");
    (void)dlt_redis_ask(&server, "CLIENT KILL USER app");
    status = renewed(held, &err);
    (void)dlt_ok(status == DLOCK_OK, "C14 the holder whose connections were ended goes on: %s",
                 err.message);
    (void)dlt_ok(dlock_timedlock(other, 10000, &err) == DLOCK_OK, "and a new lock is had: %s",
                 err.message);
    (void)dlt_ok(dlock_unlock(held, &err) == DLOCK_OK, "unlock: %s", err.message);
    dlock_free(other);
    dlock_free(held);
    dlock_client_close(client);
    dlt_redis_stop(&server);
    return dlt_done();
}
