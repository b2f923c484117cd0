/* SPDX-License-Identifier: MIT */
/* Tests: plugins/etcd/connect.c plugins/etcd/exchange.c */
/*
 * test_etcd_rotate - the password is changed under a holder, in the file and at the cluster, which
 * ends all tokens of the user: the lease goes on (C14), and new locks are had.
 */
#include "etcd_server.h"
#include "rotation.h"
#include "tap.h"

#include <dlock/dlock.h>
#include <string.h>

static struct dlt_etcd server;
static char file[96];

/* etcdctl reads the password from the same file. */
static void rotate(const char *password)
{
    dlt_password_write(file, password);
    (void)dlt_ok(strstr(dlt_etcd_ask(&server, "user passwd u --interactive=false <%s", file),
                        "Password updated") != NULL,
                 "the cluster has the new password");
}

static void holder_test(struct dlock_client *client)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_handle *held = dlt_lock_new(client, "held"),
                        *other = dlt_lock_new(client, "other");
    enum dlock_status status = DLOCK_INTERNAL;

    (void)dlt_ok(dlock_lock(held, &err) == DLOCK_OK, "a lock is held: %s", err.message);
    rotate("second");
    (void)dlt_ok(dlock_timedlock(other, 10000, &err) == DLOCK_OK &&
                     dlock_unlock(other, &err) == DLOCK_OK,
                 "another lock is had after the rotation: %s", err.message);
    rotate("third");
    status = dlt_renew_until_answered(held, &err);
    (void)dlt_ok(status == DLOCK_OK, "C14: the holder renews: %s, %s",
                 dlock_status_name((int)status), err.message);
    dlt_password_write(file, "wrong");
    (void)dlt_etcd_ask(&server, "user passwd u --interactive=false <<E\nfourth\nE\n");
    status = dlock_timedlock(other, 3000, &err);
    (void)dlt_ok(status == DLOCK_AUTH, "with another password there is no lock: %s, %s",
                 dlock_status_name((int)status), err.message);
    (void)dlt_ok(strstr(err.message, "wrong") == NULL && strstr(err.message, "fourth") == NULL,
                 "C17: the message has no password");
    dlt_password_write(file, "fourth");
    status = dlt_renew_until_answered(held, &err);
    (void)dlt_ok(status == DLOCK_OK, "C14: the holder renews when the file is right again: %s, %s",
                 dlock_status_name((int)status), err.message);
    (void)dlt_ok(dlock_unlock(held, &err) == DLOCK_OK, "and unlocks: %s", err.message);
    dlock_free(other);
    dlock_free(held);
}

int main(void)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    char uri[384];

    if (!dlt_etcd_start(&server, NULL) || !dlt_etcd_auth(&server, "locks/")) {
        printf("Bail out! %s\n", server.why);
        return 1;
    }
    (void)snprintf(file, sizeof file, "%s/password", server.directory);
    dlt_password_write(file, "secret");
    (void)snprintf(uri, sizeof uri, "etcd://u@%s/locks?pass_file=%s&ttl=60s", server.hosts, file);
    if (dlt_ok(dlock_client_open(uri, NULL, &client, &err) == DLOCK_OK, "the store is opened: %s",
               err.message))
        holder_test(client);
    dlock_client_close(client);
    dlt_etcd_stop(&server);
    return dlt_done();
}
