/* SPDX-License-Identifier: MIT */
/*
 * The password is changed under a holder, in the file and at the server, and the holder's
 * connections are ended: the lock goes on (C14), and new ones are had. TAP.
 */
#include "redis_server.h"
#include "rotation.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <stdlib.h>
#include <string.h>

static struct dlt_redis server;
static char file[160];

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
    dlt_password_write(file, "first");
    (void)dlt_redis_ask(&server, "ACL SETUSER app on >first ~* &* +@all");
    (void)snprintf(uri, sizeof uri, "redis://app@%s?restart_guard=0&ttl=60s&pass_file=%s",
                   server.address, file);
    status = dlock_client_open(uri, NULL, &client, &err);
    if (!dlt_ok(status == DLOCK_OK, "the store is opened: %s", err.message))
        return dlt_done();
    held = dlt_lock_new(client, "held");
    other = dlt_lock_new(client, "other");
    (void)dlt_ok(dlock_lock(held, &err) == DLOCK_OK, "a lock is held: %s", err.message);
    (void)dlt_redis_ask(&server, "ACL SETUSER app resetpass >second");
    dlt_password_write(file, "second");
    (void)dlt_redis_ask(&server, "CLIENT KILL USER app");
    status = dlt_renew_until_answered(held, &err);
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
